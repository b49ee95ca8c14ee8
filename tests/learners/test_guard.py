"""The guard: its transcription, the theorem's parts one by one, scorers that are wrong on purpose, and changes."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

import reference
from gappletron import (
    ArrayStream,
    BurnIn,
    Chunk,
    EpsilonGreedy,
    FeedbackGraph,
    Greedy,
    Player,
    TopUp,
    UserError,
    interpreted,
    named,
)
from gappletron.kernel.state import Field
from gappletron.learners.exploration.secure import value
from gappletron.learners.guard import ALLOWED, ETA, GAMMA, TRUST, Guarded
from gappletron.learners.run_bound import DISTRUST
from gappletron.learners.scorers import GivenScores, Scorer, Tracking
from gappletron.play.checks import check_many_scores
from problems import GRAPHS, random_graph, small_stream

RANDOM = {
    "random": random_graph(np.random.default_rng(1), 5),
    "random with extras": random_graph(np.random.default_rng(2), 4, 2),
    "no self-loops": FeedbackGraph(np.roll(np.eye(5), 1, axis=1)),
    "two reveal": FeedbackGraph.filtering(4, revealing=[1, 2]),
}
ALL = {**GRAPHS, **RANDOM}
COSTS = {
    f"{name} with costs": graph.with_costs(np.random.default_rng(7).random((graph.n_actions, graph.n_classes)))
    for name, graph in ALL.items()
}
EVERY = {**ALL, **COSTS}


def draws_of(seed, rounds):
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0,)))).random(rounds)


def parts_of(graph):
    return graph.visible, graph.dominating_indices, graph.costs


def play_given(player, X, y, given=None, graphs=None, late=0):
    """One at a time, each feedback so many rounds late; the actions, V_t of every round as the guard sees it, and what
    it may be.
    """
    actions, told, waiting = [], [], []
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        graph = player.graph if graphs is None else graphs[t]
        vector = player.check(x)
        turn = player.new_turn(vector, graph, given=None if given is None else given[t])
        assert player.draw(turn, vector, player.rounds)
        state, plan = player.engine.state.tuple, player.learner.plan(graph)
        told.append(
            (
                value(plan.table.game, state.losses, state.prices, turn.probabilities, state.room),
                plan.table.largest * state.rates[GAMMA if graph.visible[turn.greedy, turn.greedy] else ALLOWED],
                turn.probabilities.copy(),
            )
        )
        actions.append(turn.action)
        waiting.append((turn, int(label) if graph.visible[turn.action, label] else -1))
        if len(waiting) > late:
            player.learn(*waiting.pop(0))
    return actions, told


# ------------------------------------------------------------------------------------------------ against the reference


class Stubborn(Scorer):
    """The default's scorer, which does not say that it learns: where it fails, the guard leaves it out at first."""

    inner: Tracking = Tracking(alarm=0.5)

    def declare(self):
        return self.inner.declare()

    def judge(self, state, x, given, has_given, out):
        self.inner.judge(state, x, given, has_given, out)

    def absorb(self, state, plan, x, played):
        return self.inner.absorb(state, plan, x, played)

    def uncertainty(self, state, x, a, b):
        return self.inner.uncertainty(state, x, a, b)

    def recency(self, state):
        return self.inner.recency(state)

    def suspicion(self, state):
        return self.inner.suspicion(state)

    def changes(self, state):
        return self.inner.changes(state)

    def weights(self, state):
        return self.inner.weights(state)


@pytest.mark.parametrize("graph", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("scorer", [Tracking(alarm=0.5), Stubborn()], ids=["learns", "does not learn"])
@pytest.mark.parametrize("scores", [False, True], ids=["alone", "with scores"])
def test_it_is_its_transcription(graph, scorer, scores):
    rng = np.random.default_rng(graph.n_edges)
    X, y = small_stream(rng, 150, 6, graph.n_classes)
    y[60:110] = (y[60:110] + 1) % graph.n_classes  # there and back
    given = rng.uniform(-1, 1, (150, graph.n_classes)) if scores else None
    with interpreted():
        player = Player(Guarded(scorer), graph, 6, seed=3, normalize=None, bias=False)
        actions, told = play_given(player, X, y, given)
        expected = reference.guarded(
            X, y, parts_of(graph), draws_of(3, 150), given, alarm=0.5, learns=type(scorer) is Tracking
        )
    assert actions == expected[0]
    # Both round to single floats at the same places: a sum in another order changes the last digit of one in 10^8.
    np.testing.assert_allclose(player.weights.T, expected[1].slow.W, rtol=1e-9, atol=1e-12)
    state = player.engine.state.tuple.scorer
    K = graph.n_classes
    np.testing.assert_allclose(state.fast.weights[:, :K].T, expected[1].fast.W, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.third.weights[:, :K].T, expected[1].W, rtol=1e-9, atol=1e-12)
    for (V, most, p), (V2, most2, p2) in zip(told, expected[2], strict=True):
        assert pytest.approx(V2, rel=1e-9, abs=1e-12) == V
        assert most == pytest.approx(most2, rel=1e-9)
        np.testing.assert_allclose(p, p2, atol=1e-9)


def test_a_graph_that_changes_every_round():
    rng = np.random.default_rng(8)
    X, y = small_stream(rng, 120, 5, 4)
    graphs = [FeedbackGraph(random_graph(rng, 4, 1).visible, range(4), [0, 1, 2, 3, "ask"]) for _ in range(120)]
    with interpreted():
        player = Player("auto", graphs[0], 5, seed=3, normalize=None, bias=False)
        actions, _ = play_given(player, X, y, graphs=graphs)
        expected = reference.guarded(X, y, [parts_of(graph) for graph in graphs], draws_of(3, 120))
        assert actions == expected[0]
        # With the largest steps that the largest rho so far allows, V_t stays within its limit, and eta never grows.
        assert len({graph.rho for graph in graphs}) > 1
        player, etas = Player(Guarded(GivenScores(), kappa=1.0), graphs[0], 5, seed=3, normalize=None, bias=False), []
        for t in range(120):
            scores, phase = [some_scores("wrong", rng, t, 4, y[t])], player.engine.state.tuple.phase[0]
            [(V, most, _)] = play_given(player, X[t : t + 1], y[t : t + 1], scores, graphs[t : t + 1])[1]
            assert most * (1 + 1e-9) >= V
            etas.append((phase, player.engine.state.tuple.rates[ETA]))
        assert all(b <= a for (i, a), (j, b) in itertools.pairwise(etas) if i == j)


@pytest.mark.parametrize("graph", ["bandit", "label efficient", "random with extras with costs"])
def test_bulk_single_and_interpreted_rounds_give_the_same_bits(graph):
    graph = EVERY[graph]
    rng = np.random.default_rng(5)
    X, y = small_stream(rng, 200, 6, graph.n_classes)
    S = rng.random((200, graph.n_classes))
    chunk = next(ArrayStream(X, [graph.classes[k] for k in y], classes=graph.classes).chunks())

    def players():
        single, bulk = (Player("auto", graph, 6, seed=3) for _ in range(2))
        for x, label, scores in zip(X, y, S, strict=True):
            turn = single.act(x, scores=dict(zip(graph.classes, scores, strict=True)))
            single.learn(turn, int(label) if graph.visible[turn.action, label] else -1)
        bulk.advance(chunk, scores=S)
        return single, bulk

    made = [*players()]
    with interpreted():
        made += players()
    for other in made[1:]:
        assert other.engine.state == made[0].engine.state
    again = Player.from_bytes(made[0].to_bytes())
    for player in (made[0], again):
        player.advance(chunk, scores=S)
    assert again.engine.state == made[0].engine.state


# ---------------------------------------------------------------------------------------------------------- the theorem


def some_scores(kind, rng, t, K, y):
    match kind:
        case "random":
            return rng.uniform(-1, 1, K)
        case "constant":
            return np.linspace(-1, 1, K)
        case "wrong":
            return np.where(np.arange(K) == (y + 1) % K, 1.0, -1.0)
        case "fickle":
            return np.where(np.arange(K) == (y if t // 20 % 2 else (y + 1) % K), 1.0, -1.0)
        case _:
            return np.zeros(K)


@pytest.mark.parametrize("kind", ["random", "constant", "wrong", "fickle", "nothing"])
def test_the_value_of_every_distribution_is_at_most_what_is_allowed(kind):
    """V_t(p_t) <= C a_t in every state that a play visits: graphs, costs, K up to 100, large and small steps."""
    rng = np.random.default_rng(11)
    graphs = [*EVERY.values(), *(random_graph(rng, K, extra) for K, extra in ((7, 0), (12, 2), (30, 0)))]
    graphs += [FeedbackGraph.bandit(100), FeedbackGraph.label_efficient(100), FeedbackGraph.full(40)]
    with interpreted():
        for graph in graphs:
            K = graph.n_classes
            rounds = 40 if K < 10 else 15
            X, y = small_stream(rng, rounds, 4, K)
            given = [some_scores(kind, rng, t, K, y[t]) for t in range(rounds)]
            for learner in (Guarded(GivenScores()), Guarded(GivenScores(), kappa=1.0, c=0.5), Guarded(kappa=0.3)):
                player = Player(learner, graph, 4, seed=1, normalize=None, bias=False)
                for V, most, p in play_given(player, X, y, given)[1]:
                    assert most * (1 + 1e-9) >= V
                    assert (p >= 0).all()
                    assert p.sum() == pytest.approx(1.0, abs=1e-12)


class Suspicious(Scorer):
    """Given scores, with suspicions of a change that come and go."""

    inner: Scorer = GivenScores()

    def declare(self):
        return {"inner": self.inner.declare(), "heard": Field()}

    def judge(self, state, x, given, has_given, out):
        self.inner.judge(state.inner, x, given, has_given, out)

    def absorb(self, state, plan, x, played):
        state.heard[0] += 1.0
        return 0

    def suspicion(self, state):
        return 0.9 if state.heard[0] % 10.0 > 8.0 else 0.0


@pytest.mark.parametrize("graph", ["filtering", "label efficient", "no self-loops", "two reveal"])
def test_what_earlier_rounds_have_left_is_spent_while_a_change_is_suspected(graph):
    """sum max(0, V) <= 2 c C sqrt(n) after every round of a phase, though single V are far above gamma."""
    graph = EVERY[graph]
    rng = np.random.default_rng(21)
    X, y = small_stream(rng, 400, 4, graph.n_classes)
    given = [np.where(np.arange(graph.n_classes) == y[t], 1.0, -1.0) for t in range(400)]
    for c, delay in ((1.0, 0), (0.4, 0), (1.0, 5)):
        with interpreted():
            player = Player(Guarded(Suspicious(), c=c, delay=delay), graph, 4, seed=1, normalize=None, bias=False)
            told = play_given(player, X, y, given)[1]
        assert player.engine.state.tuple.phase[0] == 0
        C, paid, n, largest = player.learner.plan(graph).table.largest, 0.0, 0, 0.0
        for V, most, _ in told:
            assert most * (1 + 1e-9) >= V
            largest = max(largest, V / (C * min(0.5, c / math.sqrt(1 + n))))
            n += V > 0
            paid += max(0.0, V)
            assert paid <= 2 * c * C * math.sqrt(n) * (1 + 1e-9)
        assert largest > 3


def test_late_feedback_leaves_room_for_its_price():
    """With `delay` the losses are less by delay eta G ||g||, and still V <= C a_t, also where a change is suspected."""
    rng = np.random.default_rng(12)
    with interpreted():
        for graph in (EVERY["bandit"], EVERY["filtering"], EVERY["label efficient"], EVERY["random"]):
            for scorer in (GivenScores(), Suspicious()):
                X, y = small_stream(rng, 80, 4, graph.n_classes)
                given = [rng.uniform(-1, 1, graph.n_classes) for _ in range(80)]
                player = Player(Guarded(scorer, delay=20), graph, 4, seed=1, normalize=None, bias=False)
                told = play_given(player, X, y, given, late=20)[1]
                assert all(most * (1 + 1e-9) >= V for V, most, _ in told)


def test_late_feedback_of_an_earlier_phase_is_not_covered():
    """Scores that are wrong on purpose: the guard begins a phase, while feedback is on its way."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    given = np.where(np.eye(2)[y] > 0, -0.9, 0.9)
    for late in (0, 5):
        player = Player(Guarded(GivenScores(), delay=5), FeedbackGraph.full(2), 3, seed=1)
        play_given(player, X, y, given, late=late)
        assert player.bound().phases > 1
        assert player.bound().is_proved == (late == 0)
        assert ("may have come after the guard began a new phase" in str(player.bound())) == (late > 0)


def test_full_information_needs_no_exploration():
    """V_t <= 0 in every round, so that gamma stays 1/2: what rounding errors add counts for nothing."""
    player = Player("auto", FeedbackGraph.full(100), 120)
    player.advance(changing_stream(100, 3000, noise=0.05))
    assert player.engine.state.tuple.blind[0] == 0
    assert player.bound().value_sum == 0.0


def test_the_steps_keep_the_regret_of_the_leader():
    """sum <v g, theta_t - theta> <= ||theta - theta_1||^2 / (2 eta_T) + sum eta_t/2 ||v g||^2, for random theta."""
    rng = np.random.default_rng(13)
    graph, d = FeedbackGraph.bandit(3), 4
    X, y = small_stream(rng, 300, d, 3)
    with interpreted():
        player = Player(Guarded(GivenScores()), graph, d, seed=2, normalize=None, bias=False)
        thetas, gradients, rates = [], [], []
        for t in range(300):
            b = some_scores("fickle", rng, t, 3, y[t])
            vector = player.check(X[t])
            turn = player.new_turn(vector, given=b)
            before = player.engine.state.tuple
            Z, slopes = before.gradients[:, :3].copy(), before.slopes.copy()
            player.draw(turn, vector, player.rounds)
            state = player.engine.state.tuple
            if state.phase[0] > 0:
                break
            eta = state.rates[1]
            thetas.append(np.concatenate([-eta * Z.ravel(), [1 - eta * slopes[0], -eta * slopes[1]]]))
            player.learn(turn, int(y[t]) if turn.action == y[t] else -1)
            after = player.engine.state.tuple
            moved = np.concatenate([(after.gradients[:, :3] - Z).ravel(), after.slopes - slopes])
            if after.phase[0] > 0:
                break
            gradients.append(moved)
            rates.append(eta)
        assert len(rates) > 20
    thetas, gradients, rates = np.array(thetas[: len(rates)]), np.array(gradients), np.array(rates)
    assert (np.diff(rates) <= 0).all()
    first = np.zeros(gradients.shape[1])
    first[-2] = 1.0
    paid = (rates / 2 * (gradients**2).sum(axis=1)).sum()
    for scale in (0.0, 0.1, 1.0, 10.0):
        for _ in range(20):
            theta = first + scale * rng.normal(size=first.size)
            regret = (gradients * (thetas - theta)).sum()
            assert regret <= ((theta - first) ** 2).sum() / (2 * rates[-1]) + paid + 1e-9


@pytest.mark.parametrize("graph", ["bandit", "filtering", "label efficient", "random", "full with costs"])
def test_the_inequality_of_one_round_by_enumeration(graph):
    """For every label: the expected cost is at most V + c l - s/P, which pays for the step's expected stability."""
    graph = EVERY[graph]
    rng = np.random.default_rng(14)
    X, y = small_stream(rng, 60, 4, graph.n_classes)
    costs = graph.costs - graph.costs[np.arange(graph.n_classes), np.arange(graph.n_classes)]
    with interpreted():
        player = Player(Guarded(GivenScores()), graph, 4, seed=1, normalize=None, bias=False)
        for x, label in zip(X, y, strict=True):
            vector = player.check(x)
            turn = player.new_turn(vector, given=rng.uniform(-1, 1, graph.n_classes))
            player.draw(turn, vector, player.rounds)
            state, p = player.engine.state.tuple, turn.probabilities
            x = x * turn.kept[-1]  # noqa: PLW2901 - as the guard sees it
            V = value(player.engine.plan.table.game, state.losses, state.prices, p, state.room)
            for k in range(graph.n_classes):
                P = p[graph.visible[:, k]].sum()
                eta, c = state.rates[1], costs[:, k].max()
                s = turn.scores
                slope = np.abs(reference.loss_gradient("smooth hinge", s, k)).max()
                other = int(np.argmax(s)) if k != np.argmax(s) else reference.margin(s, k)[1]
                b = state.adjusted[k] - state.adjusted[other]
                norm = c * c * slope**2 * (2 * (x @ x) + state.rates[TRUST] * b * b)
                stability = 0.0 if P == 0 else P * eta / 2 * norm / P**2  # E[v^2] eta/2 ||g||^2 with v = 1/P or 0
                loss = c * reference.smooth_hinge(s, k)
                assert p @ costs[:, k] <= V + loss - stability + 1e-9
            player.learn(turn, int(label) if graph.visible[turn.action, label] else -1)


@pytest.mark.parametrize("delay", [1, 25])
@pytest.mark.parametrize("K", [2, 20, 100])
@pytest.mark.parametrize("preset", ["bandit", "filtering", "label-efficient", "full"])
def test_probabilities_add_up_to_one_where_feedback_is_late(preset, K, delay):
    rng = np.random.default_rng(K)
    player = Player(Guarded(GivenScores(), delay=delay), FeedbackGraph.preset(preset, K), 3, normalize=None, bias=False)
    for _ in range(30):
        turn = player.act(rng.normal(size=3), scores=rng.dirichlet(np.ones(K)))
        assert turn.probabilities.sum() == pytest.approx(1.0)
        assert (turn.probabilities >= 0.0).all()


@pytest.mark.parametrize("rule", [TopUp(), EpsilonGreedy(0.3), Greedy(), BurnIn(50)], ids=repr)
@pytest.mark.parametrize("graph", ["full", "filtering", "two reveal", "random", "full with costs"])
def test_every_exploration_rule_is_secured(rule, graph):
    """Scores that are sure of the right class: then nothing but exploring is paid for."""
    graph, rng = EVERY[graph], np.random.default_rng(5)
    with interpreted():
        player = Player(Guarded(GivenScores(), exploration=rule), graph, 3, seed=2, normalize=None, bias=False)
        X, y = rng.normal(size=(80, 3)), rng.integers(0, graph.n_classes, 80)
        given = np.where(np.eye(graph.n_classes)[y] > 0, 0.5, -0.5)
        for value_of, most, p in play_given(player, X, y, given)[1]:
            assert value_of <= most + 1e-9
            assert p.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("unit", [2.0**-20, 1e-4, 100.0])
def test_the_unit_of_costs_does_not_matter(unit):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(1500, 3)), rng.integers(0, 2, 1500)
    X[:, 0] = np.where(y == 1, 1.0, -1.0)
    graph = FeedbackGraph.filtering(2)
    found = []
    for factor in (2.0, 2.0 * unit):
        priced = graph.with_costs(factor * np.array([[0.0, 1.0], [1.0, 0.0]]))
        player = Player(Guarded(GivenScores()), priced, 3, seed=1)
        # Scores that are wrong on purpose: the guard must find out, in any unit.
        found.append(play_given(player, X, y, np.where(np.eye(2)[y] > 0, -0.9, 0.9))[0])
    assert np.mean(np.array(found[0]) == np.array(found[1])) > 0.99


def test_one_long_row_does_not_make_all_steps_small():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(3000, 3)), rng.integers(0, 2, 3000)
    X[:, 0] = np.where(y == 1, 1.0, -1.0)
    wrong = np.where(np.eye(2)[y] > 0, -0.9, 0.9)
    mistakes = []
    for factor in (1.0, 1e6):
        X[5] = factor * np.array([1.0 if y[5] else -1.0, 0.3, 0.2])
        player = Player(Guarded(GivenScores()), FeedbackGraph.full(2), 3, seed=1, normalize=None, bias=False)
        mistakes.append(np.sum(np.array(play_given(player, X, y, wrong)[0]) != y))
    assert mistakes[0] < 600
    assert mistakes[1] < 1.3 * mistakes[0]


def test_costs_that_are_all_the_same():
    player = Player("auto", FeedbackGraph.full(2).with_costs(np.full((2, 2), 3.0)), 2)
    for label in (0, 1, 1):
        player.learn(player.act([1.0, 2.0]), label)
    assert np.isfinite(player.scores([[1.0, 2.0]])).all()


@pytest.mark.parametrize("reveals", [True, False])
def test_a_cheaper_action_is_played_also_where_the_best_class_reveals(reveals):
    """Labels are coin flips, a mistake costs 10, and asking somebody else 1."""
    visible = [[reveals] * 2, [reveals] * 2, [True] * 2]
    graph = FeedbackGraph(visible, actions=[0, 1, "review"], classes=[0, 1], costs=[[0, 10.0], [10, 0], [1, 1]])
    rng = np.random.default_rng(1)
    player, reviewed = Player("auto", graph, 2, seed=4), []
    for label in rng.integers(0, 2, 600):
        turn = player.act([1.0, 0.5])
        reviewed.append(turn.action == 2)
        player.learn(turn, int(label) if graph.visible[turn.action, label] else -1)
    assert np.mean(reviewed[200:]) > 0.7


def test_what_is_not_proved_is_said():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    player = Player("auto", FeedbackGraph.filtering(2), 2)
    for x, label in zip(X, y, strict=True):
        turn = player.act(x)
        player.learn(turn, int(label) if turn.action == 0 else -1)
    assert player.bound().is_proved
    assert not player.bound(waiting=3).is_proved
    player.teach(Chunk(np.array([0, 2]), np.array([0, 1], np.int32), np.ones(2), np.array([1])))
    assert "1 of the rounds were taught" in str(player.bound())
    full = Player("auto", FeedbackGraph.full(2), 2)
    for x, label in zip(X, y, strict=True):
        full.learn(full.act(x), int(label))
    assert full.bound().scorer_error == 0.0


@pytest.mark.parametrize("preset", ["bandit", "filtering", "full"])
def test_few_restarts_on_noise(preset):
    """100 players see labels that nothing predicts. About 10 restarts are usual; 35 have a chance below 1e-9."""
    restarts = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(400, 5)), rng.integers(0, 3, 400)
        chunk = Chunk(np.arange(0, 2001, 5), np.tile(np.arange(5, dtype=np.int32), 400), X.ravel(), y)
        player = Player("auto", FeedbackGraph.preset(preset, 3), 5, seed=seed)
        player.advance(chunk)
        restarts += player.restart_count
    assert restarts < 35


@pytest.mark.parametrize("preset", ["bandit", "filtering", "label-efficient", "full"])
def test_the_bound_in_simulation(preset):
    """The mean of the mistakes of 25 runs is below that of the scorer's losses plus the sums of V, for an adversary
    that gives the label which the guard is least likely to predict, and random scores.

    The mean of the difference must be below 4 standard errors: a false alarm has a probability below 1e-4.
    """
    K, rounds = 3, 100
    graph = FeedbackGraph.preset(preset, K)
    gaps = []
    with interpreted():
        for seed in range(25):
            rng = np.random.default_rng(seed)
            player = Player(Guarded(GivenScores()), graph, 3, seed=seed, normalize=None, bias=False)
            mistakes = losses = values = 0.0
            for _ in range(rounds):
                x, b = rng.normal(size=3), rng.uniform(-1, 1, K)
                vector = player.check(x)
                turn = player.new_turn(vector, given=b)
                player.draw(turn, vector, player.rounds)
                state = player.engine.state.tuple
                y = int(np.argmin(turn.probabilities[:K]))
                values += max(
                    0.0,
                    value(player.engine.plan.table.game, state.losses, state.prices, turn.probabilities, state.room),
                )
                losses += reference.smooth_hinge(b, y)
                mistakes += 1.0 - turn.probabilities[y]  # the expectation, given the past
                player.learn(turn, y if graph.visible[turn.action, y] else -1)
            gaps.append(mistakes - losses - values - DISTRUST * player.bound().distance_from_nothing)
    assert np.mean(gaps) <= 4 * np.std(gaps) / math.sqrt(len(gaps))


# --------------------------------------------------------------------------------------------------- scorers that fail


class Reversed(Scorer):
    """The default's scores times -1."""

    inner: Scorer = Tracking()

    def declare(self):
        return self.inner.declare()

    def judge(self, state, x, given, has_given, out):
        self.inner.judge(state, x, given, has_given, out)
        for k in range(out.size):
            out[k] = -out[k]

    def absorb(self, state, plan, x, played):
        return self.inner.absorb(state, plan, x, played)

    def uncertainty(self, state, x, a, b):
        return self.inner.uncertainty(state, x, a, b)


def changing_stream(K, rounds, change=None, noise=0.02, seed=5):
    """The paper's generator, with labels rolled by one class where `change(t / rounds)` says so."""
    rng = np.random.default_rng(seed)
    keywords = [np.sort(rng.choice(30, rng.integers(3, 16), replace=False)) for _ in range(K)]
    rows, y = [], np.zeros(rounds, np.int64)
    for t in range(rounds):
        c = rng.integers(K)
        rows.append(np.concatenate([keywords[c], 30 + np.sort(rng.choice(90, 15, replace=False))]))
        y[t] = (c + 1) % K if change is not None and change(t / rounds) else c
        if rng.random() < noise:
            y[t] = rng.integers(K)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return Chunk(indptr, np.concatenate(rows).astype(np.int32), np.ones(indptr[-1]), y)


def block_errors(learner, graph, chunk, blocks=20, seeds=2):
    """The error in each of so many parts of the stream."""
    found = []
    for seed in range(seeds):
        player = Player(learner, graph, 120, seed=seed)
        ends = np.linspace(0, len(chunk.labels), blocks + 1).astype(int)
        for a, b in itertools.pairwise(ends.tolist()):
            here = slice(chunk.indptr[a], chunk.indptr[b])
            part = Chunk(
                chunk.indptr[a : b + 1] - chunk.indptr[a], chunk.indices[here], chunk.values[here], chunk.labels[a:b]
            )
            tally = player.engine.new_tally()
            player.advance(part, tally)
            found.append(tally.counts[0] / (b - a))
    return np.reshape(found, (seeds, blocks)).mean(axis=0)


PRESETS = ["full", "filtering", "label-efficient", "bandit"]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_scorer_that_is_wrong_on_purpose(preset):
    for K in (2, 6):
        errors = block_errors(Guarded(Reversed()), FeedbackGraph.preset(preset, K), changing_stream(K, 20_000))
        assert errors[10:].mean() < 0.07


@pytest.mark.parametrize("knows", ["its weights", "its share of the scores", "how phases begin"])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_scorer_that_cancels_what_the_guard_has_learned(preset, knows):
    """Mistakes in 3,000 rounds without noise, for a scorer that knows the guard's weights G, and perhaps also how a
    phase of large steps begins. Where it knows a too, all scores are 0 as long as its own may be so large. The docs,
    page Guard, say why 600 are not enough for it as a bandit with many classes.
    """
    most = {"full": 150, "filtering": 500, "label-efficient": 500, "bandit": 600}[preset]
    for K in (2, 3, 4, 5, 6):
        chunk, graph = changing_stream(K, 3000, noise=0.0), FeedbackGraph.preset(preset, K)
        player = Player(Guarded(GivenScores()), graph, 120, normalize="unit", bias=False)
        mistakes = 0
        for t, y in enumerate(chunk.labels.tolist()):
            indices = chunk.indices[chunk.indptr[t] : chunk.indptr[t + 1]]
            state = player.engine.state.tuple
            eta = state.rates[ETA]
            lift = state.gradients[indices, :K].sum(axis=0) / math.sqrt(len(indices))
            share = 1.0 if knows == "its weights" else state.share[0]
            a = share - eta * state.rates[TRUST] * state.slopes[0]
            if knows == "its share of the scores" and a < 0.0:
                a = min(a, -1e-9)
            else:
                a = max(a, 1e-9)
            vector = player.check((indices, np.ones(len(indices))))
            turn = player.new_turn(vector, given=np.clip(eta * lift / a, -1.0, 1.0))
            assert player.draw(turn, vector, player.rounds)
            mistakes += turn.action != y
            player.learn(turn, y if graph.visible[turn.action, y] else -1)
        is_hard = preset == "bandit" and K >= 5 and knows == "its share of the scores"
        assert mistakes <= (850 if is_hard else most)


def test_the_trap():
    """Rows (1, 1)/sqrt(2) with the hidden label for half of the time, then (1, 0) with the revealing one."""
    T = 320_000
    n = T // 2
    indptr = np.concatenate([2 * np.arange(n + 1), 2 * n + np.arange(1, T - n + 1)])
    indices = np.concatenate([np.tile([0, 1], n), np.zeros(T - n)]).astype(np.int32)
    values = np.concatenate([np.full(2 * n, math.sqrt(0.5)), np.ones(T - n)])
    chunk = Chunk(indptr, indices, values, np.repeat([1, 0], [n, T - n]))
    mistakes = {}
    for name in ("auto", "gapsmh"):
        mistakes[name] = []
        for seed in range(4):
            player = Player(name, FeedbackGraph.filtering(2), 2, seed=seed)
            tally = player.engine.new_tally()
            player.advance(chunk, tally)
            mistakes[name].append(tally.counts[0])
    assert np.mean(mistakes["auto"]) <= 3 * np.mean(mistakes["gapsmh"])


# -------------------------------------------------------------------------------------------------------------- changes


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("K", [2, 6])
def test_labels_that_are_rolled_at_half(preset, K):
    """The error in the last 40 percent is at most 1.5 times that before the change (label efficient: twice)."""
    errors = block_errors("auto", FeedbackGraph.preset(preset, K), changing_stream(K, 20_000, lambda t: t >= 0.5))
    assert errors[12:].mean() <= (2.0 if preset == "label-efficient" else 1.5) * errors[6:10].mean() + 0.002


@pytest.mark.parametrize(("preset", "most"), [("filtering", 0.15), ("label-efficient", 0.5), ("bandit", 0.15)])
def test_what_comes_back_is_learned_soon(preset, most):
    """Rolled there and back: the error in the 1,000 rounds after the return, and in the rest."""
    graph, stream = FeedbackGraph.preset(preset, 6), changing_stream(6, 21_000, lambda t: 1 / 3 <= t < 2 / 3)
    errors = block_errors("auto", graph, stream, blocks=21)
    assert errors[14] <= most
    assert errors[15:].mean() <= 1.4 * errors[3:7].mean()


def test_it_does_not_go_back_and_forth():
    """One class after another gets the label of the next: the weights of before are never right again."""

    def relabel(chunk, rounds):
        y, t = chunk.labels.copy(), np.arange(rounds)
        for k in range(4):
            y[(chunk.labels == k) & (t >= (k + 1) * rounds / 5)] = k + 1
        return chunk._replace(labels=y)

    for preset in ("full", "filtering", "bandit"):
        player = Player("auto", FeedbackGraph.preset(preset, 10), 120)
        player.advance(relabel(changing_stream(10, 20_000), 20_000))
        reasons = [restart.reason for restart in player.restarts]
        assert ("return", "return") not in itertools.pairwise(reasons)


def test_a_return_is_that_of_the_transcription():
    rng = np.random.default_rng(1)
    graph, X = FeedbackGraph.full(3), rng.normal(size=(300, 6))
    y = np.argmax(X @ rng.normal(size=(6, 3)), axis=1)
    y[100:200] = (y[100:200] + 1) % 3
    with interpreted():
        player = Player(Guarded(Tracking(alarm=0.5)), graph, 6, seed=3, normalize=None, bias=False)
        actions, _ = play_given(player, X, y)
        expected = reference.guarded(X, y, parts_of(graph), draws_of(3, 300), alarm=0.5)
    assert expected[1].returns > 0
    assert [restart.reason for restart in player.restarts].count("return") == expected[1].returns
    assert actions == expected[0]
    np.testing.assert_allclose(player.weights.T, expected[1].slow.W, rtol=1e-9, atol=1e-12)


def test_a_return_is_told():
    player = Player("auto", FeedbackGraph.filtering(6), 120)
    player.advance(changing_stream(6, 20_000, lambda t: 1 / 3 <= t < 2 / 3))
    first, second = player.restarts
    assert (first.reason, second.reason) == ("change", "return")
    assert 6_667 < first.round < 8_000
    assert 13_333 < second.round < 14_500


@pytest.mark.parametrize("preset", PRESETS)
def test_no_restart_where_nothing_changes(preset):
    for K in (2, 6):
        player = Player("auto", FeedbackGraph.preset(preset, K), 120)
        player.advance(changing_stream(K, 20_000, noise=0.1))
        assert player.engine.state.tuple.restarts[0] == 0


# --------------------------------------------------------------------------------------------------------------- scores


def test_scores_that_are_not_scores():
    player = Player("auto", FeedbackGraph.filtering(["ham", "spam"]), 2)
    for wrong in ({"ham": 1.0}, {"ham": 1.0, "spam": 0.0, "eggs": 0.0}, [0.1], [0.1, float("nan")], "no", [[0.1, 0.9]]):
        with pytest.raises(UserError, match=r"scores (must|have)"):
            player.act([1.0, 0.0], scores=wrong)
    with pytest.raises(UserError, match="takes no scores"):
        Player("gapsmh", FeedbackGraph.bandit(3), 2).act([1.0, 0.0], scores=[1, 2, 3])
    assert player.rounds == 0


def test_probabilities_and_other_scores():
    """Probabilities p become 2p - 1; other scores go through the softmax first."""
    graph = FeedbackGraph.filtering(["ham", "spam"])
    with interpreted():
        player = Player("auto", graph, 2)
        for scores, expected in (
            ({"spam": 0.8, "ham": 0.2}, [-0.6, 0.6]),
            ([0.0, 1.0], [-1.0, 1.0]),
            ([0.335, 0.66], [0.67 / 0.995 - 1, 1.32 / 0.995 - 1]),
            ([-1.0, 2.0], [2 / (1 + math.exp(3)) - 1, 1 - 2 / (1 + math.exp(3))]),
            ([math.log(0.1), math.log(0.3)], [-0.5, 0.5]),
        ):
            np.testing.assert_allclose(player.act([1.0, 0.0], scores=scores).kept[1:3], expected, atol=1e-12)


def test_good_scores_are_used_from_the_first_round():
    rng = np.random.default_rng(3)
    graph = FeedbackGraph.filtering(["ham", "spam"])
    player, alone = Player("auto", graph, 20), Player("auto", graph, 20)
    X, y = rng.normal(size=(400, 20)), rng.integers(0, 2, 400)
    S = np.where(np.arange(2) == y[:, None], 0.9, 0.1)
    chunk = next(ArrayStream(X, [graph.classes[k] for k in y], classes=graph.classes).chunks())
    tallies = [each.engine.new_tally() for each in (player, alone)]
    player.advance(chunk, tallies[0], scores=S)
    alone.advance(chunk, tallies[1])
    assert tallies[0].counts[0] < 20
    assert tallies[1].counts[0] > 100


def test_names_and_numbers():
    assert named("auto") == Guarded()
    assert named("auto:memory=500").scorer.memory == 500
    with pytest.raises(UserError, match="kappa"):
        Guarded(kappa=0.0)


def test_log_probabilities_and_huge_scores():
    graph = FeedbackGraph.filtering(["ham", "spam"])
    player = Player("auto", graph, 2)
    np.testing.assert_array_equal(player.check_scores([-math.inf, -2.0]), [-1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(player.check_scores([1e308, -1e308]), [1.0, -1.0])
    for wrong in ([math.inf, 0.0], [-math.inf, -math.inf], [1j, 0.0]):
        with pytest.raises(UserError, match="scores must be 2 finite numbers"):
            player.check_scores(wrong)
    with pytest.raises(UserError, match="row 1: scores must be 2 finite numbers"):
        check_many_scores(player.learner, graph, [[0.1, 0.9], [0.2]], 2)
    for wrong in ({"ham": 0.1, "spam": 0.9}, 0.5):
        with pytest.raises(UserError, match="scores of many rows must be"):
            check_many_scores(player.learner, graph, wrong, 2)
    with pytest.raises(UserError, match="give them for all"):
        check_many_scores(player.learner, graph, [[0.1, 0.9], None], 2)
    with pytest.raises(UserError, match=r"^gapsmh takes no scores"):
        check_many_scores(named("gapsmh"), graph, [[0.1, 0.9]], 1)
