"""Gappletron beside Vowpal Wabbit, River and scikit-learn: the same streams, the same graphs, one command.

    python -m benchmarks.peers           # everything (within an hour on two cores; continues where it was stopped)
    python -m benchmarks.peers --quick   # a few minutes
    python -m benchmarks.peers --ours    # only ours, against the recorded errors of peers
    python -m benchmarks.peers --report  # tables and figures again, from what was played

The data flows one way: streams -> settings -> players -> runs (a file with a line per run) -> report and figures.
"""
