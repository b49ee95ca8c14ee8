"""How fast streams are: nanoseconds per row for svmlight files, beside scikit-learn, and per round for the synthetic
stream, beside NumPy making the same number of random draws and nothing else.

Run it as ``python benchmarks/streams.py``. The real files are read from ``../shared/data`` if that folder is there.
The passes that are compared alternate, and medians are printed, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import gzip
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_svmlight_file

from gappletron.data.svmlight import SvmlightFile
from gappletron.data.synthetic import Synthetic
from gappletron.data.transform import transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = Path(__file__).parents[2] / "shared" / "data"
REPEATS = 5


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e9


def files(folder: Path) -> Iterator[Path]:
    for name in ("news20", "covtype_half"):
        if (DATA / f"{name}.svm.gz").exists():
            path = folder / name
            path.write_bytes(gzip.decompress((DATA / f"{name}.svm.gz").read_bytes()))
            yield path
    rng = np.random.default_rng(0)
    path = folder / "30 of %.17g"
    with path.open("w") as file:
        for row in range(20_000):
            file.write(
                f"{row % 5} " + " ".join(f"{j}:{v:.17g}" for j, v in enumerate(rng.standard_normal(30), 1)) + "\n"
            )
    yield path


def svmlight() -> None:
    print(
        f"{'svmlight file':<16}{'rows':>9}{'MB':>6}{'play ns/row':>13}{'MB/s':>6}{'scan ns/row':>13}"
        f"{'sklearn ns/row':>16}{'ratio':>7}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for path in files(Path(folder)):
            found = SvmlightFile(path).scan()
            stream = SvmlightFile(path, features=found.features, classes=found.labels)
            runs = [
                (
                    timed(lambda: [None for _ in stream.chunks()]),  # noqa: B023 - called at once
                    timed(SvmlightFile(path).scan),
                    timed(lambda: load_svmlight_file(str(path), zero_based=False)),  # noqa: B023
                )
                for _ in range(REPEATS)
            ]
            play, scan, sklearn = (statistics.median(column) / found.rows for column in zip(*runs, strict=True))
            size = path.stat().st_size
            print(
                f"{path.name:<16}{found.rows:>9,}{size / 1e6:>6.1f}{play:>13,.0f}{size / found.rows / play * 1e3:>6.0f}"
                f"{scan:>13,.0f}{sklearn:>16,.0f}{sklearn / play:>7.1f}"
            )


def synthetic(rounds: int = 1_000_000) -> None:
    print(f"\n{'synthetic stream':<20}{'ns/round':>9}{'draws alone':>13}{'with log1p-unit and bias':>26}")
    rng = np.random.default_rng(0)
    for classes, features in ((9, 120), (6, 80), (12, 160)):
        stream = Synthetic(classes, features, rounds=rounds)
        changed = transform(Synthetic(classes, features, rounds=rounds // 10), "log1p-unit", bias=True)
        draws = features // 8 + 3  # per round: the unrelated bits, the class, whether there is noise, and its class
        block = np.empty(1000 * draws)
        for warm in (stream, changed):
            next(warm.chunks())
        runs = [
            (
                timed(lambda: [None for _ in stream.chunks()]) / rounds,  # noqa: B023 - called at once
                timed(lambda: [rng.random(out=block) for _ in range(rounds // 1000)]) / rounds,  # noqa: B023
                timed(lambda: [None for _ in changed.chunks()]) / (rounds // 10),  # noqa: B023
            )
            for _ in range(REPEATS)
        ]
        plain, bare, extra = map(statistics.median, zip(*runs, strict=True))
        print(f"K={classes}, d={features}".ljust(20) + f"{plain:>9.0f}{bare:>13.0f}{extra:>26.0f}")


if __name__ == "__main__":
    svmlight()
    synthetic()
