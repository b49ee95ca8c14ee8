"""``make stress``: the storms of :mod:`storms` at full length, and the fuzzer for some minutes per target.

Each storm prints what it did and how long it took; the first that fails ends the program with its error. Names of
storms as arguments run those alone: ``python tests/stress.py rounds commands``.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import storms
from failovers import FAULTS, fail_over
from gappletron import FeedbackGraph, names
from gappletron.kernel.numerics import LARGEST_VALUE
from gappletron.learners.registry import named
from stores import start_postgres

FUZZ = Path(__file__).parent / "fuzz"
FUZZ_SECONDS = 600
GRAPHS = [
    FeedbackGraph.bandit(3),
    FeedbackGraph.full(3),
    FeedbackGraph.filtering(["a", "b", "c"]),
    FeedbackGraph.label_efficient(3),
]


def playable():
    """Every learner with every graph that it can play."""
    return [(name, graph) for name in names() for graph in GRAPHS if named(name).refusal(graph) is None]


def rounds(folder):
    """5,000 strikes in act and learn, over five learners."""
    for seed, (learner, graph) in enumerate(
        [
            ("gapsmh", GRAPHS[0]),
            ("gaplog", GRAPHS[2]),
            ("soba-diag", GRAPHS[0]),
            ("gaphin", GRAPHS[3]),
            ("auto", GRAPHS[2]),
        ]
    ):
        print(storms.interrupted_rounds(1000, seed, learner, graph))


def follows(folder):
    """3,000 strikes in follow, act and learn of a shadow, half of them with a store."""
    cases = [("gapsmh", GRAPHS[2]), ("auto", GRAPHS[3]), ("gaplog", GRAPHS[0])]
    for seed, (learner, graph) in enumerate(cases):
        for place in (None, Path(folder) / f"{learner}.sqlite"):
            print(storms.interrupted_follows(500, seed, learner, graph, place))


def looks(folder):
    """1,500 strikes in predict and probabilities."""
    storms.interrupted_looks(1500, seed=1)


def parsing(folder):
    """1,500 strikes in the parser."""
    storms.interrupted_parsing(1500, seed=2, folder=folder)


def playing(folder):
    """1,500 strikes in bulk play."""
    storms.interrupted_playing(1500, seed=3)


def saving(folder):
    """1,200 strikes while saving."""
    storms.interrupted_saving(1200, seed=4, folder=folder)


def compiling(folder):
    """200 strikes while compiling."""
    storms.interrupted_compiling(200, seed=5)


def commands(folder):
    """100 commands that get SIGINT or SIGTERM at a random moment."""
    storms.stopped_commands(100, seed=6, folder=folder)


def bytes_flipped(folder):
    """10,000 flipped bytes over saved models, cached code and stored results."""
    print(storms.flipped_bytes(10_000, seed=7))


def kills(folder):
    """100 kills of a loop that saves now and then."""
    storms.killed_saves(100, seed=8)


def sweeps(folder):
    """100 kills of a sweep."""
    print(storms.killed_sweeps(100, seed=9))


def kills_of_stores(folder):
    """100 kills of a process that writes to a store, in each database."""
    for place in (Path(folder) / "store.sqlite", start_postgres().make_place()):
        print(storms.killed_stores(100, place, seed=10), "calls acknowledged")


def random_stores(folder):
    """1,000 stores of random calls and crashes, over all learners and graphs."""
    costly = FeedbackGraph.label_efficient(["a", "b", "c"], costs={("a", "b"): 3.0})
    cases = playable() + [(name, costly) for name in names() if named(name).uses_costs]
    print(storms.random_stores(1000, 13, cases, LARGEST_VALUE, folder), "calls refused")


def shared_stores(folder):
    """200 stores that threads share on a disk that is full at times."""
    found = [storms.shared_store(seed, Path(folder) / f"{seed}.sqlite") for seed in range(200)]
    print(sum(found), "decisions")


def services(folder):
    """100 kills of a server under load, in each database."""
    for place in (Path(folder) / "store.sqlite", start_postgres().make_place()):
        print(storms.killed_services(100, place, seed=11), "decisions")


def failures(folder):
    """100 failures of a server that leads, at 1,000 decisions per second, while another stands by."""
    found = {fault: [] for fault in FAULTS}
    for seed in range(20):
        for fault, seconds in fail_over(FAULTS, start_postgres(), seed, rows=10, rate=1000):
            found[fault].append(seconds)
    for fault, seconds in found.items():
        print(f"{fault}: {len(seconds)} times, median {np.median(seconds):.1f} s, longest {max(seconds):.1f} s")


def numbers(folder):
    """Extreme rows, 100,000 rounds for each learner and graph."""
    for seed, (learner, graph) in enumerate(playable()):
        storms.extreme_numbers(100_000, seed, learner, graph)


def threads(folder):
    """8 threads, 20,000 rounds each, on one model."""
    storms.shared_model(threads=8, calls=20_000)


def calls(folder):
    """A million random calls of Online over all learners and graphs."""
    cases = playable()
    for seed, (learner, graph) in enumerate(cases):
        storms.random_calls(1_000_000 // len(cases) + 1, seed, learner, graph, LARGEST_VALUE, folder)


def fuzzing(folder):
    """Every target under atheris."""
    for target in ("svmlight", "graph_file", "saved_model", "model_bytes", "store"):
        options = [f"-max_total_time={FUZZ_SECONDS}", f"-artifact_prefix={folder}/", "-timeout=10"]
        subprocess.run([sys.executable, FUZZ / "run.py", target, *options, FUZZ / "corpus" / target], check=True)


STORMS = [
    rounds,
    follows,
    looks,
    parsing,
    playing,
    saving,
    compiling,
    commands,
    bytes_flipped,
    kills,
    sweeps,
    kills_of_stores,
    random_stores,
    shared_stores,
    services,
    failures,
    numbers,
    threads,
    calls,
    fuzzing,
]


def main():
    """Run all storms, or those that are named."""
    wanted = sys.argv[1:] or [storm.__name__ for storm in STORMS]
    for storm in STORMS:
        if storm.__name__ in wanted:
            start = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                storm(folder)
            print(f"{storm.__name__}: {storm.__doc__} {time.monotonic() - start:.0f} s, nothing lost", flush=True)


if __name__ == "__main__":
    main()
