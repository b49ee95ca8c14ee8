"""Summaries of stored runs: what is averaged, and what is kept apart."""

from __future__ import annotations

import pytest

from gappletron import AdaGrad, Paper
from gappletron.paper.figures.catalogue import select_tasks
from gappletron.paper.results import Cell, Summary
from gappletron.paper.sweeps import Entrant, Sweep, list_tasks
from pictures import result_of

CELL = Cell(4, 40, 0.05)


def own(*entrants: Entrant, repeats: int = 3) -> Sweep:
    return Sweep("mine", "bandit", (CELL,), entrants, repeats)


def test_two_optimizers_are_not_averaged() -> None:
    """The sweep of docs/reproduce.md: one learner with two optimizers."""
    sweep = own(Entrant.make("gapsmh", "only-t"), Entrant.make("gapsmh", "only-t", optimizer=AdaGrad()))
    made = {"": (10, 20, 30), "ada-grad": (500, 600, 700)}
    summary = Summary(result_of(task, made[task.optimizer][task.repeat]) for task in list_tasks(sweep, rounds=1000))
    spreads = summary.spreads("mine", "gapsmh", CELL)
    assert [(spread.runs, spread.least, spread.most) for spread in spreads] == [(3, 0.01, 0.03), (3, 0.5, 0.7)]
    assert [spread.mean for spread in spreads] == pytest.approx([0.02, 0.6])
    assert summary.best("mine", "gapsmh", CELL) == spreads[0]
    assert summary.best("mine", "gapsmh", CELL, optimizer="ada-grad") == spreads[1]
    with pytest.raises(KeyError, match="gapsmh did not play mine"):
        summary.best("mine", "gapsmh", CELL, optimizer="fixed-ogd")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Entrant.make("gapsmh", "theory"), Entrant.make("gapsmh", "only-t")),
        (Entrant.make("gapsmh", "only-t"), Entrant.make("gapsmh", "only-t", exploration=Paper())),
    ],
)
def test_tunings_and_exploration_rules_are_not_averaged(one: Entrant, other: Entrant) -> None:
    results = [result_of(task, 10) for task in list_tasks(own(one, other), rounds=1000)]
    assert [spread.runs for spread in Summary(results).spreads("mine", "gapsmh", CELL)] == [3, 3]


def test_different_numbers_of_rounds_are_not_averaged() -> None:
    sweep = own(Entrant.make("gapsmh"))
    results = [result_of(task, 10) for rounds in (100, 1000) for task in list_tasks(sweep, rounds)]
    spreads = Summary(results).spreads("mine", "gapsmh", CELL)
    assert [(spread.configuration.rounds, spread.runs, spread.mean) for spread in spreads] == [
        (100, 3, pytest.approx(0.1)),
        (1000, 3, pytest.approx(0.01)),
    ]


def test_repeats_on_fresh_labels_are_one_group() -> None:
    """The stream of a repeat carries the repeat as its seed."""
    found = [task for task in select_tasks(["lower-full"], rounds=1000) if task.learner == "gapsmh"]
    assert len({task.stream for task in found}) == 3 * 40
    summary = Summary(result_of(task, 10) for task in found)
    assert [
        (cell.features, spread.runs)
        for cell in summary.cells("lower-full")
        for spread in summary.spreads("lower-full", "gapsmh", cell)
    ] == [(28, 40), (136, 40), (568, 40)]


def test_the_two_streams_of_an_adversary_are_not_averaged() -> None:
    found = [task for task in select_tasks(["lower-filtering"], rounds=50) if task.learner == "gapsmh"]
    summary = Summary(result_of(task, 10) for task in found)
    [cell] = summary.cells("lower-filtering")
    assert [spread.runs for spread in summary.spreads("lower-filtering", "gapsmh", cell)] == [20, 20]
