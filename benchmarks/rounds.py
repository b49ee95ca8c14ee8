"""What a round costs: every learner as a multiple of one bare pass over the same stream, all in one run.

    python benchmarks/rounds.py [--rounds T] [--repeats R]

The bare pass computes the scores (with values) and their argmax, and learns nothing: no learner can be faster. Where
the yardstick `../shared/bench/floor.py` lies beside the project it is timed too; ours must be no slower, or the
multiples flatter.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np

from gappletron import FeedbackGraph, Gappletron, Online, Runs, Synthetic, named, names
from gappletron.optimizers import AdaGrad, FixedOGD, ProjectedOGD, ScaleFreeFTRL
from gappletron.streams.stream import Chunk, Stream

FULL_MATRIX = ("newtron", "soba", "second-order-perceptron")
YARDSTICK = Path(__file__).resolve().parents[2] / "shared" / "bench" / "floor.py"


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


class Held(Stream):
    """A stream that is already in memory, so that only playing is timed."""

    def __init__(self, stream: Stream) -> None:
        self.name, self.features, self.classes = stream.name, stream.features, stream.classes
        self.rounds, self.max_norm = stream.rounds, stream.max_norm
        self._chunks = list(stream.chunks())

    def chunks(self):
        return iter(self._chunks)


class Widened(Held):
    """The same rows, with features that never occur behind them."""

    def __init__(self, stream: Held, features: int) -> None:
        super().__init__(stream)
        self.features = features


def joined(stream: Held) -> Chunk:
    chunks = list(stream.chunks())
    sizes = np.concatenate([np.diff(chunk.indptr) for chunk in chunks])
    return Chunk(
        np.concatenate([[0], np.cumsum(sizes)]), *(np.concatenate([chunk[i] for chunk in chunks]) for i in (1, 2, 3))
    )


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def yardstick():
    if not YARDSTICK.exists():
        return None
    spec = importlib.util.spec_from_file_location("floor", YARDSTICK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.score_pass


def time_rounds(stream: Held, graph: FeedbackGraph, learner, repeats: int, floor) -> tuple[float, float]:
    """Nanoseconds a round, and the median over the repeats of the ratio to a bare pass timed right before."""
    nanoseconds, ratios = [], []
    for repeat in range(repeats + 1):
        runs = Runs(learner, stream, graph, seed=repeat, jobs=1)
        bare = seconds(floor)
        list(runs)
        if repeat:  # the first one compiles, or loads
            nanoseconds.append(runs.histories()[0].seconds / stream.rounds * 1e9)
            ratios.append(runs.histories()[0].seconds / bare)
    return float(np.median(nanoseconds)), float(np.median(ratios))


def one_round_at_a_time(stream: Held, rounds: int = 5000) -> float:
    """Microseconds for act and learn with (indices, values)."""
    chunk = joined(stream)
    graph = FeedbackGraph.bandit(stream.classes)
    model = Online("gapsmh", graph, stream.features)
    cuts = zip(chunk.indptr[:rounds], chunk.indptr[1 : rounds + 1], strict=True)
    xs = [(chunk.indices[a:b], chunk.values[a:b]) for a, b in cuts]
    labels = [stream.classes[y] for y in chunk.labels[:rounds]]
    from gappletron import UNSEEN

    def play():
        for x, label in zip(xs, labels, strict=True):
            receipt = model.act(x)
            model.learn(receipt, label if label == receipt.action else UNSEEN)

    play()
    return float(np.median([seconds(play) for _ in range(5)])) / rounds * 1e6


def start_to_result() -> float:
    command = [sys.executable, "-m", "gappletron", "run", "synthetic:T=1000"]
    subprocess.run(command, check=True, capture_output=True)
    return float(
        np.median([seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(5)])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    K, d = 9, 120
    stream = Held(Synthetic(classes=K, features=d, noise=0.05, rounds=options.rounds))
    chunk = joined(stream)
    W = np.random.default_rng(0).normal(size=(d, K))

    def floor():
        return bare_pass(*chunk[:3], W)

    floor()
    own = [seconds(floor) / options.rounds * 1e9 for _ in range(options.repeats)]
    print(f"bare pass, K = {K}, d = {d}: {np.median(own):.0f} ns a round")
    theirs = yardstick()
    if theirs is not None:
        theirs(*chunk[:3], W)
        ratios = [seconds(floor) / seconds(lambda: theirs(*chunk[:3], W)) for _ in range(5 * options.repeats)]
        print(f"  = {np.median(ratios):.2f} x the yardstick's bare pass")

    print(f"\n{'learner':34} {'graph':16} {'ns a round':>10} {'x bare pass':>12}")
    graphs = [getattr(FeedbackGraph, name)(K) for name in ("bandit", "full", "filtering", "label_efficient")]
    cases = [(name, named(name), graph) for graph in graphs for name in names(graph) if name not in FULL_MATRIX]
    cases += [
        (f"gapsmh, {type(o).__name__}", Gappletron(optimizer=o), graphs[0])
        for o in (ProjectedOGD(10.0), FixedOGD(0.01, 10.0), AdaGrad(), ScaleFreeFTRL(10.0))
    ]
    for name, learner, graph in cases:
        nanoseconds, ratio = time_rounds(stream, graph, learner, options.repeats, floor)
        print(f"{name:34} {graph.name:16} {nanoseconds:10.0f} {ratio:12.2f}")

    print("\nfull matrices, K = 3, d = 40, 2,000 rounds (microseconds a round)")
    small = Held(Synthetic(classes=3, features=40, noise=0.05, rounds=2000))
    for name in FULL_MATRIX:
        graph = FeedbackGraph.full(3) if named(name).setting == "full information" else FeedbackGraph.bandit(3)
        print(f"{name:34} {graph.name:16} {time_rounds(small, graph, named(name), 3, floor)[0] / 1000:10.1f}")

    print("\nthe same non-zeros among ever more features (nanoseconds a round): no pass over all of W")
    for name in ("gapsmh", "pnewtron", "soba-diag", "banditron"):
        costs = [time_rounds(Widened(stream, width), graphs[0], named(name), 3, floor)[0] for width in (d, 100 * d)]
        print(f"{name:34} d = {d}: {costs[0]:.0f}, d = {100 * d}: {costs[1]:.0f}")

    print(f"\nact + learn with (indices, values): {one_round_at_a_time(stream):.1f} microseconds")
    print(f"process start to first result, warm cache: {start_to_result():.2f} s")


if __name__ == "__main__":
    main()
