"""What reading a table costs: a generated CSV file through ours and through pyarrow alone, and the memory it takes.

    python benchmarks/tables.py [--gigabytes 2] [--repeats 3]

The file has eight columns of numbers, two of categories and a text of eight words. "pyarrow alone" iterates over the
blocks of `pyarrow.csv.open_csv` with inferred types. "ours" yields encoded chunks, ready to be played. Both run in
processes of their own, one after the other, so that the memory of each is its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

import numpy as np

from gappletron import Encoder

WORDS = np.array(
    ["free", "win", "prize", "call", "now", "hello", "see", "you", "at", "five", "lunch", "report", "money", "bank"]
)

READ = {
    "pyarrow alone": "import pyarrow.csv\nrows = sum(b.num_rows for b in pyarrow.csv.open_csv(path))",
    "ours": "from gappletron import open_stream\n"
    "stream = open_stream(path, label='label', classes=['no', 'yes'])\n"
    "next(stream.chunks())  # imports and machine code are not timed\n"
    "stream = open_stream(path, label='label', classes=['no', 'yes'])\n"
    "start = time.perf_counter()\n"
    "rows = sum(len(c.labels) for c in stream.chunks())",
}

PROGRAM = """
import resource, sys, time
path = sys.argv[1]
start = time.perf_counter()
{read}
seconds = time.perf_counter() - start
print(rows, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def generate(path: Path, size: float) -> None:
    """Write a CSV file of about this many bytes."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join(["label", *(f"x{i}" for i in range(8)), "city", "kind", "message"]) + "\n")
        while file.tell() < size:
            numbers = rng.normal(size=(20_000, 8)).round(5)
            places = rng.integers(0, (50, 5), (20_000, 2))
            words = WORDS[rng.integers(0, len(WORDS), (20_000, 8))]
            for row, (city, kind), text in zip(numbers, places, words, strict=True):
                label = "yes" if row[0] > 0 else "no"
                file.write(f"{label},{','.join(map(str, row))},city{city},k{kind},{' '.join(text)}\n")


def measured(read: str, path: Path) -> tuple[int, float, float]:
    """Rows, seconds and the largest memory (MB) of one reading."""
    command = [sys.executable, "-c", PROGRAM.format(read=read), str(path)]
    rows, seconds, memory = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return int(rows), float(seconds), float(memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        generate(path, options.gigabytes * 1e9)
        print(f"{path.stat().st_size / 1e9:.2f} GB")
        for _ in range(options.repeats):
            found = {name: measured(read, path) for name, read in READ.items()}
            for name, (rows, seconds, memory) in found.items():
                print(f"{name:14} {rows:,} rows, {seconds:6.1f} s, {memory:4.0f} MB")
            print(f"ratio {found['ours'][1] / found['pyarrow alone'][1]:.2f}")
    encoder, text = Encoder(), " ".join([*WORDS, "tomorrow"])
    print(f"a text of 15 words: {min(timeit.repeat(lambda: encoder.encode(text), number=2000)) / 2000 * 1e6:.1f} us")
    record = {f"x{i}": i / 3 for i in range(10)} | {"city": "Bonn", "message": text}
    encoder = Encoder(text="message", categorical="city")
    print(
        f"a record of 12 columns: {min(timeit.repeat(lambda: encoder.encode(record), number=2000)) / 2000 * 1e6:.1f} us"
    )


if __name__ == "__main__":
    main()
