"""Claims and theorems on stored runs: judged by other code on real runs, and on runs made up so that each
claim breaks.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics

import numpy as np
import pytest

from gappletron import (
    FeedbackGraph,
    Gappletron,
    Paper,
    ProjectedOGD,
    SmoothHinge,
    Synthetic,
    UserError,
    named,
    open_stream,
    play,
    tuned,
)
from gappletron.kernel.compiling import source_hash
from gappletron.paper.claims import CLAIMS, judge_claims
from gappletron.paper.evidence import FAILS, HOLDS, UNKNOWN
from gappletron.paper.figures.catalogue import select_tasks
from gappletron.paper.measuring import examine
from gappletron.paper.results import Outcome, Result, Summary
from gappletron.paper.runner import execute
from gappletron.paper.theorems import (
    Lower,
    compute_bounds,
    find_least_share,
    find_tightest,
    judge_share,
    lower_bounds,
    upper_bounds,
)
from gappletron.paper.tuning import tune

GAPS = ("gaplog", "gaphin", "gapsmh")
BASELINES = ("pnewtron", "soba-diag", "banditron-iw")
CELLS = list(itertools.product((6, 9, 12), (80, 120, 160), (0.0, 0.05, 0.1)))


def made_up(task, error, explored=0.0, late=None):
    """A result with this error rate (in a thousand rounds) and this error rate in its second half."""
    mistakes = round(error * task.rounds)
    half = task.rounds // 2
    early = mistakes - round((error if late is None else late) * (task.rounds - half))
    return Result(
        task,
        Outcome(
            "{}",
            1.0,
            mistakes,
            10,
            round(explored),
            task.rounds,
            mistakes / task.rounds,
            0.0,
            None,
            None,
            None,
            f"[[{half}, {task.rounds}], [{early}, {mistakes}]]",
            "",
            source_hash(),
            "",
            0.1,
            "",
        ),
    )


def ideal(task):
    """Error rates with which every claim of the paper holds, in every cell."""
    name, K, noise = task.learner.partition(":")[0], task.classes, task.noise
    wobble = task.repeat - 4.5  # repeats 0..9, so the range is nine times the factor
    wide = 1.5 if task.tuning == "only-t" else 0.5
    spread = {"gaphin": 3e-3, "gapsmh": 2e-3, "gaplog": 1e-3}.get(name, 1e-3) * wide
    explored = {"gaphin": 1.0, "gapsmh": 2.0, "gaplog": 3.0}.get(name, 0.0) * 100
    if task.sweep == "bandit":
        base = {
            "gaplog": 0.20,
            "gapsmh": 0.21,
            "gaphin": 0.22,
            "pnewtron": 0.3,
            "soba-diag": 0.32,
            "banditron-iw": 0.28,
            "banditron": 0.4,
        }[name]
        if task.tuning == "theory":
            base += {"pnewtron": 0.3, "soba-diag": 0.3, "gaplog": 0.1 - noise / 2, "gapsmh": 0.1 - noise / 2}.get(
                name, 0.06
            )
            if name == "banditron-iw" and noise < 0.1:
                base = 0.285 if (K, task.features) == (12, 160) else 0.24
        return base + spread * wobble, explored, None
    if task.sweep == "filtering":
        base = {"gaplog": 0.2 + 0.01 * K, "gapsmh": 0.20, "gaphin": 0.22, "banditron-iw": 0.35}[name]
        if task.tuning == "theory":
            base = 0.32 if name == "banditron-iw" else 0.3 + 0.01 * K
            base += 0.05 * (noise == 0 and name != "banditron-iw") - 0.05 * (noise == 0 and name == "banditron-iw")
        return base + spread * wobble, explored, None
    if task.sweep == "full":
        if noise == 0.0:
            rate = {"gaplog": 0.02 + 0.001 * K, "gapsmh": 0.001}.get(name, 0.005)
            return rate, explored, rate if name == "gaplog" else 0.0
        rate = {"gaplog": 0.15 + 0.002 * K, "gapsmh": 0.1, "gaphin": 0.12}.get(name, 0.2)
        return rate, explored, None
    if task.sweep == "label-efficient":
        return {"gaplog": 0.2, "gaphin": 0.18, "gapsmh": 0.17}.get(name, 0.3), explored, None
    return {"gaplog": 0.15, "gaphin": 0.15, "gapsmh": 0.1}[name], explored, None  # top-up: below all of the above


TASKS = select_tasks(["bandit", "filtering", "full", "label-efficient", "exploration"], rounds=100_000)
IDEAL = [made_up(task, *ideal(task)) for task in TASKS]


def shifted(results, by, **fields):
    """The error rates of some runs moved."""
    return [
        made_up(result.task, result.outcome.error_rate + by, result.outcome.explored)
        if all(getattr(result.task, key) == value for key, value in fields.items())
        else result
        for result in results
    ]


def holding(results):
    return {verdict.claim.id: verdict.holds for verdict in judge_claims(Summary(results))}


def test_in_an_ideal_world_every_claim_holds():
    assert [name for name, holds in holding(IDEAL).items() if not holds] == []
    assert len(holding(IDEAL)) == len(CLAIMS)
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)


def told(results):
    return {verdict.claim.id: verdict.word for verdict in judge_claims(Summary(results))}


COUNTED = {claim.id for claim in CLAIMS if claim.repeats == 2} | {"bandit-only-t-helps-most-clean"}
"""The claims about ranges and percentages, which are not tested."""


def test_in_an_ideal_world_the_tests_say_so():
    found = told(IDEAL)
    assert {claim for claim, word in found.items() if word is None} == COUNTED
    assert {claim: word for claim, word in found.items() if word not in (HOLDS, None)} == {}


def test_the_test_needs_more_than_a_count():
    """A mean that is lower by a tenth of what the repeats differ by is counted as lower, and cannot be told."""
    wobbling = only(IDEAL, lambda task: 0.3 + 0.01 * (-1) ** task.repeat, sweep="bandit", learner="banditron-iw")
    shaken = only(wobbling, lambda task: 0.302 - 0.01 * (-1) ** task.repeat, sweep="bandit", learner="banditron")
    claim = "bandit-standard-banditron"
    assert holding(shaken)[claim]
    assert told(shaken)[claim] == UNKNOWN
    # Where the repeats move together, the pairs tell.
    paired = only(wobbling, lambda task: 0.302 + 0.0101 * (-1) ** task.repeat, sweep="bandit", learner="banditron")
    assert told(paired)[claim] == HOLDS
    assert told(shifted(IDEAL, -0.3, sweep="bandit", learner="banditron", noise=0.1))[claim] == FAILS


@pytest.mark.parametrize(("cells", "word"), [(4, FAILS), (13, HOLDS), (23, FAILS)])
def test_about_half_is_told_from_the_cells(cells, word):
    first = set(CELLS[:cells])
    changed = only(
        IDEAL,
        lambda task: (0.1 if (task.classes, task.features, task.noise) in first else 0.9) + 1e-3 * task.repeat,
        sweep="bandit",
        learner="banditron-iw",
        tuning="theory",
    )
    assert told(changed)["bandit-theory-banditron-half"] == word


BREAKING = {
    "bandit-all-gaps": {"by": 0.1, "sweep": "bandit", "learner": "gaphin"},
    "bandit-best": {"by": 0.1, "sweep": "bandit", "learner": "gapsmh"},
    "bandit-theory-poor": {"by": -0.3, "sweep": "bandit", "learner": "pnewtron", "tuning": "theory", "noise": 0.1},
    "bandit-theory-hurts": {"by": -0.4, "sweep": "bandit", "learner": "soba-diag", "tuning": "theory"},
    "bandit-theory-banditron-half": {"by": -0.2, "sweep": "bandit", "learner": "banditron-iw", "tuning": "theory"},
    "bandit-standard-banditron": {"by": -0.3, "sweep": "bandit", "learner": "banditron", "noise": 0.1},
    "bandit-only-t-helps": {"by": 0.3, "sweep": "bandit", "learner": "gaplog", "tuning": "only-t"},
    "bandit-theory-low-noise": {"by": 0.2, "sweep": "bandit", "learner": "banditron-iw", "tuning": "theory"},
    "bandit-theory-high-noise": {
        "by": -0.4,
        "sweep": "bandit",
        "learner": "pnewtron",
        "tuning": "theory",
        "noise": 0.1,
    },
    "bandit-only-t-best": {"by": -0.2, "sweep": "bandit", "learner": "gaphin", "tuning": "only-t", "classes": 9},
    "filtering-log-behind": {"by": -0.1, "sweep": "filtering", "learner": "gaplog", "classes": 12},
    "filtering-theory-clean": {
        "by": 0.3,
        "sweep": "filtering",
        "learner": "banditron-iw",
        "tuning": "theory",
        "noise": 0.0,
    },
    "filtering-theory-classes-gaphin": {
        "by": -0.1,
        "sweep": "filtering",
        "learner": "gaphin",
        "tuning": "theory",
        "classes": 12,
    },
    "filtering-only-t-best": {
        "by": -0.3,
        "sweep": "filtering",
        "learner": "banditron-iw",
        "tuning": "only-t",
        "noise": 0.05,
    },
    "filtering-best": {"by": -0.3, "sweep": "filtering", "learner": "banditron-iw", "noise": 0.05},
    "filtering-log-classes": {"by": 0.1, "sweep": "filtering", "learner": "gaplog", "tuning": "only-t", "classes": 6},
    "full-log-classes": {"by": 0.1, "sweep": "full", "learner": "gaplog", "classes": 6},
    "full-separated": {"by": 0.01, "sweep": "full", "learner": "perceptron", "noise": 0.0},
    "full-log-worst-clean": {"by": 0.1, "sweep": "full", "learner": "perceptron", "noise": 0.0},
    "full-log-worse-noisy": {"by": 0.2, "sweep": "full", "learner": "gaphin", "noise": 0.1},
    "full-log-on-par": {"by": -0.1, "sweep": "full", "learner": "passive-aggressive", "noise": 0.1},
    "full-smooth-best": {"by": -0.12, "sweep": "full", "learner": "perceptron", "noise": 0.1},
    "full-smooth-best-overall": {"by": 0.3, "sweep": "full", "learner": "gapsmh"},
    "label-efficient-best": {"by": -0.2, "sweep": "label-efficient", "learner": "label-efficient-perceptron:b=0.1"},
    "label-efficient-all": {"by": 0.2, "sweep": "label-efficient", "learner": "gaplog"},
    "ours-top-up-filtering": {"by": 0.4, "sweep": "exploration", "learner": "gaphin", "graph": "filtering"},
    "ours-top-up-label-efficient": {
        "by": 0.4,
        "sweep": "exploration",
        "learner": "gaphin",
        "graph": "label-efficient",
    },
}


@pytest.mark.parametrize("claim", BREAKING)
def test_a_claim_breaks_where_it_should(claim):
    changed = shifted(IDEAL, **BREAKING[claim])
    assert not holding(changed)[claim]


def stretched(results, factor, **fields):
    """The ranges of some runs stretched around their mean."""
    chosen = [result for result in results if all(getattr(result.task, key) == value for key, value in fields.items())]
    means = {}
    for result in chosen:
        task = result.task
        key = (task.learner, task.tuning, task.classes, task.features, task.noise)
        means.setdefault(key, []).append(result.outcome.error_rate)
    replaced = {}
    for result in chosen:
        task = result.task
        mean = statistics.mean(means[task.learner, task.tuning, task.classes, task.features, task.noise])
        replaced[task.id] = made_up(task, mean + factor * (result.outcome.error_rate - mean), result.outcome.explored)
    return [replaced.get(result.task.id, result) for result in results]


@pytest.mark.parametrize(
    ("claim", "factor", "fields"),
    [
        ("bandit-hinge-unstable", 0.1, {"sweep": "bandit", "learner": "gaphin"}),
        ("bandit-hinge-wider-than-log", 9.0, {"sweep": "bandit", "learner": "gaplog"}),
        ("bandit-log-stable", 9.0, {"sweep": "bandit", "learner": "gaplog", "noise": 0.1}),
        ("bandit-smooth-wider-than-log", 9.0, {"sweep": "bandit", "learner": "gaplog", "tuning": "only-t"}),
        ("bandit-only-t-hinge", 9.0, {"sweep": "bandit", "learner": "gaphin", "tuning": "theory"}),
        ("bandit-only-t-spread", 9.0, {"sweep": "bandit", "learner": "soba-diag", "tuning": "theory"}),
        ("stability", 9.0, {"sweep": "filtering", "learner": "gaphin", "tuning": "theory"}),
        ("filtering-only-t-spread", 9.0, {"sweep": "filtering", "learner": "banditron-iw", "tuning": "theory"}),
    ],
)
def test_claims_about_ranges_break_too(claim, factor, fields):
    assert not holding(stretched(IDEAL, factor, **fields))[claim]


def test_claims_about_exploring_and_about_gains_break_too():
    lazy = [
        made_up(result.task, result.outcome.error_rate, 0.0) if result.task.learner == "gaplog" else result
        for result in IDEAL
    ]
    for claim in ("bandit-smooth-explores-less-than-log", "filtering-log-explores", "full-log-explores"):
        assert not holding(lazy)[claim]
    busy = [
        made_up(result.task, result.outcome.error_rate, 900.0) if result.task.learner == "gaphin" else result
        for result in IDEAL
    ]
    assert not holding(busy)["bandit-hinge-explores-least"]
    assert not holding(shifted(IDEAL, 0.4, sweep="bandit", learner="gaplog", tuning="theory", noise=0.1))[
        "bandit-only-t-helps-most-clean"
    ]


def only(results, by, **fields):
    """Exactly these error rates for some runs."""
    return [
        made_up(result.task, by(result.task), result.outcome.explored)
        if all(getattr(result.task, key) == value for key, value in fields.items())
        else result
        for result in results
    ]


@pytest.mark.parametrize(("factor", "holds"), [(1.049, True), (1.051, False)])
def test_on_par_is_five_percent(factor, holds):
    level = only(IDEAL, lambda task: 0.2, sweep="full", learner="passive-aggressive", noise=0.1)
    level = only(level, lambda task: 0.2 * factor, sweep="full", learner="gaplog", noise=0.1)
    assert holding(level)["full-log-on-par"] is holds
    gaps = IDEAL
    for gap in GAPS:
        gaps = only(gaps, lambda task: 0.3, sweep="bandit", learner=gap, tuning="theory")
    assert (
        holding(only(gaps, lambda task: 0.3 * factor, sweep="bandit", learner="banditron-iw", tuning="theory"))[
            "bandit-theory-low-noise"
        ]
        is holds
    )


@pytest.mark.parametrize(("late", "holds"), [(0.0009, True), (0.0011, False)])
def test_separated_is_less_than_one_mistake_in_a_thousand_rounds(late, holds):
    changed = [
        made_up(result.task, 0.005, 0.0, late)
        if result.task.learner == "perceptron" and result.task.noise == 0.0
        else result
        for result in IDEAL
    ]
    assert holding(changed)["full-separated"] is holds


@pytest.mark.parametrize(("cells", "holds"), [(8, False), (9, True), (18, True), (19, False)])
def test_about_half_is_a_third_to_two_thirds(cells, holds):
    first = set(CELLS[:cells])
    changed = only(
        IDEAL,
        lambda task: 0.1 if (task.classes, task.features, task.noise) in first else 0.9,
        sweep="bandit",
        learner="banditron-iw",
        tuning="theory",
    )
    assert holding(changed)["bandit-theory-banditron-half"] is holds


@pytest.mark.parametrize(("cells", "holds"), [(13, False), (14, True)])
def test_overall_is_half_of_the_cells(cells, holds):
    first = set(CELLS[:cells])
    changed = only(
        IDEAL,
        lambda task: 0.0 if (task.classes, task.features, task.noise) in first else 0.9,
        sweep="full",
        learner="gapsmh",
    )
    assert holding(changed)["full-smooth-best-overall"] is holds


def test_a_verdict_counts_its_cells():
    changed = shifted(
        IDEAL, 0.1, sweep="bandit", learner="gapsmh", classes=9, features=120, noise=0.05, tuning="only-t"
    )
    changed = shifted(
        changed, 0.1, sweep="bandit", learner="gapsmh", classes=9, features=120, noise=0.05, tuning="theory"
    )
    verdict = next(verdict for verdict in judge_claims(Summary(changed)) if verdict.claim.id == "bandit-best")
    assert verdict.text == "holds in 26 of 27 cells"
    assert [check.where for check in verdict.exceptions] == ["K=9, d=120, noise 0.05"]
    assert "GapSmH 0.31" in verdict.exceptions[0].numbers


def test_claims_without_their_runs_are_left_out():
    some = [result for result in IDEAL if result.task.sweep == "full"]
    assert {verdict.claim.needs for verdict in judge_claims(Summary(some))} == {("full",)}
    # One tuning does not do for a claim about the better of two, and one repeat not for a range.
    theory = [result for result in IDEAL if result.task.sweep == "bandit" and result.task.tuning == "theory"]
    assert {verdict.claim.needs for verdict in judge_claims(Summary(theory))} == {("bandit:theory",)}
    once = [result for result in IDEAL if result.task.repeat == 0]
    assert {claim.id for claim in CLAIMS} - set(holding(once)) == {claim.id for claim in CLAIMS if claim.repeats == 2}


# --------------------------------------------------------------------------------------------- other code, on real runs


def played(figures, rounds, repeats):
    """The results of a reproduction, without a store and without pictures."""
    return [Result(task, execute(task)) for task in select_tasks(figures, rounds, repeats)]


@pytest.fixture(scope="module")
def real():
    """The paper's three sweeps, short; and the theorems'."""
    return played(["bandit", "filtering", "full", "label-efficient"], rounds=150, repeats=2)


def naive_mean(results, sweep, learner, cell, tuning=None):
    """The mean of the better tuning, by a plain loop."""
    rates = {}
    for result in results:
        task = result.task
        if (
            (task.sweep, task.learner) == (sweep, learner)
            and (task.classes, task.features, task.noise) == cell
            and (tuning in (None, task.tuning))
        ):
            rates.setdefault(task.tuning, []).append(result.outcome.mistakes / task.rounds)
    return min(float(np.mean(values)) for values in rates.values())


def test_verdicts_agree_with_a_plain_loop(real):
    found = {verdict.claim.id: sum(check.holds for check in verdict.checks) for verdict in judge_claims(Summary(real))}

    def mean(sweep, learner, cell, tuning=None):
        return naive_mean(real, sweep, learner, cell, tuning)

    assert found["bandit-all-gaps"] == sum(
        all(mean("bandit", gap, cell) < mean("bandit", other, cell) for gap in GAPS for other in BASELINES)
        for cell in CELLS
    )
    assert found["bandit-only-t-best"] == sum(
        all(
            mean("bandit", gap, cell, "only-t") < mean("bandit", other, cell, "only-t")
            for gap in ("gaplog", "gapsmh")
            for other in (*BASELINES, "gaphin")
        )
        for cell in CELLS
    )
    assert found["bandit-theory-banditron-half"] == sum(
        all(
            mean("bandit", "banditron-iw", cell, "theory") < mean("bandit", other, cell, "theory")
            for other in (*GAPS, "pnewtron", "soba-diag")
        )
        for cell in CELLS
    )
    assert found["filtering-log-behind"] == sum(
        mean("filtering", "gaplog", cell) > max(mean("filtering", "gaphin", cell), mean("filtering", "gapsmh", cell))
        for cell in CELLS
        if cell[0] > 6
    )
    assert found["full-smooth-best"] == sum(
        all(
            mean("full", "gapsmh", cell) < mean("full", other, cell)
            for other in ("gaplog", "gaphin", "perceptron", "passive-aggressive", "second-order-perceptron-diag")
        )
        for cell in CELLS
        if cell[2] > 0
    )


# ------------------------------------------------------------------------------------------------------------- theorems


@pytest.fixture(scope="module")
def theorems():
    return played(["bounds", "lower-filtering", "lower-full", "lower-classes", "lower-both"], rounds=20_000, repeats=5)


def test_mistakes_stay_below_the_bounds(theorems):
    rows = upper_bounds(theorems)
    assert {row.task.graph for row in rows} == {"bandit", "filtering", "label-efficient", "full"}
    applying = [row for row in rows if row.refusal is None]
    assert all(row.verdict.startswith("holds") for row in applying)
    refused = [row for row in rows if row.refusal is not None]
    assert {row.refusal for row in refused if row.task.learner == "gaplog"} == {
        "needs a regular loss, and LogisticBaseK() is not one for 3 classes"
    }
    # The logistic loss is never 0, so a theorem about separable data does not speak of it.
    assert {row.theorem for row in refused if row.task.learner != "gaplog"} == {
        "full-expectation-separable",
        "full-high-probability-separable",
    }
    assert {row.task.learner for row in refused} == {"gaplog", "gaplog2"}
    assert sum(row.bound < row.task.rounds for row in applying) >= 10  # and say something


def test_a_row_of_bounds_by_hand(theorems):
    """gapsmh, filtering, noise 0.05, the expectation theorem: every number written out."""
    runs = [
        run
        for run in theorems
        if run.task.learner == "gapsmh"
        and run.task.graph == "filtering"
        and run.task.noise == 0.05
        and run.task.tuning == "expectation"
    ]
    row = next(
        row
        for row in upper_bounds(theorems)
        if (row.task.learner, row.task.graph, row.theorem) == ("gapsmh", "filtering", "expectation")
    )
    K, rho, Q, L, h = 3, 1, 1, 4.0, 2 * math.sqrt(2) * 1.414214
    short = 4 - 2 * math.sqrt(2)
    values = [
        max(short * K * K * L * h**2 / Q, 2 * h * math.sqrt(rho * K * L * run.outcome.blind_rounds)) for run in runs
    ]
    losses = [run.outcome.comparator_loss for run in runs]
    assert row.bound == pytest.approx(np.mean(values) + np.mean(losses))
    assert row.mistakes == np.mean([run.outcome.mistakes for run in runs])
    assert row.regret == pytest.approx(row.mistakes - np.mean(losses))
    # The symmetric U = I - 11'/K is in the ball, and loses 3 on a noisy label and nothing on others.
    chunks = list(open_stream(runs[0].task.stream).chunks())
    noisy = sum(int((chunk.indices != chunk.labels).sum()) for chunk in chunks)
    assert 0.9 * 3 * noisy < min(losses) <= 3 * noisy


def test_the_tightness_is_one_number_for_each_theorem_and_graph(theorems):
    rows = upper_bounds(theorems)
    table = {(cell.theorem, cell.task.graph): cell for cell in find_tightest(rows)}
    partial = {"expectation", "expectation-separable", "high-probability", "high-probability-separable"}
    assert {graph for theorem, graph in table if theorem in partial} == {"bandit", "filtering", "label-efficient"}
    assert len(table) == 3 * 4 + 5 + 4 * 2  # two bounds without K on each graph
    row = max(
        (row for row in rows if (row.theorem, row.task.graph) == ("expectation", "filtering") and row.refusal is None),
        key=lambda row: row.mistakes / row.bound,
    )
    cell = table["expectation", "filtering"]
    assert (cell.task.learner, cell.tightness) == (row.task.learner, pytest.approx(row.mistakes / row.bound))
    row = next(
        row
        for row in rows
        if (row.theorem, row.task.graph, row.task.learner) == ("high-probability", "bandit", "gapsmh")
    )
    runs = [
        run
        for run in theorems
        if (run.task.tuning, run.task.learner, run.task.graph) == ("high-probability", "gapsmh", "bandit")
    ]
    limits = [compute_bounds(run)[2].value + run.outcome.comparator_loss for run in runs]
    ratios = [run.outcome.mistakes / limit for run, limit in zip(runs, limits, strict=True)]
    assert row.tightness == pytest.approx(max(ratios))
    assert all(0.0 < cell.tightness < 1.0 for cell in table.values())


def test_one_minus_delta_is_told_by_hundreds_of_runs_and_not_by_ten():
    """The limits of Clopper and Pearson: with no failure in n runs the lower limit is 0.05^(1/n)."""
    assert find_least_share(300, 300) == pytest.approx(0.05 ** (1 / 300))
    assert [judge_share(runs, runs, 0.05) == "holds" for runs in (10, 58, 59, 300)] == [False, False, True, True]
    assert judge_share(300, 290, 0.05) == "holds in 290 of 300 runs, too few to tell"
    assert judge_share(300, 270, 0.05) == "is violated"
    assert judge_share(10, 0, 0.05) == "is violated"
    # The stated error rate, exactly: a statement that fails with probability 0.05 is called true in at most 1 of 20.
    from scipy import stats

    called = [within for within in range(301) if judge_share(300, within, 0.05) == "holds"]
    assert stats.binom.pmf(called, 300, 0.95).sum() <= 0.05
    refuted = [within for within in range(301) if judge_share(300, within, 0.05) == "is violated"]
    assert stats.binom.pmf(refuted, 300, 0.95).sum() <= 0.05


def test_adversaries_push_every_learner_above_the_lower_bound(theorems):
    rows = lower_bounds(theorems)
    assert {row.verdict for row in rows} == {"holds"}
    segments = [row for row in rows if row.sweep == "lower-filtering"]
    assert {row.rounds for row in segments} == {50, 200, 968, 5000, 20_000}
    for row in segments:  # probe and play have the same seeds, so here chance plays no part
        assert row.mistakes >= row.bound == math.sqrt(row.rounds / 2) / 2
    fresh = {row.adversary: row.bound for row in rows if row.sweep == "lower-full"}
    assert fresh == {f"fresh:K=3,B={B}": pytest.approx(((B * B - 1) * 9 + 1) * 2 / 3) for B in (2, 4, 8)}


def test_the_lower_bound_is_a_line_in_K_and_both_parts_add_up(theorems):
    rows = lower_bounds(theorems)
    by_K = {row.adversary: row.bound for row in rows if row.sweep == "lower-classes"}
    assert by_K == {f"fresh:K={K},B=2": pytest.approx((3 * K * K + 1) * (K - 1) / K) for K in (2, 3, 4, 6, 8, 10, 12)}
    for K in (2, 12):  # the regret: the comparator loses M (1 - 1/K)^2
        regret = by_K[f"fresh:K={K},B=2"] - 3 * K * K * (1 - 1 / K) ** 2
        assert regret == pytest.approx(3 * (K - 1) + (K - 1) / K)
    both = {row.rounds: row.bound for row in rows if row.sweep == "lower-both"}
    assert both == {49 + 2 * R * R: pytest.approx(49 * 3 / 4 + R / 2) for R in (5, 10, 22, 50)}


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_the_filtering_lower_bound_holds_for_any_number_of_repeats(repeats):
    rows = lower_bounds(played(["lower-filtering"], rounds=1000, repeats=repeats))
    assert len(rows) == 6 * 3
    assert {row.runs for row in rows} == {repeats}
    for row in rows:
        assert row.mistakes >= row.bound


def test_examining_a_run(theorems):
    run = next(
        run for run in theorems if run.task.learner == "gaphin" and run.task.graph == "full" and run.task.noise == 0.05
    )
    found = examine(run)
    assert found.radius == pytest.approx(1.414214)
    assert (
        found.comparator.loss <= run.outcome.comparator_loss + run.outcome.comparator_gap
    )  # the case split only takes away
    assert found.regret == run.outcome.mistakes - found.comparator.loss
    # The data are noisy, so no theorem about separable data applies; the others of full information do.
    assert [bound.theorem for bound in found.bounds if bound.refusal is None and bound.theorem.startswith("full")] == [
        "full-expectation",
        "full-high-probability",
    ]
    assert examine(run, delta=0.5).bounds[7].value < found.bounds[7].value  # full-high-probability
    baseline = next(run for run in theorems if run.task.learner == "exp3-g")
    with pytest.raises(UserError, match="about Gappletron"):
        examine(baseline)
    old = dataclasses.replace(run, outcome=dataclasses.replace(run.outcome, sources="old"))
    with pytest.raises(UserError, match="other sources"):
        examine(old)


def test_the_learner_of_the_bounds_is_the_theorem_s(theorems):
    from gappletron.paper.runner import tune_learner

    run = next(
        run
        for run in theorems
        if run.task.learner == "gapsmh" and run.task.tuning == "high-probability" and run.task.graph == "bandit"
    )
    plain = Gappletron(SmoothHinge(), ProjectedOGD(1.414214))
    expected = tuned(plain, "high-probability", FeedbackGraph.bandit(3), max_norm=1.0)
    assert tune_learner(run.task) == expected


def test_one_run_tells_nothing_about_a_bound_that_is_attained():
    row = Lower("lower-full", "fresh:K=3,B=2", "gapsmh", 100, 1, 16.0, 0.0, 18.67)
    assert row.verdict == "unknown: too few runs"
    assert row._replace(mistakes=19.0).verdict == "holds"
    assert row._replace(runs=40, error=0.5).verdict == "is violated"
    assert row._replace(runs=40, error=1.0).verdict == "holds"


# -------------------------------------------------------------------------------------------------- what is suspected


def mean_error(learner, stream, graph):
    return statistics.fmean(run.error_rate for run in play(learner, stream, graph, repeats=3))


def test_the_root_of_K_is_why_gapsmh_falls_behind_banditron():
    """ "We suspect this is due the sqrt(K) in the exploration": filtering, theory tuning, noise 0.1, K = 6 and 12.

    With gamma / sqrt(K) the lead over Banditron does not shrink as it does with gamma. The runs are seeded.
    """
    lost = []
    for divided in (False, True):
        leads = []
        for K in (6, 12):
            stream, graph = Synthetic(K, 120, 0.1, 30_000), FeedbackGraph.filtering(K)
            learner = tune(named("gapsmh").replace(exploration=Paper()), "theory", graph, stream)
            if divided:
                learner = learner.with_gamma(learner.exploration.gamma / math.sqrt(K))
            banditron = tune(named("banditron-iw"), "theory", graph, stream)
            leads.append(mean_error(banditron, stream, graph) - mean_error(learner, stream, graph))
        lost.append(leads[0] - leads[1])
    assert lost[1] < lost[0] - 0.01


def test_the_tuning_with_d_is_why_pnewtron_is_poor():
    """ "We suspect this is due to the tuning with d": bandit, K = 6, d = 80, noise 0.05. SOBAdiag's rate has no d."""
    stream, graph = Synthetic(6, 80, 0.05, 30_000), FeedbackGraph.bandit(6)
    numbers = {"rounds": 30_000, "max_norm": stream.max_norm}
    with_d, without = (tuned("pnewtron", "theory", graph, features=d, **numbers) for d in (80, 1))
    assert mean_error(without, stream, graph) < 0.8 * mean_error(with_d, stream, graph)
    first, second = (tuned("soba-diag", "theory", graph, features=d, **numbers) for d in (80, 1))
    assert first == second
