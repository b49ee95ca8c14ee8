"""What reading a table costs: the same rows as CSV, Parquet, JSON lines and Vowpal Wabbit's text, through ours
and through pyarrow or Vowpal Wabbit alone, beside targets; the memory it takes; and a run from the command line.

    python -m benchmarks.tables [--rows 840000] [--repeats 3]

A row has eight numbers, two categories and a text of eight words. "Alone" is the peer's reader: pyarrow iterates over
its blocks with inferred types, Vowpal Wabbit parses and learns nothing. "Ours" yields encoded chunks, ready to be
played. Each reading is in a process of its own, one after the other, and the least of the repeats is shown: processor
time per row, and for the command also the seconds by the clock, from the start of the process to its end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from gappletron import Encoder

WORDS = np.array(
    ["free", "win", "prize", "call", "now", "hello", "see", "you", "at", "five", "lunch", "report", "money", "bank"]
)

OURS = """
from gappletron import open_stream
options = dict(label=label, classes=["1", "2"])
next(open_stream(path, **options).chunks())  # imports and machine code are not timed
start = time.process_time()
rows = sum(len(chunk.labels) for chunk in open_stream(path, **options).chunks())
"""
PYARROW = """
import pyarrow.{module}
start = time.process_time()
rows = sum(batch.num_rows for batch in pyarrow.{module}.{reader})
"""
VOWPAL_WABBIT = """
from vowpalwabbit import pyvw
model, rows = pyvw.Workspace(f"--noop --quiet --no_stdin -d {path}"), 1
model.run_parser()
"""
# The endings of the files; the most nanoseconds that a row may take, where there is a target; and the peer's reader.
FORMATS = {
    "csv": (None, PYARROW.format(module="csv", reader="open_csv(path)")),
    "parquet": (1000, PYARROW.format(module="parquet", reader="ParquetFile(path).iter_batches(4096)")),
    "jsonl": (2000, PYARROW.format(module="json", reader="open_json(path)")),
    "vw": (2000, VOWPAL_WABBIT),
}
MOST_SECONDS = 2.2

PROGRAM = """
import resource, sys, time
path = sys.argv[1]
label = None if path.endswith("vw") else "label"
start = time.process_time()
{read}
seconds = time.process_time() - start
print(rows, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def draw_rows(rng: np.random.Generator, rows: int) -> dict[str, list[Any]]:
    """The columns of so many rows."""
    numbers = rng.normal(size=(rows, 8)).round(5)
    places = rng.integers(0, (50, 5), (rows, 2))
    words = WORDS[rng.integers(0, len(WORDS), (rows, 8))]
    return {
        "label": ["12"[int(number > 0)] for number in numbers[:, 0]],
        **{f"x{i}": numbers[:, i].tolist() for i in range(8)},
        "city": [f"city{city}" for city, _ in places],
        "kind": [f"k{kind}" for _, kind in places],
        "message": [" ".join(text) for text in words],
    }


def generate(folder: Path, rows: int) -> None:
    """Write the same rows in all formats."""
    rng = np.random.default_rng(0)
    header = pyarrow.table(draw_rows(rng, 1)).schema
    with contextlib.ExitStack() as files:
        table, lines, examples = (
            files.enter_context((folder / f"t.{end}").open("w")) for end in ("csv", "jsonl", "vw")
        )
        parquet = files.enter_context(pyarrow.parquet.ParquetWriter(folder / "t.parquet", header))
        table.write(",".join(header.names) + "\n")
        for start in range(0, rows, 20_000):
            columns = draw_rows(rng, min(20_000, rows - start))
            parquet.write_table(pyarrow.table(columns))
            for row in zip(*columns.values(), strict=True):
                table.write(",".join(map(str, row)) + "\n")
                lines.write(json.dumps(dict(zip(header.names, row, strict=True))) + "\n")
                label, *values, city, kind, message = row
                pairs = " ".join(f"x{i}:{value}" for i, value in enumerate(values))
                examples.write(f"{label} |x {pairs} |city {city} |kind {kind} |message {message}\n")


def measure(read: str, path: Path) -> tuple[int, float, float]:
    """Rows, seconds and the largest memory (MB) of one reading."""
    command = [sys.executable, "-c", PROGRAM.format(read=read), str(path)]
    rows, seconds, memory = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return int(rows), float(seconds), float(memory)


def measure_command(path: Path) -> tuple[float, float]:
    """Seconds of the processor and by the clock of a run from the command line."""
    command = [sys.executable, "-m", "gappletron", "run", str(path), "--label", "label"]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=840_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    found: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder, options.rows)
        measure_command(folder / "t.csv")  # it compiles
        commands = []
        for _ in range(options.repeats):
            for ending, (_, peer) in FORMATS.items():
                found.setdefault((ending, "ours"), []).append(measure(OURS, folder / f"t.{ending}"))
                with contextlib.suppress(subprocess.CalledProcessError):  # Vowpal Wabbit need not be installed
                    found.setdefault((ending, "alone"), []).append(measure(peer, folder / f"t.{ending}"))
            commands.append(measure_command(folder / "t.csv"))
    print("| format | ours, ns per row | at most | alone | memory, MB |\n|---|---|---|---|---|")
    for ending, (target, _) in FORMATS.items():
        ours, alone = found[ending, "ours"], found.get((ending, "alone"), [])
        cells = [min(seconds for _, seconds, _ in runs) / options.rows * 1e9 for runs in (ours, alone) if runs]
        peer = f"{cells[1]:,.0f}" if alone else "not installed"
        print(f"| {ending} | {cells[0]:,.0f} | {target or ''} | {peer} | {max(run[2] for run in ours):.0f} |")
    spent, seconds = map(min, zip(*commands, strict=True))
    print(f"gappletron run t.csv: {seconds:.2f} s, at most {MOST_SECONDS}; {spent:.2f} s of the processor")
    encoder, text = Encoder(), " ".join([*WORDS, "tomorrow"])
    print(f"a text of 15 words: {min(timeit.repeat(lambda: encoder.encode(text), number=2000)) / 2000 * 1e6:.1f} us")
    record = {f"x{i}": i / 3 for i in range(10)} | {"city": "Bonn", "message": text}
    encoder = Encoder(text="message", categorical="city")
    print(
        f"a record of 12 columns: {min(timeit.repeat(lambda: encoder.encode(record), number=2000)) / 2000 * 1e6:.1f} us"
    )


if __name__ == "__main__":
    main()
