"""The intervals of a monitor hold at every round, by simulation (benchmarks/coverage.py has the large tables)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.coverage import CHECKS, SCENARIOS, Coverage, cover, graphs

ALPHA, RUNS, ROUNDS = 0.2, 40, 160
FALSE_ALARM = 1e-6
"""Each bound may be wrong in a share alpha of the runs: more than this quantile of the binomial has that probability
where the theorem holds. There are some 1,000 such counts: a false alarm of the whole file has a probability below 1e-3.
"""

GRAPHS = graphs()


@pytest.mark.parametrize("name", GRAPHS)
def test_every_bound_holds_at_every_round(name):
    """Totals, windows and classes; labels by chance, drifting, of least propensity, and that react to what was shown;
    propensities that are 0 at times; late feedback. The alarm is silent where the error does not rise."""
    most = binom.ppf(1 - FALSE_ALARM, RUNS, ALPHA)
    for scenario in SCENARIOS:
        found = Coverage(GRAPHS[name], scenario, RUNS, ROUNDS, ALPHA)
        counts = found.missed.sum(axis=0)
        if scenario.startswith("drift"):
            counts[6] = 0
        assert counts.max() <= most, (scenario, counts)


def test_wrong_propensities_are_found_out(monkeypatch):
    """The test above can fail: where a query is drawn four times as often as is written down, the bounds are wrong."""
    import benchmarks.coverage as module

    def misled(watch, watched, sight, graph, P, greedy, labels, draws, *rest):
        cover(watch, watched, sight, graph, P, greedy, labels, 1 - (1 - draws) / 4, *rest)

    monkeypatch.setattr(module, "entry", lambda function, *arguments: misled)
    found = Coverage(GRAPHS["label-efficient"], "steady", 3, 300, ALPHA)
    assert found.missed[:, :2].any(axis=1).all()


def test_the_intervals_are_not_empty_words():
    """With every label shown there is nothing to estimate, and exploration narrows the interval."""
    full = Coverage(GRAPHS["full"], "steady", 3, 300, ALPHA)
    assert not full.widths.any()
    assert not full.missed[:, :CHECKS].any()
    short, long = (
        Coverage(GRAPHS["label-efficient"], "steady", 5, rounds, ALPHA).widths.mean() for rounds in (300, 3000)
    )
    assert long < 0.5 * short < 0.5
    assert np.isfinite([short, long]).all()
