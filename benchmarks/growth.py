"""How the time of a round grows: with K, d, the non-zeros of a row, T, waiting receipts, and actions.

    python benchmarks/growth.py [--quick] [--only NAME ...]

One size varies in each table, the others stay at K = 9, d = 120, 10 non-zeros, 2,000 rounds. A cell is nanoseconds of
processor time per round, the least of the repeats; all sizes of a line are played in turn, and again. A slope is that
between two sizes in a picture with logarithmic axes: 0 is no growth, 1 is proportional, 2 is quadratic. With costs, one
class is dear, and in label efficient classification the query costs a half.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

from gappletron import (
    UNSEEN,
    AdaGrad,
    ArrayStream,
    FeedbackGraph,
    Gappletron,
    Online,
    Optimised,
    Player,
    SmoothHinge,
    named,
)
from gappletron.data.prepared import Prepared, prepare
from gappletron.play.rounds import Counts

K, D, NNZ, ROUNDS = 9, 120, 10, 2000
LEARNERS = ("auto", "gapsmh", "gaplog")
GRAPHS = ("full", "bandit", "label-efficient")
REPEATS = 3
BUDGET = 0.4  # seconds of rounds in a cell, about: slow rounds are played fewer times

Case = Callable[[int], Callable[[], tuple[float, int]]]
"""From a size to what plays it: seconds, and rounds."""


def rows_of(classes: int, features: int, entries: int, rounds: int) -> Prepared:
    """Rows with entries at random places, one of which tells the label."""
    rng = np.random.default_rng(classes + features + entries)
    labels = rng.integers(classes, size=rounds)
    places = rng.integers(features, size=(rounds, entries))
    places[:, 0] = labels % features
    starts = np.arange(0, rounds * entries + 1, entries)
    X = sparse.csr_matrix((np.ones(rounds * entries), places.ravel(), starts), shape=(rounds, features))
    X.sum_duplicates()
    return prepare(next(ArrayStream(X, labels, classes=tuple(range(classes))).chunks()))


def graph_of(name: str, classes: int, costs: str = "") -> FeedbackGraph:
    """A preset; with one class that is dear and a query of a half, or with costs at random."""
    graph = FeedbackGraph.preset(name, classes)
    if not costs:
        return graph
    made = graph.costs.copy()
    made[0, 1:], made[classes:] = 5.0, 0.5
    if costs == "dense":
        made *= np.random.default_rng(1).uniform(0.5, 2.0, made.shape)
    return graph.with_costs(made)


def random_graph(classes: int, density: float = 0.35) -> FeedbackGraph:
    """Every class is shown by some action."""
    visible = np.random.default_rng(1).random((classes, classes)) < density
    visible[0] |= ~visible.any(axis=0)
    return FeedbackGraph(visible)


def chunk_of(learner: object, graph: FeedbackGraph, features: int, entries: int, rounds: int = ROUNDS) -> Callable:
    """Play so many rounds with a player that has played before; fewer where that takes long."""
    player = Player(learner, graph, features, seed=1, normalize=None, bias=False)
    player.engine.compile_chunks(Counts())
    few = rows_of(graph.n_classes, features, entries, 20)
    player.advance(few)
    start = time.process_time()
    player.advance(few)
    rounds = max(20, min(rounds, int(BUDGET * 20 / (time.process_time() - start))))
    rows = rows_of(graph.n_classes, features, entries, rounds)
    player.advance(rows)  # touches the memory, and meets the branches

    def play() -> tuple[float, int]:
        start = time.process_time()
        player.advance(rows)
        return time.process_time() - start, rows.chunk.labels.size

    return play


def whole_run(learner: str, graph: FeedbackGraph, rounds: int, features: int = D) -> Callable:
    """Play so many rounds from the first on, in chunks of at most 50,000."""
    rows = rows_of(graph.n_classes, features, NNZ, min(rounds, 50_000))

    def play() -> tuple[float, int]:
        player = Player(learner, graph, features, seed=1, normalize=None, bias=False)
        player.engine.compile_chunks(Counts())
        start = time.process_time()
        for _ in range(max(1, rounds // 50_000)):
            player.advance(rows)
        return time.process_time() - start, rounds

    return play


def waiting(learner: str, graph: FeedbackGraph, receipts: int) -> Callable:
    """Act, and learn from a receipt that is as old as there are receipts waiting."""
    model = Online(learner, graph, features=D, normalize=None, bias=False, pending=receipts + 1000)
    rng = np.random.default_rng(1)
    rows = [(np.sort(rng.choice(D, NNZ, replace=False)).astype(np.int32), np.ones(NNZ)) for _ in range(100)]
    held = deque(model.act(rows[t % 100]) for t in range(receipts))

    def play() -> tuple[float, int]:
        start = time.process_time()
        for t in range(1000):
            held.append(model.act(rows[t % 100]))
            receipt = held.popleft()
            model.learn(receipt, 0 if 0 in receipt.reveals else UNSEEN)
        return time.process_time() - start, 1000

    return play


def extra_actions(learner: str, extra: int) -> Callable:
    """Label efficient classification with so many queries, of which each shows one class or all."""
    visible = np.vstack([np.zeros((K, K), bool), np.eye(K, dtype=bool)[np.arange(extra) % K]])
    visible[-1] = True
    return chunk_of(named(learner), FeedbackGraph(visible), D, NNZ)


def tables(quick: bool) -> Iterator[tuple[str, str, list[int], dict[str, Case]]]:
    """The name of each table, what varies in it, the sizes, and the cases."""

    def cases(make: Callable[[str, str], Case], costs: tuple[str, ...] = ("", "row")) -> dict[str, Case]:
        found = {}
        for graph in GRAPHS:
            for learner in LEARNERS:
                for kind in costs if learner == "auto" else ("",):
                    note = {"": "", "row": ", a dear class", "dense": ", costs at random"}[kind]
                    found[f"{learner}, {graph}{note}"] = make(learner, graph, kind)
        return found

    def by_classes(learner: str, graph: str, kind: str) -> Case:
        return lambda size: chunk_of(named(learner), graph_of(graph, size, kind), D, NNZ)

    def by_features(learner: str, graph: str, kind: str) -> Case:
        return lambda size: chunk_of(named(learner), graph_of(graph, K, kind), size, NNZ)

    def by_entries(learner: str, graph: str, kind: str) -> Case:
        return lambda size: chunk_of(named(learner), graph_of(graph, K, kind), 20_000, size)

    def by_rounds(learner: str, graph: str, kind: str) -> Case:
        return lambda size: whole_run(learner, graph_of(graph, K, kind), size)

    def by_receipts(learner: str, graph: str, kind: str) -> Case:
        return lambda size: waiting(learner, graph_of(graph, K, kind), size)

    optimised = Gappletron(SmoothHinge(), AdaGrad(0.1), Optimised())
    yield "classes", "K", [2, 64, 65, 512, 2048][: 4 if quick else 5], cases(by_classes, ("", "row", "dense"))
    yield (
        "solver",
        "K",
        [4, 16, 64],
        {"optimised, random graph": lambda size: chunk_of(optimised, random_graph(size), D, NNZ, 200)},
    )
    yield "features", "d", [10**2, 10**4, 10**6], cases(by_features)
    yield (
        "first rounds",
        "d",
        [10**2, 10**4, 10**6, 10**7][: 3 if quick else 4],
        {
            "gapsmh, bandit, rounds 1 to 2,000": lambda size: whole_run("gapsmh", graph_of("bandit", K), ROUNDS, size),
            "gapsmh, bandit, later": by_features("gapsmh", "bandit", ""),
        },
    )
    yield "entries", "non-zeros", [10, 100, 1000, 10_000], cases(by_entries)
    yield "rounds", "T", [10**4, 10**5, 10**6][: 2 if quick else 3], cases(by_rounds)
    yield "receipts", "waiting receipts", [10**2, 10**3, 10**4, 10**5][: 3 if quick else 4], cases(by_receipts, ("",))
    yield (
        "actions",
        "extra actions",
        [1, 10, 100, 1000],
        {learner: lambda size, learner=learner: extra_actions(learner, size) for learner in LEARNERS},
    )


def measure(case: Case, sizes: list[int], repeats: int) -> list[float]:
    """Nanoseconds per round at every size: the least of the repeats, in which the sizes take turns."""
    least = [math.inf] * len(sizes)
    plays = [case(size) for size in sizes]
    for _ in range(repeats):
        for place, play in enumerate(plays):
            seconds, rounds = play()
            least[place] = min(least[place], seconds / rounds * 1e9)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="without the largest sizes")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these tables")
    options = parser.parse_args()
    for name, varies, sizes, cases in tables(options.quick):
        if options.only and name.split()[0] not in options.only:
            continue
        print(f"\n**{name.capitalize()}.** Nanoseconds per round; in brackets the slope from the size before.\n")
        print(f"| {varies} | " + " | ".join(f"{size:,}" for size in sizes) + " | slope over all |")
        print("|---" * (len(sizes) + 2) + "|")
        for title, case in cases.items():
            found = measure(case, sizes, REPEATS)
            slopes = [
                math.log(found[i + 1] / found[i]) / math.log(sizes[i + 1] / sizes[i]) for i in range(len(sizes) - 1)
            ]
            cells = [f"{found[0]:,.0f}"]
            for i, slope in enumerate(slopes, start=1):
                note = f"{slope:.1f}" if sizes[i] >= 2 * sizes[i - 1] else f"× {found[i] / found[i - 1]:.2f}"
                cells.append(f"{found[i]:,.0f} ({note})")
            overall = math.log(found[-1] / found[0]) / math.log(sizes[-1] / sizes[0])
            print(f"| {title} | " + " | ".join(cells) + f" | {overall:.2f} |", flush=True)


if __name__ == "__main__":
    main()
