"""The default learner beside that of version 0.2.0: real streams, streams that change, loans, and a rare class.

Run it as ``python benchmarks/default.py [streams] [change] [loans] [rare]``. The real streams are those of
`../shared/data`, from the raw files, at most 10,000 rows each, in their natural order and shuffled, with everything at
its default. Loans are played on a synthetic register, and on the files ``adult.data`` and ``adult.test`` (UCI,
"Adult") where the variable ADULT names their folder.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from gappletron import FeedbackGraph, Synthetic, open_stream, play

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
PRESETS = ("full", "filtering", "label-efficient", "bandit")
LEARNERS = ("auto", "one-against-all")
ROWS, SEEDS = 10_000, 4

# The number of features of the svmlight files, and the label columns of the tables.
FEATURES = {"sms_spam": 16384, "spamassassin_stream": 39916, "reuters21578": 65536, "news20": 65536}
FEATURES |= {"banking77": 16384, "spambase": 57, "letter": 16, "covtype_half": 54}
LABELS = {"elec": "class", "gas": "gas", "occupancy": "Occupancy", "outdoor": "label", "enron": "label"}
LABELS |= {"pendigits": "class", "phoneme": "label", "nursery": "classification"}

# Numbers are chosen on the first half of the streams and judged on the second.
CHOSEN_ON = ("sms_spam", "reuters21578", "banking77", "letter", "elec", "occupancy", "enron", "phoneme")


def geometric_mean(ratios: list[float]) -> float:
    """The exponential of the mean logarithm."""
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")


# --------------------------------------------------------------------------------------------------------- real streams


def write_rows(name: str, order: str, folder: Path) -> tuple[Path, Any]:
    """Write the rows of a stream in this order; return the file and its most frequent label."""
    rng = np.random.default_rng(7)
    if name in FEATURES:
        with gzip.open(FOLDER / f"{name}.svm.gz", "rt") as file:
            lines = file.read().splitlines()
        places = np.arange(len(lines)) if order == "natural" else rng.permutation(len(lines))
        chosen = [lines[i] for i in places[:ROWS]]
        path = folder / f"{name}.svm"
        path.write_text("\n".join(chosen) + "\n")
        return path, int(Counter(line.split(" ", 1)[0] for line in chosen).most_common(1)[0][0])
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", newline="") as file:
        header, *rows = csv.reader(file)
    places = np.arange(len(rows)) if order == "natural" else rng.permutation(len(rows))
    kept = [rows[i] for i in places[:ROWS]]
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *kept])
    column = header.index(LABELS[name])
    return path, Counter(row[column] for row in kept).most_common(1)[0][0]


def error_on(name: str, path: Path, frequent: Any, preset: str, learner: str) -> float:
    """The mean error over the seeds."""
    options: dict[str, Any] = {"features": FEATURES[name]} if name in FEATURES else {"label": LABELS[name]}
    if name == "enron":
        options["text"] = "mail"
    stream = open_stream(str(path), **options)
    more = {}
    if preset == "filtering":
        more["revealing"] = next(c for c in stream.classes if str(c) in (str(frequent), f"{frequent}.0"))
    return float(np.mean([run.error_rate for run in play(learner, stream, preset, repeats=SEEDS, **more)]))


def compare_streams() -> None:
    """Print a row for each stream and order: the errors of both learners on the four graphs."""
    if not FOLDER.exists():
        print("the folder of the real streams is not there")
        return
    ratios: dict[tuple[str, str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for order in ("natural", "shuffled"):
            for name in (*FEATURES, *LABELS):
                path, frequent = write_rows(name, order, Path(folder))
                cells = []
                for preset in PRESETS:
                    ours, before = (error_on(name, path, frequent, preset, learner) for learner in LEARNERS)
                    ratios[order, name, preset] = (ours + 1e-4) / (before + 1e-4)
                    cells.append(f"{preset} {ours:.4f} / {before:.4f}")
                print(f"{order} {name}: {'; '.join(cells)}", flush=True)
    for order in ("natural", "shuffled"):
        for half, is_in in (("all", None), ("chosen on", True), ("judged on", False)):
            there = [k for k in ratios if k[0] == order and (is_in is None or (k[1] in CHOSEN_ON) is is_in)]
            cells = [geometric_mean([ratios[k] for k in there if k[2] == preset]) for preset in PRESETS]
            whole = geometric_mean([ratios[k] for k in there])
            print(
                f"{order}, {half}: {whole:.3f}", " ".join(f"{p} {c:.3f}" for p, c in zip(PRESETS, cells, strict=True))
            )
            print(
                "   largest:", ", ".join(f"{k[1]} {k[2]} {ratios[k]:.2f}" for k in sorted(there, key=ratios.get)[-3:])
            )


# --------------------------------------------------------------------------------------------------------------- change


def changing_stream(kind: str, K: int, T: int, seed: int) -> tuple[Any, Any]:
    """The paper's generator with labels that change: the rows and the labels."""
    chunks = list(Synthetic(classes=K, features=120, noise=0.02, rounds=T, seed=seed).chunks())
    X = sparse.vstack([sparse.csr_matrix((c.values, c.indices, c.indptr), shape=(len(c.labels), 120)) for c in chunks])
    y, t = np.concatenate([c.labels for c in chunks]), np.arange(T) / T
    rng = np.random.default_rng(seed + 99)
    rolled = {
        "rolled at half": t >= 0.5,
        "there and back": (t >= 1 / 3) & (t < 2 / 3),
        "slowly": rng.random(T) < np.clip((t - 0.3) / 0.3, 0, 1),
        "every eighth": (t * 8).astype(int) % 2 == 1,
    }
    if kind == "hidden":
        return X, np.where((t >= 0.5) & (y == K - 1), 0, y)
    if kind == "new class":
        return X, np.where((t < 0.5) & (y == K - 1), 0, y)
    return X, np.where(rolled[kind], (y + 1) % K, y)


def compare_changes() -> None:
    """Print the error before a change, in the next tenth, and in the last 40 percent of the rounds."""
    first = {"there and back": 1 / 3, "slowly": 0.3, "every eighth": 1 / 8}
    for T in (20_000, 100_000):
        for kind in ("rolled at half", "there and back", "slowly", "every eighth", "hidden", "new class"):
            for K in (2, 3, 6, 20):
                for preset in PRESETS:
                    cells = []
                    for learner in LEARNERS:
                        found = []
                        for seed in range(SEEDS):
                            start = int(T * first.get(kind, 0.5))
                            marks = sorted({start, start + T // 10, int(0.6 * T), T})
                            run = play(
                                learner,
                                changing_stream(kind, K, T, seed),
                                FeedbackGraph.preset(preset, K),
                                curve=marks,
                                seed=seed,
                            )[0]
                            at = dict(zip(marks, run.curve.mistakes.tolist(), strict=True))
                            last = (at[T] - at[int(0.6 * T)]) / (T - int(0.6 * T))
                            found.append((at[start] / start, (at[start + T // 10] - at[start]) / (T // 10), last))
                        cells.append(" / ".join(f"{value:.3f}" for value in np.mean(found, axis=0)))
                    print(f"T = {T}, {kind}, K = {K}, {preset}: {cells[0]}   (0.2.0: {cells[1]})", flush=True)


# ---------------------------------------------------------------------------------------------------------------- loans


def loan_register(rounds: int, seed: int) -> tuple[Any, Any]:
    """Ten categories, some 100 columns of 0 and 1; 24 percent of the loans are repaid."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 15, 10)
    weights = [rng.normal(size=n) for n in sizes]
    values = np.stack([rng.choice(n, rounds, p=rng.dirichlet(np.full(n, 0.7))) for n in sizes], axis=1)
    score = sum(w[column] for w, column in zip(weights, values.T, strict=True))
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        too_many = (1 / (1 + np.exp(-score - middle))).mean() > 0.24
        low, high = (low, middle) if too_many else (middle, high)
    repaid = rng.random(rounds) < 1 / (1 + np.exp(-score - low))
    columns = (values + np.concatenate([[0], np.cumsum(sizes)[:-1]])).ravel()
    rows = np.repeat(np.arange(rounds), 10)
    return sparse.csr_matrix((np.ones(columns.size), (rows, columns))), np.where(repaid, "good", "bad")


def census_register(rounds: int, seed: int) -> tuple[Any, Any]:
    """The rows of Adult in random order, again and again: numbers as they are, a column for each category."""
    columns: dict[Any, int] = {}
    entries, good = [], []
    for name in ("adult.data", "adult.test"):
        for line in (Path(os.environ["ADULT"]) / name).read_text().splitlines():
            cells = [cell.strip() for cell in line.rstrip(".").split(",")]
            if len(cells) != 15:
                continue
            for place, cell in enumerate(cells[:-1]):
                is_number = place in (0, 2, 4, 10, 11, 12)
                column = columns.setdefault(place if is_number else (place, cell), len(columns))
                entries.append((len(good), column, float(cell) if is_number else 1.0))
            good.append(cells[-1] == ">50K")
    rows, places, values = zip(*entries, strict=True)
    rng, n = np.random.default_rng(seed), len(good)
    order = np.concatenate([rng.permutation(n) for _ in range(-(-rounds // n))])[:rounds]
    return sparse.csr_matrix((values, (rows, places)))[order], np.where(np.array(good)[order], "good", "bad")


def compare_loans() -> None:
    """Print the cost per round beside that with every label shown, and beside refusing everybody."""
    compare_register("synthetic", loan_register, ((12_000, 4), (200_000, 2)))
    if "ADULT" in os.environ:
        compare_register("Adult", census_register, ((12_000, 12), (200_000, 12)))


def compare_register(name: str, register: Any, sizes: Any) -> None:
    """Print the costs on one register, for so many rounds and seeds."""
    for rounds, seeds in sizes:
        for price in (2, 5):
            for learner in LEARNERS:
                found = []
                for seed in range(seeds):
                    X, y = register(rounds, seed)
                    costs = {("good", "bad"): price}
                    hidden = play(learner, (X, y), FeedbackGraph.filtering(["good", "bad"], costs=costs), seed=seed)[0]
                    shown = play(learner, (X, y), FeedbackGraph.full(["good", "bad"], costs=costs), seed=seed)[0]
                    found.append((hidden.cost, shown.cost, (y == "good").sum(), hidden.labels_seen))
                cost, full, refused, seen = np.mean(found, axis=0)
                print(
                    f"{name}, T = {rounds}, a bad loan costs {price}, {learner}: {cost / full:.3f} of all labels, "
                    f"{cost / refused:.3f} of refusing, {seen:,.0f} labels",
                    flush=True,
                )


# ----------------------------------------------------------------------------------------------------- a rare class


def compare_rare() -> None:
    """Print in how many of 10 runs a rare class that alone reveals, far outliers of one column, is not found."""
    for learner in LEARNERS:
        for share in (0.02, 0.05):
            for price in (1, 10):
                for far in (6, 15, 50):
                    for columns in (3, 10):
                        lost, warned = zip(
                            *(play_rare(learner, share, price, far, columns, n) for n in range(10)), strict=True
                        )
                        print(
                            f"{learner}, {share:.0%} of the rows, {far} deviations, {columns} columns, missing one "
                            f"costs {price}: not found in {sum(lost)} of 10 runs, of which {sum(warned)} warn",
                            flush=True,
                        )


def play_rare(learner: str, share: float, price: int, far: int, columns: int, seed: int) -> tuple[bool, bool]:
    """Whether there were more mistakes in the second half than half of its rare rows, and whether such a run warns."""
    rng = np.random.default_rng(seed)
    X, is_rare = rng.normal(size=(ROWS, columns)), rng.random(ROWS) < share
    X[is_rare, 0] += far
    costs = {("well", "sick"): price} if price > 1 else None
    graph = FeedbackGraph.filtering(["sick", "well"], costs=costs)
    stream = (X, np.where(is_rare, "sick", "well"))
    run = play(learner, stream, graph, seed=seed, curve=[ROWS // 2, ROWS])[0]
    first, total = run.curve.mistakes
    is_lost = bool(total - first > share / 2 * (ROWS // 2))
    return is_lost, is_lost and run.warning is not None


PARTS = {"streams": compare_streams, "change": compare_changes, "loans": compare_loans, "rare": compare_rare}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
