"""What is around the kernel, beside its targets and, where one is named, beside a peer: all in one run, interleaved.

    python -m benchmarks.around [--repeats R]

K = 9, d = 120, rows of the paper's stream, texts of 15 words. A figure is processor time, the least over the repeats:
where others use the machine too, that says most. Only those of threads are by the clock. `benchmarks/service.py` has
single requests beside large batches.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from gappletron import UNSEEN, Encoder, FeedbackGraph, Online, Player, Synthetic
from gappletron.data.prepared import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

K, D, ROWS, BULK = 9, 120, 2_000, 50_000
GRAPH = FeedbackGraph.bandit(K)
# A figure: what it is, its unit, how many of it one call is, what it may be at most, and the call.
Figure = tuple[str, str, float, float, "Callable[[], object]"]


def seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def play(model: Online, xs: list[Any], labels: list[int]) -> None:
    for x, label in zip(xs, labels, strict=True):
        receipt = model.act(x)
        model.learn(receipt, label if label == receipt.action else UNSEEN)


def river_texts(texts: list[str], labels: list[int]) -> Callable[[], object]:
    """River's softmax regression over a bag of words: a prediction and the label for each text."""
    extraction, linear = (importlib.import_module(f"river.{name}") for name in ("feature_extraction", "linear_model"))
    model = extraction.BagOfWords() | linear.SoftmaxRegression()

    def run() -> None:
        for text, label in zip(texts, labels, strict=True):
            model.predict_one(text)
            model.learn_one(text, label)

    return run


def vowpal_texts(texts: list[str], labels: list[int]) -> Callable[[], object]:
    """Vowpal Wabbit's one against all over the same words: a prediction and the label for each text."""
    pyvw = importlib.import_module("vowpalwabbit.pyvw")
    model = pyvw.Workspace(f"--oaa {K} --quiet")

    def run() -> None:
        for text, label in zip(texts, labels, strict=True):
            model.predict(f"| {text}")
            model.learn(f"{label + 1} | {text}")

    return run


def peers(texts: list[str], labels: list[int]) -> list[Figure]:
    found: list[Figure] = []
    for name, make in (("River", river_texts), ("Vowpal Wabbit", vowpal_texts)):
        try:
            found.append((f"{name}: predict and learn, text", "us", ROWS, np.nan, make(texts, labels)))
        except ImportError as error:
            print(f"{name} is left out: {error}")
    return found


def in_threads(models: list[Online], xs: list[Any], labels: list[int]) -> None:
    """Play all rows with each model, each in a thread of its own."""
    threads = [threading.Thread(target=play, args=(model, xs, labels)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_by_one(learner: str) -> list[Figure]:
    """The figures of single rows and of small batches."""
    rng = np.random.default_rng(0)
    (chunk,) = Synthetic(classes=K, features=D, noise=0.05, rounds=ROWS).chunks()
    xs = [(chunk.indices[a:b], chunk.values[a:b]) for a, b in zip(chunk.indptr[:-1], chunk.indptr[1:], strict=True)]
    labels = chunk.labels.tolist()
    dense = np.zeros((ROWS, D))
    for row, (indices, values) in zip(dense, xs, strict=True):
        row[indices] = values
    words = [f"w{i}" for i in range(2_000)]
    texts = [" ".join(rng.choice(words, 15)) for _ in range(ROWS)]
    records = [{"text": text} for text in texts]
    vectors = Online(learner, GRAPH, D)
    others = [Online(learner, GRAPH, D) for _ in range(3)]
    encoded = Online(learner, GRAPH, encoder=Encoder(text="text"))
    part = ROWS // 8

    def single(model: Online) -> Callable[[], object]:
        return lambda: play(model, xs, labels)

    def make() -> None:
        Player(learner, GRAPH, D).engine.compile_rounds()

    def threads(models: list[Online], rows: int) -> Callable[[], object]:
        return lambda: in_threads(models, xs[:rows], labels[:rows])

    found: list[Figure] = [
        ("act and learn, vector", "us", ROWS, 7.0, single(vectors)),
        ("act and learn, text", "us", ROWS, 15.0, lambda: play(encoded, records, labels)),
        ("predict, vector", "us", ROWS, 10.0, lambda: [vectors.predict(x) for x in xs]),
        ("predict, record", "us", ROWS, 20.0, lambda: [encoded.predict(x) for x in records]),
        ("predict_proba, vector", "us", ROWS, 10.0, lambda: [vectors.predict_proba(x[None]) for x in dense]),
        ("predict_proba, record", "us", ROWS, 20.0, lambda: [encoded.predict_proba([x]) for x in records]),
        ("act_many, dense, a row", "us", ROWS, 3.0, lambda: others[2].act_many(dense)),
        ("a Player, ready to play", "ms", 1.0, 1.0, make),
        ("two models, one after the other", "us", 2 * ROWS, np.nan, lambda: [single(each)() for each in others[:2]]),
        ("two models in two threads", "us", 2 * ROWS, np.nan, threads(others[:2], ROWS)),
        ("one model in eight threads", "us", ROWS, np.nan, threads([vectors] * 8, part)),
    ]
    named: list[Figure] = [(f"{learner}: {figure[0]}", *figure[1:]) for figure in found]
    return named + (peers(texts, labels) if learner == "auto" else [])


def restarting(learner: str, folder: Path) -> list[Figure]:
    """The figures of a restart: a log is replayed, and waiting receipts are saved and loaded."""
    (chunk,) = Synthetic(classes=K, features=D, noise=0.05, rounds=BULK).chunks()
    ends = zip(chunk.indptr[:-1], chunk.indptr[1:], strict=True)
    xs = [(chunk.indices[a:b], chunk.values[a:b]) for a, b in ends]
    logged = Online.open(folder / f"{learner}.sqlite", learner, GRAPH, D, durability="os", snapshot_every=10 * BULK)
    with logged.hold():
        play(logged, xs, chunk.labels.tolist())
    logged.commit()
    waiting = Online(learner, GRAPH, D, pending=BULK, pending_bytes=2**31)
    waiting.act_many(csr_array((chunk.values, chunk.indices, chunk.indptr), shape=(BULK, D)))
    saved = folder / f"{learner}.npz"
    waiting.save(saved)
    return [
        (f"{learner}: replay, a round", "us", BULK, 10.0, lambda: Online.from_store(folder / f"{learner}.sqlite")),
        (f"{learner}: save, a waiting receipt", "us", BULK, np.nan, lambda: waiting.save(saved)),
        (f"{learner}: load, a waiting receipt", "us", BULK, 5.0, lambda: Online.load(saved)),
    ]


def monitored(learner: str, graph: FeedbackGraph) -> list[Figure]:
    """A round of a whole stream, without and with a watch."""
    chunks = [prepare(chunk) for chunk in Synthetic(classes=K, features=D, noise=0.05, rounds=BULK).chunks()]

    def advance(monitor: bool) -> None:
        player = Player(learner, graph, D, monitor=monitor)
        for chunk in chunks:
            player.advance(chunk)

    name = f"{learner}, {graph.name}"
    return [
        (f"{name}: a round", "ns", BULK, np.nan, lambda: advance(False)),
        (f"{name}: monitored, target 1.5 x", "ns", BULK, np.nan, lambda: advance(True)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    graphs = [getattr(FeedbackGraph, name)(K) for name in ("bandit", "full", "filtering")]
    figures = [figure for learner in ("gapsmh", "auto") for figure in one_by_one(learner)]
    figures += [figure for learner in ("gapsmh", "auto") for figure in restarting(learner, Path(folder.name))]
    figures += [figure for graph in graphs for learner in ("gapsmh", "auto") for figure in monitored(learner, graph)]
    least = [float("inf")] * len(figures)
    for repeat in range(options.repeats + 1):  # the first compiles
        for place, figure in enumerate(figures):
            clock = time.perf_counter if "threads" in figure[0] or "after" in figure[0] else time.process_time
            taken = seconds(figure[-1], clock)
            least[place] = min(least[place], taken if repeat else float("inf"))
    units = {"ms": 1e3, "us": 1e6, "ns": 1e9}
    print(f"| {'what':48} | {'measured':>12} | {'at most':>8} |\n|---|---|---|")
    for (name, unit, number, target, _), taken in zip(figures, least, strict=True):
        goal = "" if np.isnan(target) else f"{target:g} {unit}"
        print(f"| {name:48} | {taken / number * units[unit]:9.2f} {unit} | {goal:>8} |")
    folder.cleanup()


if __name__ == "__main__":
    main()
