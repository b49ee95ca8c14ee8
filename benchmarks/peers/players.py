"""Playing: one adapter for each kind of player, all with one interface.

An adapter is a context manager. It is given a game (a setting, a stream, the feedback and a seed), converts the rows to
the library's own form, and yields a function that plays one round: `turn(t)` returns the action and whether the label
was seen. Only the turns are timed. Peers are imported where they are used, so this module needs none of them.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.peers.settings import PREPARED_OPTIONS, RAW_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from benchmarks.peers.feedback import Feedback
    from benchmarks.peers.settings import Setting
    from benchmarks.peers.streams import Stream

    Turn = Callable[[int], tuple[int, bool]]

HORIZONS = (1000, 3000, 10_000)
MARKS_A_DECADE = 24
MOST_ROUNDS = {"--graph_feedback": 3000}
"""Methods that are too slow for a longer stream."""

TRIAL = 3.0
"""Seconds after which a run may be given up as hopeless."""


class Allowance(NamedTuple):
    """How long a run may take (in seconds of processor time), and the round before which it is worth nothing."""

    seconds: float = float("inf")
    first_horizon: int = HORIZONS[0]

    def is_spent(self, rounds: int, seconds: float) -> bool:
        """Whether to stop: the time is over, or the first horizon is clearly out of reach."""
        needed = seconds / rounds * self.first_horizon
        is_hopeless = rounds < self.first_horizon and needed > 2 * self.seconds and seconds > TRIAL
        return seconds > self.seconds or is_hopeless


class Game(NamedTuple):
    """Who plays what."""

    setting: Setting
    stream: Stream
    feedback: Feedback
    seed: int
    is_prepared: bool
    """Whether the rows are scaled already and have a constant feature."""


class Played(NamedTuple):
    """What happened, round by round."""

    actions: NDArray[np.int64]
    seen: NDArray[np.bool_]
    seconds: float


class Outcome(NamedTuple):
    """What is kept of a run: running totals at some rounds, and the time of all rounds played."""

    rounds: list[int]
    mistakes: list[int]
    labels_seen: list[int]
    seconds: float

    @property
    def nanoseconds(self) -> float:
        """Per round."""
        return 1e9 * self.seconds / self.rounds[-1]

    def error_at(self, rounds: int) -> float | None:
        """Mistakes per round up to this round, where the run came so far and totals were kept."""
        return self.mistakes[self.rounds.index(rounds)] / rounds if rounds in self.rounds else None


def marks(rounds: int) -> list[int]:
    """The rounds at which totals are kept: evenly spread on a logarithmic scale, the horizons, and the last.

    >>> marks(5)
    [1, 2, 3, 4, 5]
    """
    decades = np.log10(rounds)
    spread = np.unique(np.round(10 ** np.linspace(0, decades, int(decades * MARKS_A_DECADE) + 2)).astype(int))
    return sorted({*spread.tolist(), *(horizon for horizon in HORIZONS if horizon <= rounds), rounds})


def outcome_of(played: Played, labels: NDArray[np.int64]) -> Outcome:
    """The totals of a run at its marks."""
    rounds = len(played.actions)
    at = marks(rounds)
    wrong = np.cumsum(played.actions != labels[:rounds])
    seen = np.cumsum(played.seen)
    last = np.array(at) - 1
    return Outcome(at, wrong[last].tolist(), seen[last].tolist(), played.seconds)


def play_turns(turn: Turn, rounds: int, allowance: Allowance) -> Played:
    """Play round after round until the stream or the allowance ends.

    Time is the processor's: on a busy machine the clock would count what others do.
    """
    actions, seen = [], []
    start = time.process_time()
    for t in range(rounds):
        action, shown = turn(t)
        actions.append(action)
        seen.append(shown)
        if (t < 16 or t % 16 == 0) and allowance.is_spent(t + 1, time.process_time() - start):
            break
    seconds = time.process_time() - start
    return Played(np.array(actions, np.int64), np.array(seen, bool), seconds)


# ----------------------------------------------------------------------------------------- learners that need the label


def label_turn(predict: Callable[[int], int], learn: Callable[[int], object], game: Game) -> Turn:
    """A round of a learner that needs the label: look, or say what the model says; learn where the label is seen.

    The policy decides when to look: "greedy" never, "first" in the first rounds, "eps" with a probability.
    """
    labels, feedback = game.stream.labels.tolist(), game.feedback
    draws = np.random.default_rng(game.seed).random(game.stream.rounds).tolist()
    looking, policy, amount = feedback.looking, game.setting.policy, game.setting.amount

    def turn(t: int) -> tuple[int, bool]:
        look = looking is not None and ((policy == "first" and t < amount) or (policy == "eps" and draws[t] < amount))
        action = looking if look else predict(t)
        shown = feedback.shows(action, labels[t])
        if shown:
            learn(t)
        return action, shown

    return turn


# -------------------------------------------------------------------------------------------------------- Vowpal Wabbit


def vw_texts(stream: Stream) -> list[str]:
    """The rows in Vowpal Wabbit's text format. Features have names: whole numbers collide in the copies of --cbify."""
    rows = stream.rows
    names = [f"f{j}" for j in range(rows.shape[1])]
    texts = []
    for start, stop in zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True):
        pairs = zip(rows.indices[start:stop].tolist(), rows.data[start:stop].tolist(), strict=True)
        texts.append(" ".join(f"{names[j]}:{value:.9g}" for j, value in pairs))
    return texts


def vw_workspace(words: str, game: Game) -> Any:
    """A workspace of Vowpal Wabbit with enough room for the features of all classes."""
    import vowpalwabbit

    constant = "--noconstant" if game.is_prepared else ""
    options = f"{words} {game.setting.options} {constant} -b 22 --random_seed {game.seed} --quiet"
    return vowpalwabbit.Workspace(arg_str=options)


@contextlib.contextmanager
def vw_examples(words: str, game: Game) -> Iterator[tuple[Any, list[Any]]]:
    """A workspace and the stream's rows as its parsed examples, with classes from 1 to K."""
    workspace = vw_workspace(words, game)
    labels, texts = game.stream.labels.tolist(), vw_texts(game.stream)
    examples = [workspace.parse(f"{label + 1} | {text}") for label, text in zip(labels, texts, strict=True)]
    yield workspace, examples
    for example in examples:
        workspace.finish_example(example)
    workspace.finish()


@contextlib.contextmanager
def vw_one_vs_all(game: Game) -> Iterator[Turn]:
    """--oaa with a policy. In full information one call both predicts and learns, as Vowpal Wabbit does by itself."""
    with vw_examples(f"--oaa {game.stream.classes}", game) as (workspace, examples):

        def both(t: int) -> tuple[int, bool]:
            workspace.learn(examples[t])
            return examples[t].get_multiclass_prediction() - 1, True

        def predict(t: int) -> int:
            return workspace.predict(examples[t]) - 1

        def learn(t: int) -> None:
            workspace.learn(examples[t])

        yield both if game.feedback.graph == "full" else label_turn(predict, learn, game)


@contextlib.contextmanager
def vw_cbify(game: Game) -> Iterator[Turn]:
    """--cbify: Vowpal Wabbit is given the label, and uses only whether its own action was right."""
    labels, feedback = game.stream.labels.tolist(), game.feedback
    with vw_examples(f"--cbify {game.stream.classes} --cb_explore_adf", game) as (workspace, examples):

        def turn(t: int) -> tuple[int, bool]:
            workspace.learn(examples[t])
            action = examples[t].get_multiclass_prediction() - 1
            return action, feedback.shows(action, labels[t])

        yield turn


NO_LABEL = 1e9
"""Above this, what Vowpal Wabbit puts in place of a label that it did not ask for."""


@contextlib.contextmanager
def vw_active(game: Game) -> Iterator[Turn]:
    """--active in simulation: Vowpal Wabbit is given the label and forgets it where it does not ask for it."""
    workspace = vw_workspace("--active --simulation", game)
    texts, signs = vw_texts(game.stream), (2 * game.stream.labels - 1).tolist()
    examples = [workspace.parse(f"{sign} | {text}") for sign, text in zip(signs, texts, strict=True)]
    played = 0

    def turn(t: int) -> tuple[int, bool]:
        nonlocal played
        example = examples[t]
        workspace.learn(example)
        guess = int(example.get_simplelabel_prediction() > 0)
        asked = example.get_simplelabel_label() < NO_LABEL
        workspace.finish_example(example)  # here, since it is what counts the queries
        played += 1
        return (game.feedback.classes if asked else guess), asked

    yield turn
    for example in examples[played:]:
        workspace.finish_example(example)
    workspace.finish()


@contextlib.contextmanager
def vw_graph(game: Game) -> Iterator[Turn]:
    """--graph_feedback on the filtering graph: the class that reveals shows the costs of all classes.

    The graph's entries are (shown, shower, 1), as the optimisation of Vowpal Wabbit reads them. Every cost that was
    shown carries the probability of the class that reveals. Text is parsed in the turn: the optimisation takes far
    longer.
    """
    workspace = vw_workspace("--cb_explore_adf --graph_feedback", game)
    stream, feedback = game.stream, game.feedback
    classes, revealing = range(stream.classes), feedback.revealing
    shared = "shared graph " + " ".join(f"{k},{revealing},1" for k in classes) + " |"
    texts, labels = vw_texts(stream), stream.labels.tolist()
    rng = np.random.default_rng(game.seed)

    def turn(t: int) -> tuple[int, bool]:
        copies = [texts[t].replace("f", f"a{k}f") for k in classes]
        example = workspace.parse([shared, *(f"| {copy}" for copy in copies)])
        chances = np.clip(workspace.predict(example), 0.0, None)
        workspace.finish_example(example)
        chances /= chances.sum()
        action = int(rng.choice(stream.classes, p=chances))
        shown = feedback.shows(action, labels[t])
        if shown:
            costs = [f"{k}:{int(k != labels[t])}:{chances[revealing]:.6f} | {copies[k]}" for k in classes]
            example = workspace.parse([shared, *costs])
            workspace.learn(example)
            workspace.finish_example(example)
        return action, shown

    yield turn
    workspace.finish()


# ----------------------------------------------------------------------------------------------- River and scikit-learn


def river_model(setting: Setting) -> Any:
    """A linear model of River."""
    from river import linear_model, optim

    words = {}
    if setting.options:
        words["optimizer"] = optim.AdaGrad(float(setting.options.removeprefix("AdaGrad(").rstrip(")")))
    if setting.method == "LogisticRegression":
        return linear_model.LogisticRegression(**words)
    return linear_model.SoftmaxRegression(**words)


@contextlib.contextmanager
def river_turns(game: Game) -> Iterator[Turn]:
    """A linear model of River, with dictionaries as rows."""
    model, rows, labels = river_model(game.setting), game.stream.rows, game.stream.labels.tolist()
    cuts = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)
    features = [dict(zip(rows.indices[a:b].tolist(), rows.data[a:b].tolist(), strict=True)) for a, b in cuts]

    def predict(t: int) -> int:
        guess = model.predict_one(features[t])
        return game.feedback.first_guess if guess is None else int(guess)

    def learn(t: int) -> None:
        model.learn_one(features[t], labels[t])

    yield label_turn(predict, learn, game)


def scikit_learn_model(setting: Setting, seed: int) -> Any:
    """A linear model of scikit-learn. A constant feature is in the rows, so no intercept."""
    from sklearn import linear_model

    if setting.method == "PassiveAggressive":
        words = {"loss": "hinge", "penalty": None, "learning_rate": "pa1", "eta0": 1.0}
        return linear_model.SGDClassifier(fit_intercept=False, random_state=seed, **words)
    return getattr(linear_model, setting.method)(fit_intercept=False, random_state=seed)


@contextlib.contextmanager
def scikit_learn_turns(game: Game) -> Iterator[Turn]:
    """A linear model of scikit-learn with partial_fit, a row at a time."""
    model, stream = scikit_learn_model(game.setting, game.seed), game.stream
    rows = [stream.rows[t] for t in range(stream.rounds)]
    labels = [stream.labels[t : t + 1] for t in range(stream.rounds)]
    classes = np.arange(stream.classes)

    def predict(t: int) -> int:
        return int(model.predict(rows[t])[0]) if hasattr(model, "coef_") else game.feedback.first_guess

    def learn(t: int) -> None:
        model.partial_fit(rows[t], labels[t], classes=classes)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield label_turn(predict, learn, game)


ADAPTERS = {
    "--oaa": vw_one_vs_all,
    "--cbify": vw_cbify,
    "--active": vw_active,
    "--graph_feedback": vw_graph,
    "SoftmaxRegression": river_turns,
    "LogisticRegression": river_turns,
    "SGDClassifier": scikit_learn_turns,
    "Perceptron": scikit_learn_turns,
    "PassiveAggressive": scikit_learn_turns,
}


# ----------------------------------------------------------------------------------------------------------------- ours


def play_ours(game: Game) -> Outcome:
    """One run of one of our learners. Its seconds are the clock's, which are never fewer than the processor's."""
    from gappletron import FeedbackGraph, play
    from gappletron.data.arrays import ArrayStream

    stream, feedback = game.stream, game.feedback
    classes = range(stream.classes)
    revealing = feedback.revealing if feedback.graph == "filtering" else None
    graph = FeedbackGraph.preset(feedback.graph, classes, revealing)
    arrays = ArrayStream(stream.rows, stream.labels, classes=classes, name=stream.name)
    options: dict[str, Any] = PREPARED_OPTIONS if game.is_prepared else RAW_OPTIONS
    run = play(game.setting.method, arrays, graph, repeats=[game.seed], curve=marks(stream.rounds), jobs=1, **options)[
        0
    ]
    curve = run.curve
    return Outcome(curve.rounds.tolist(), curve.mistakes.tolist(), curve.labels_seen.tolist(), run.seconds)


def play_game(game: Game, allowance: Allowance) -> Outcome:
    """One run of anybody."""
    if game.setting.package == "Ours":
        return play_ours(game)
    most = MOST_ROUNDS.get(game.setting.method, game.stream.rounds)
    part = game._replace(stream=game.stream.first(most))
    with ADAPTERS[game.setting.method](part) as turn:
        return outcome_of(play_turns(turn, part.stream.rounds, allowance), part.stream.labels)
