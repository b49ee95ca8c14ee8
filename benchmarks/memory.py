"""How much memory and disk models take, beside their targets. Run it as ``python benchmarks/memory.py``.

Each case runs in a process of its own, so that the resident memory is its own; what Python, NumPy and Numba take before
the model is made is subtracted.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gappletron import UNSEEN, Encoder, FeedbackGraph, Online


def resident() -> float:
    """The resident memory of this process in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("this system does not tell the resident memory")


def play_texts(model: Online, words: int, rounds: int, seed: int) -> None:
    """Act and learn on texts of 15 words out of so many."""
    rng, names = np.random.default_rng(seed), [f"word{number}" for number in range(words)]
    labels = model.graph.classes
    for t in range(rounds):
        chosen = names[15 * t % words : 15 * t % words + 15] + [names[k] for k in rng.integers(0, words, 5)]
        receipt = model.act({"text": " ".join(chosen)})
        label = labels[t % len(labels)]
        model.learn(receipt, label if label in receipt.reveals else UNSEEN)


def five_columns(folder: Path) -> dict[str, float]:
    """A model of five columns of numbers after 2,000 rounds."""
    model, rng = Online(graph=FeedbackGraph.filtering(["ham", "spam"]), encoder=Encoder()), np.random.default_rng(0)
    for t in range(2000):
        receipt = model.act({f"column {k}": float(v) for k, v in enumerate(rng.normal(size=5))})
        model.learn(receipt, ("ham", "spam")[t % 2] if "ham" in receipt.reveals else UNSEEN)
    model.save(folder / "model.npz")
    return {"saved, kB (target 200)": (folder / "model.npz").stat().st_size / 1000}


def many_intents(folder: Path) -> dict[str, float]:
    """150 classes with 6,000 words."""
    warm = Online(graph=FeedbackGraph.full(150), encoder=Encoder(text="text"))
    play_texts(warm, 20, 3, 0)
    before = resident()
    model = Online(graph=FeedbackGraph.full(150), encoder=Encoder(text="text"))
    play_texts(model, 6000, 2000, 0)
    after = resident()
    model.save(folder / "model.npz")
    return {
        "words": model.features,
        "memory, MB (target 40)": after - before,
        "saved, MB (target 40)": (folder / "model.npz").stat().st_size / 1e6,
    }


def thousand_models(_: Path) -> dict[str, float]:
    """1,000 models of two classes with 1,000 words each."""
    graph = FeedbackGraph.filtering(["ham", "spam"])
    warm = Online(graph=graph, encoder=Encoder(text="text"))
    play_texts(warm, 1000, 70, 0)
    before, models = resident(), []
    for seed in range(1000):
        models.append(Online(graph=graph, encoder=Encoder(text="text"), seed=seed))
        play_texts(models[-1], 1000, 70, seed)
    return {"words each": models[0].features, "memory, MB (target 300)": resident() - before}


CASES = (five_columns, many_intents, thousand_models)


def run(case: Any) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return case(Path(folder))


if __name__ == "__main__":
    for case in CASES:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(run, (case,))
        print(f"{case.__doc__} " + "; ".join(f"{name}: {value:,.0f}" for name, value in found.items()), flush=True)
