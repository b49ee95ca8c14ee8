"""What the demo plays, and what it shows."""

from __future__ import annotations

import numpy as np

from gappletron.cli.demo import ALL_LABELS, BURN_IN, GREEDY, OURS, conclude, is_stuck, list_comparisons


def test_the_demo_measures_what_it_says():
    """Under one-sided feedback a greedy model gets stuck; the default learner does not."""
    screening, unlucky, _ = list_comparisons(orders=5)
    for comparison in (screening, unlucky):
        assert list(comparison)[-1] == comparison.rounds == 5 * 569
        shown = comparison.histories()
        error = {name: np.mean([run.error_rate for run in shown.of(name)]) for name in shown.names}
        stuck = {name: sum(map(is_stuck, shown.of(name))) for name in shown.names}
        assert stuck[OURS] == stuck[ALL_LABELS] == 0 < stuck[GREEDY]
        assert error[ALL_LABELS] < error[OURS] < error[BURN_IN]
        assert error[OURS] < error[GREEDY]
        assert all(run.labels_seen == run.rounds for run in shown.of(ALL_LABELS))
        assert conclude(shown).startswith(f"Greedy gets stuck in {stuck[GREEDY]} of 5 orders")
        assert conclude(shown).endswith(", Gappletron in none")
    assert (unlucky.y[unlucky.order(3)][:50] == "benign").all()
    assert sorted(unlucky.order(3)) == list(range(569))
    assert stuck[BURN_IN] == 5
