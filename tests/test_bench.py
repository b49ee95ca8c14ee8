"""The benchmark beside other libraries: its feedback, its preparation and its sums, against brute force."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from benchmarks.peers import recorded, report, runs, settings, streams, summary
from benchmarks.peers.feedback import GRAPHS, Feedback
from benchmarks.peers.players import (
    ADAPTERS,
    Allowance,
    Game,
    Outcome,
    Played,
    label_turn,
    marks,
    outcome_of,
    play_game,
    play_turns,
)
from gappletron import FeedbackGraph

K, ROUNDS = 3, 24
LIBRARIES = {"VW": "vowpalwabbit", "River": "river", "scikit-learn": "sklearn"}


def small_stream(classes: int = K, rounds: int = ROUNDS) -> streams.Stream:
    rng = np.random.default_rng(1)
    labels = rng.integers(classes, size=rounds)
    rows = (rng.random((rounds, 6)) < 0.4).astype(float)
    rows[np.arange(rounds), labels] = 2.0
    return streams.Stream("small", sparse.csr_matrix(rows), labels, classes)


def game_of(setting: settings.Setting, graph: str, classes: int = K, seed: int = 0) -> Game:
    return Game(setting, small_stream(classes), Feedback(graph, classes, classes - 1), seed, is_prepared=True)


# ------------------------------------------------------------------------------------------------------------- feedback


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_label_is_shown_where_the_librarys_graph_shows_it(graph):
    """With three classes; with two, the library also infers the label of a wrong bandit round."""
    revealing = 1 if graph == "filtering" else None
    visible = FeedbackGraph.preset(graph, K, revealing).arrays.visible
    feedback = Feedback(graph, K, 1)
    assert feedback.actions == len(visible)
    for action in range(feedback.actions):
        for label in range(K):
            assert feedback.shows(action, label) == bool(visible[action, label])


class Memory:
    """A model that says the last label that it was taught, and writes down what it was taught."""

    def __init__(self, labels: list[int], start: int) -> None:
        self.labels, self.last, self.taught = labels, start, []

    def predict(self, t: int) -> int:
        return self.last

    def learn(self, t: int) -> None:
        self.last = self.labels[t]
        self.taught.append(t)


def by_hand(graph: str, policy: str, amount: float, labels: list[int], draws: list[float]) -> tuple[list, list]:
    """The rounds of a Memory, written out for each graph."""
    last, actions, seen = K - 1, [], []
    for t, label in enumerate(labels):
        looks = (policy == "first" and t < amount) or (policy == "eps" and draws[t] < amount)
        action = last
        if looks and graph == "filtering":
            action = K - 1
        if looks and graph == "label-efficient":
            action = K
        shown = {
            "full": True,
            "filtering": action == K - 1,
            "label-efficient": action == K,
            "bandit": action == label,
        }[graph]
        last = label if shown else last
        actions.append(action)
        seen.append(shown)
    return actions, seen


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("policy", "amount"), [("greedy", 0.0), ("first", 7.0), ("eps", 0.3)])
def test_policies_are_played_as_written_out(graph, policy, amount):
    game = game_of(settings.Setting("VW", "--oaa", policy=policy, amount=amount), graph, seed=5)
    labels = game.stream.labels.tolist()
    model = Memory(labels, K - 1)
    played = play_turns(label_turn(model.predict, model.learn, game), ROUNDS, Allowance())
    actions, seen = by_hand(graph, policy, amount, labels, np.random.default_rng(5).random(ROUNDS).tolist())
    assert played.actions.tolist() == actions
    assert played.seen.tolist() == seen
    assert model.taught == np.flatnonzero(seen).tolist()


@pytest.mark.parametrize("library", LIBRARIES)
def test_peers_see_what_the_graph_shows(library):
    pytest.importorskip(LIBRARIES[library], reason="not installed; .venv-bench, which make bench sets up, has it")
    for graph, classes in itertools.product(GRAPHS, (2, K)):
        for setting in settings.default_peers(graph, classes):
            if setting.package == library:
                check_what_a_peer_sees(game_of(setting, graph, classes))


def check_what_a_peer_sees(game: Game) -> None:
    with ADAPTERS[game.setting.method](game) as turn:
        played = play_turns(turn, ROUNDS, Allowance())
    actions, labels = played.actions.tolist(), game.stream.labels.tolist()
    assert len(actions) == ROUNDS
    assert set(actions) <= set(range(game.feedback.actions))
    shown = [game.feedback.shows(action, label) for action, label in zip(actions, labels, strict=True)]
    assert played.seen.tolist() == shown, game
    if game.feedback.graph == "full":
        half = ROUNDS // 2
        assert np.mean(played.actions[half:] != game.stream.labels[half:]) < 0.5, game


def test_ours_reports_what_play_counts():
    outcome = play_game(game_of(settings.ours("gapsmh"), "filtering"), Allowance())
    assert outcome.rounds == marks(ROUNDS)
    assert 0 < outcome.labels_seen[-1] <= ROUNDS
    assert np.all(np.diff(outcome.mistakes) >= 0)


# ----------------------------------------------------------------------------------------------------- runs and streams


def test_an_outcome_is_the_running_count():
    labels = np.array([0, 1, 2, 1, 0, 2, 2, 1])
    played = Played(np.array([0, 2, 2, 2, 0, 1, 2, 1]), np.array([True, False] * 4), 4e-6)
    outcome = outcome_of(played, labels)
    assert outcome.rounds == marks(8)
    assert outcome.mistakes == [int(np.sum(played.actions[:n] != labels[:n])) for n in outcome.rounds]
    assert outcome.labels_seen == [int(np.sum(played.seen[:n])) for n in outcome.rounds]
    assert outcome.nanoseconds == pytest.approx(500.0)
    assert outcome.error_at(8) == pytest.approx(3 / 8)
    assert outcome.error_at(9) is None


def test_marks_have_the_horizons_and_the_end():
    assert {1, 1000, 3000, 5574} <= set(marks(5574))
    assert marks(1) == [1]


def test_an_allowance_ends_a_run():
    assert len(play_turns(lambda t: (0, True), 50, Allowance(seconds=-1.0)).actions) == 1
    assert Allowance(10.0).is_spent(10, 4.0)
    assert not Allowance(10.0).is_spent(1000, 4.0)


def test_preparation_row_by_row():
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 5, size=(700, 4)) * np.array([1.0, -10.0, 0.1, 0.0])
    dense[600] *= 10
    dense[3] = 0
    raw = streams.Stream("numbers", sparse.csr_matrix(dense), np.zeros(700, np.int64), 2)
    found = streams.prepared(raw, is_text=False).rows.toarray()
    largest = np.abs(dense[:500]).max(axis=0)
    for row, given in zip(found, dense, strict=True):
        scaled = [max(-3.0, min(3.0, x / m)) if m else x for x, m in zip(given, largest, strict=True)]
        length = np.sqrt(np.sum(np.square(scaled))) or 1.0
        np.testing.assert_allclose(row, [*(np.array(scaled) / length), 1.0], atol=1e-15)
    text = streams.prepared(raw._replace(rows=abs(raw.rows)), is_text=True).rows.toarray()
    logs = np.log1p(np.abs(dense))
    lengths = np.linalg.norm(logs, axis=1, keepdims=True)
    np.testing.assert_allclose(text[:, :-1], logs / np.where(lengths == 0, 1, lengths), atol=1e-15)


def test_a_bad_start_moves_rows_and_loses_none():
    stream = small_stream()
    moved = streams.moved_to_front(stream, 1, 5)
    assert moved.labels[:5].tolist() == [1] * 5
    together = [np.column_stack([s.rows.toarray(), s.labels]).tolist() for s in (stream, moved)]
    assert sorted(together[0]) == sorted(together[1])


def test_a_store_finds_its_runs_again_and_ours_only_with_the_same_sources(tmp_path):
    outcome = Outcome([1, 2], [0, 1], [1, 2], 0.5)
    ours = runs.Task("small", "prepared", "full", settings.ours("gapsmh"), 0, None)
    theirs = ours._replace(setting=settings.one_vs_all("hinge"))
    store = runs.Store(tmp_path / "deep" / "runs.jsonl", "a")
    for task in (ours, theirs):
        assert store.lacks(task)
        store.add(task, outcome)
    again = runs.Store(store.path, "a")
    assert again.runs([ours, theirs]) == [runs.Run(ours, outcome), runs.Run(theirs, outcome)]
    changed = runs.Store(store.path, "b")
    assert changed.lacks(ours)
    assert not changed.lacks(theirs)
    assert all(json.loads(line) for line in store.path.read_text().splitlines())


# ----------------------------------------------------------------------------------------------------- recorded, report


@pytest.mark.parametrize(
    ("method", "words", "expected"),
    [
        ("VW --oaa hinge", "-l 1", settings.one_vs_all("hinge", "-l 1")),
        ("VW --oaa squared", "", settings.one_vs_all("squared")),
        ("VW --oaa + first m", "hinge -l 1 m=1000", settings.burn_in(settings.one_vs_all("hinge", "-l 1"), 1000)),
        (
            "VW --oaa + eps-explore",
            "hinge nonorm -l 2 eps=0",
            settings.one_vs_all("hinge", "--adaptive --invariant -l 2"),
        ),
        ("VW --cbify ADF eps", "--epsilon 0 [3 seeds]", settings.cbify("--epsilon 0")),
        ("VW --active hinge", "--mellowness 0.0001", settings.active("hinge", "--mellowness 0.0001")),
        (
            "VW --graph_feedback (SquareCB.G)",
            "--gamma_scale 100 --coin weights=p T=1000 seeds=1",
            settings.graph_feedback("--gamma_scale 100 --coin"),
        ),
        ("River SoftmaxRegression", "AdaGrad(1)", settings.river("SoftmaxRegression", 1.0)),
        ("numba logistic", "softmax AdaGrad lr=1", None),
    ],
)
def test_recorded_settings_are_understood(method, words, expected):
    best = recorded.Best("s", "full", 10, 0.1, method, words, 10, 1, 0.5)
    found = recorded.setting_of(best)
    assert found == (expected if expected is None else expected._replace(tuned=True))


def test_every_recorded_setting_of_a_library_is_understood(shared_data):
    bests = recorded.read()
    assert len(bests) == 112
    for best in bests:
        assert (recorded.setting_of(best) is None) == best.method.startswith("numba")


def test_ratios_and_lines_are_means_over_seeds():
    task = runs.Task("s", "prepared", "full", settings.ours("gapsmh"), 0, None)
    found = [
        runs.Run(task._replace(seed=seed), Outcome([10, 20], [mistakes, 8], [10, 20], 1e-6 * (1 + seed)))
        for seed, mistakes in enumerate((2, 4, 6))
    ]
    bests = [recorded.Best("s", "full", 10, 0.2, "VW --oaa hinge", "", 10, 1, 0.5)]
    (ratio,) = summary.ratios(found, bests)
    assert ratio.value == pytest.approx(2.0)
    (line,) = summary.lines(found)
    assert line.errors == {20: pytest.approx(0.4)}
    assert (line.labels_seen, line.nanoseconds) == (20, pytest.approx(100.0))
    assert "| `gapsmh` | all | 1 | 2.00 | 0% | 2.00 |" in report.ratio_table([ratio])


def test_the_page_has_every_marker():
    text = (Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md").read_text()
    for name in ("circumstances", "ratios", "figures", "duels", "natural"):
        assert text.count(f"<!-- begin {name} -->") == text.count(f"<!-- end {name} -->") == 1
        replaced = report.replaced(text, name, "new")
        assert report.replaced(replaced, name, "new") == replaced
