"""How long `gappletron reproduce` takes, how much memory, and how much of the time is spent playing.

    python benchmarks/reproduce.py [options of gappletron reproduce]

The target: T = 100,000 within 5 minutes on 2 cores (compilation included, caches empty) and within 2 GB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time

from gappletron import read_results
from gappletron.play.runs import usable_cores


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "gappletron", "reproduce", "--out", folder, *sys.argv[1:]], check=True)
        wall = time.perf_counter() - start
        results = read_results(folder)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    playing = sum(result.outcome.seconds for result in results)
    rounds = sum(result.task.rounds for result in results)
    print(
        f"{len(results):,} runs, {rounds / 1e6:,.0f} million rounds: {wall:.0f} s on {usable_cores()} cores, "
        f"{usage.ru_maxrss / 2**20:.2f} GiB at most"
    )
    print(
        f"playing {playing:.0f} s ({1e9 * playing / rounds:.0f} ns per round), "
        f"{playing / wall / usable_cores():.0%} of the cores' time"
    )


if __name__ == "__main__":
    main()
