"""What a round costs: every learner as a multiple of one bare pass over the same stream, all in one run, interleaved.

    python benchmarks/rounds.py [--rounds T] [--repeats R]

A bare pass computes the scores and their argmax and learns nothing. Two of them are timed next to every learner, where
`../shared/bench` lies beside the project: `floor.py` (Numba, the number of classes known at run time only) and
`native.py` (C, the number of classes known to the compiler). Without that folder, a bare pass of our own takes the
place of `floor.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np

from gappletron import UNSEEN, FeedbackGraph, Gappletron, Online, Player, Synthetic, named, names
from gappletron.data.prepared import prepare
from gappletron.data.stream import make_chunk
from gappletron.learners.optimizers import AdaGrad, FixedOGD, ProjectedOGD, ScaleFreeFTRL
from gappletron.play.rounds import Counts

FULL_MATRIX = ("newtron", "soba", "second-order-perceptron")
YARDSTICKS = Path(__file__).resolve().parents[2] / "shared" / "bench"
K, D = 9, 120


@numba.njit(nogil=True)
def bare_pass(indptr, indices, values, weights):
    K = weights.shape[1]
    scores = np.zeros(K)
    total = 0
    for t in range(indptr.size - 1):
        for k in range(K):
            scores[k] = 0.0
        for p in range(indptr[t], indptr[t + 1]):
            j, v = indices[p], values[p]
            for k in range(K):
                scores[k] += v * weights[j, k]
        best = 0
        for k in range(1, K):
            if scores[k] > scores[best]:
                best = k
        total += best
    return total


def module(name: str):
    """A yardstick by its file's name, or None where it does not lie beside the project."""
    path = YARDSTICKS / f"{name}.py"
    if not path.exists():
        return None
    sys.path.insert(0, str(YARDSTICKS))
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def joined(chunks) -> tuple:
    """The rounds of several chunks as one."""
    chunks = list(chunks)
    sizes = np.concatenate([np.diff(chunk.indptr) for chunk in chunks])
    parts = (np.concatenate([chunk[i] for chunk in chunks]) for i in (1, 2, 3))
    return make_chunk(np.concatenate([[0], np.cumsum(sizes)]), *parts)


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Yardsticks(NamedTuple):
    """The bare passes over one stream."""

    floor: object
    native: object | None

    @classmethod
    def over(cls, chunk) -> Yardsticks:
        weights = np.random.default_rng(0).normal(size=(D, K))
        theirs, native = module("floor"), module("native")
        score_pass = bare_pass if theirs is None else theirs.score_pass
        call = None
        if native is not None:
            c_pass, padded = native.native_pass(K)
            wide = np.zeros((D, padded))
            wide[:, :K] = weights
            call = lambda: c_pass(*chunk[:3], wide)  # noqa: E731
        return cls(lambda: score_pass(*chunk[:3], weights), call)


def time_rounds(
    chunk, graph: FeedbackGraph, learner, repeats: int, floor, features: int = D, watch: bool = False
) -> tuple[float, float]:
    """Nanoseconds per round, and the median over the repeats of the ratio to a bare pass timed right before."""
    checked, nanoseconds, ratios = prepare(chunk), [], []
    for repeat in range(repeats + 1):
        player = Player(learner, graph, features, seed=repeat, monitor=watch)
        player.engine.compile_chunks(Counts())
        bare, own = seconds(floor), seconds(lambda: player.advance(checked))  # noqa: B023 - called at once
        if repeat:
            nanoseconds.append(own / len(chunk.labels) * 1e9)
            ratios.append(own / bare)
    return float(np.median(nanoseconds)), float(np.median(ratios))


def one_round_at_a_time(chunk, rounds: int = 5000, watch: bool = False) -> float:
    """Microseconds for act and learn with (indices, values)."""
    model = Online.from_player(Player("gapsmh", FeedbackGraph.bandit(K), D, monitor=watch))
    cuts = zip(chunk.indptr[:rounds], chunk.indptr[1 : rounds + 1], strict=True)
    xs = [(chunk.indices[a:b], chunk.values[a:b]) for a, b in cuts]
    labels = chunk.labels[:rounds].tolist()

    def play():
        for x, label in zip(xs, labels, strict=True):
            receipt = model.act(x)
            model.learn(receipt, label if label == receipt.action else UNSEEN)

    play()
    return float(np.median([seconds(play) for _ in range(9)])) / rounds * 1e6


def a_command(*arguments: str) -> float:
    """Seconds from the start of a process to its end, with a warm cache."""
    command = [sys.executable, "-m", "gappletron", *arguments]
    subprocess.run(command, check=True, capture_output=True)
    return float(
        np.median([seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(7)])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    chunk = joined(Synthetic(classes=K, features=D, noise=0.05, rounds=options.rounds).chunks())
    floor, native = Yardsticks.over(chunk)
    floor()
    own = np.median([seconds(floor) for _ in range(options.repeats)]) / options.rounds * 1e9
    print(f"K = {K}, d = {D}, {options.rounds:,} rounds")
    print(f"floor.py: {own:.0f} ns per round")
    if native is not None:
        ratios = [seconds(native) / seconds(floor) for _ in range(5 * options.repeats)]
        print(f"native.py: {np.median(ratios):.2f} x floor.py")

    print(f"\n{'learner':34} {'graph':16} {'ns per round':>12} {'x floor.py':>11}")
    graphs = [getattr(FeedbackGraph, name)(K) for name in ("bandit", "full", "filtering", "label_efficient")]
    cases = [(name, named(name), graph) for graph in graphs for name in names(graph) if name not in FULL_MATRIX]
    cases += [
        (f"gapsmh, {type(o).__name__}", Gappletron(optimizer=o), graphs[0])
        for o in (ProjectedOGD(10.0), FixedOGD(0.01, 10.0), AdaGrad(), ScaleFreeFTRL(10.0))
    ]
    for name, learner, graph in cases:
        nanoseconds, ratio = time_rounds(chunk, graph, learner, options.repeats, floor)
        print(f"{name:34} {graph.name:16} {nanoseconds:12.0f} {ratio:11.2f}")

    print("\nfull matrices, K = 3, d = 40, 2,000 rounds (microseconds per round)")
    small = joined(Synthetic(classes=3, features=40, noise=0.05, rounds=2000).chunks())
    for name in FULL_MATRIX:
        graph = FeedbackGraph.full(3) if named(name).setting == "full information" else FeedbackGraph.bandit(3)
        print(f"{name:34} {graph.name:16} {time_rounds(small, graph, named(name), 3, floor, 40)[0] / 1000:12.1f}")

    print("\nthe same non-zeros among more features (nanoseconds per round): no pass over all of W")
    for name in ("gapsmh", "pnewtron", "soba-diag", "banditron"):
        costs = [time_rounds(chunk, graphs[0], named(name), 3, floor, width)[0] for width in (D, 100 * D)]
        print(f"{name:34} d = {D}: {costs[0]:.0f}, d = {100 * D}: {costs[1]:.0f}")

    print("\nwith a watch, and without one (nanoseconds per round)")
    for graph in graphs:
        costs = [time_rounds(chunk, graph, named("auto"), 3, floor, watch=watch)[0] for watch in (True, False)]
        print(f"{'auto':34} {graph.name:16} {costs[0]:.0f}, {costs[1]:.0f}")

    print(f"\nact + learn with (indices, values): {one_round_at_a_time(chunk):.1f} microseconds")
    print(f"the same with a watch: {one_round_at_a_time(chunk, watch=True):.1f} microseconds")
    print(f"process start to first result, warm cache: {a_command('run', 'synthetic:T=1000'):.2f} s")
    print(f"gappletron --help: {a_command('--help'):.2f} s")


if __name__ == "__main__":
    main()
