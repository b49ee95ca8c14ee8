"""What the verdicts depend on: the paper's experiments under every reading of what the paper leaves open.

A :class:`Reading` says how each open question is answered; its defaults are the answers of the main command.
:data:`AXES` lists the other answers. The readings that are run are the base, one axis at a time around it, and the
plane of L and T (:data:`SETTINGS`), each on several data sets that differ only in their seed. Runs that several
readings share are run once. :func:`tally` counts, from stored runs only, in how many cells each claim holds.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, NamedTuple

from gappletron.paper.claims import CLAIMS, OURS, Claim, Verdict
from gappletron.paper.store import Result
from gappletron.paper.summary import Summary
from gappletron.paper.sweeps import GAPS, PAPER, ROUNDS, Cell, Sweep, Task, tasks

__all__ = [
    "AXES",
    "BASE",
    "SEEDS",
    "SETTINGS",
    "Count",
    "Reading",
    "Setting",
    "Size",
    "Tally",
    "needed",
    "stored",
    "tally",
]


@dataclass(frozen=True)
class Reading:
    """One answer to every question that the paper leaves open; by default that of the main command.

    >>> BASE
    Reading(rounds=100000, constant='own', norm='largest', gamma=1.0, root=2, banditron='weighted', least_b=0.001)
    """

    rounds: int = ROUNDS
    constant: str = "own"
    norm: str = "largest"
    gamma: float = 1.0
    root: int = 2
    banditron: str = "weighted"
    least_b: float = 0.001


BASE = Reading()

AXES: dict[str, dict[Any, str]] = {
    "rounds": {
        3_000: "T = 3,000",
        10_000: "T = 10,000",
        30_000: "T = 30,000",
        50_000: "T = 50,000",
        100_000: "T = 100,000",
        300_000: "T = 300,000",
    },
    "constant": {
        "own": "L of each loss",
        "gaplog": "L = X²/ln K for all",
        "1": "L = X² for all",
        "2": "L = 2X² for all",
        "4": "L = 4X² for all",
        "2 in gaplog": "L = 2X² in GapLog only",
    },
    "norm": {"largest": "X the largest norm", "mean": "X the mean norm"},
    "gamma": {1.0: "only-T γ = 1", 0.5: "only-T γ = 1/2"},
    "root": {2: "SOBAdiag T^(-1/2)", 3: "SOBAdiag T^(-1/3)"},
    "banditron": {
        "weighted": "Banditron weighted",
        "margin": "Banditron with margin, own step",
        "standard": "Banditron standard",
    },
    "least_b": {0.001: "b from 0.001", 10.0: "b ≥ 10"},
}
"""The answers to each question, with a label. The first of each but T's is that of the main command."""

PLANE = ("constant", "rounds")
"""The two axes of which every pair of values is run."""

SEEDS = (0, 1, 2, 3, 4)
"""The seeds of the data: the last axis."""

LONGEST = 100_000
"""With more rounds than this only the first seed is run, which keeps the whole within an hour on two cores."""

CONSTANTS = {"2 in gaplog": {"gaplog": "2"}}
"""The readings of L that are not the same for all losses: the loss that is read otherwise, and how."""


class Size(NamedTuple):
    """How much is run: the seeds of the data, the repeats, T of the base (the other T in proportion), and the cells.

    >>> Size().rounds_of(Reading(rounds=30_000)), Size(rounds=1000).rounds_of(Reading(rounds=30_000))
    (30000, 300)
    """

    seeds: tuple[int, ...] = SEEDS
    repeats: int = 3
    rounds: int = ROUNDS
    cells: tuple[Cell, ...] | None = None

    def rounds_of(self, reading: Reading) -> int:
        """T of a reading."""
        return max(1, reading.rounds * self.rounds // ROUNDS)

    def seeds_of(self, reading: Reading) -> tuple[int, ...]:
        """The seeds of the data on which a reading is run.

        >>> Size().seeds_of(BASE), Size().seeds_of(Reading(rounds=300_000))
        ((0, 1, 2, 3, 4), (0,))
        """
        return self.seeds if reading.rounds <= LONGEST else self.seeds[:1]


FULL_SIZE = Size()

PAPER_CLAIMS = tuple(claim for claim in CLAIMS if claim.source != OURS)
SWEEP_IDS = ("bandit", "filtering", "full", "label-efficient")
PAPER_SWEEPS = tuple(sweep for sweep in PAPER if sweep.id in SWEEP_IDS)


class Setting(NamedTuple):
    """A reading with its place: the axis that it lies on ("base", a field of Reading, or "plane") and a label.

    >>> [setting.label for setting in SETTINGS if setting.axis == "norm"]
    ['X the mean norm']
    """

    axis: str
    label: str
    reading: Reading

    @property
    def id(self) -> str:
        """A short name: what differs from the base.

        >>> SETTINGS[0].id, SETTINGS[1].id
        ('base', 'rounds=3000')
        """
        return _id(self.reading)


def _id(reading: Reading) -> str:
    changed = [
        f"{field.name}={getattr(reading, field.name)}"
        for field in dataclasses.fields(reading)
        if getattr(reading, field.name) != getattr(BASE, field.name)
    ]
    return ",".join(changed) or "base"


def _settings() -> tuple[Setting, ...]:
    found = [Setting("base", "base", BASE)]
    for axis, values in AXES.items():
        found += [
            Setting(axis, label, replace(BASE, **{axis: value}))
            for value, label in values.items()
            if value != getattr(BASE, axis)
        ]
    first, second = PLANE
    for (one, label), (other, more) in itertools.product(AXES[first].items(), AXES[second].items()):
        if one != getattr(BASE, first) and other != getattr(BASE, second):
            found.append(Setting("plane", f"{label}, {more}", replace(BASE, **{first: one, second: other})))
    return tuple(found)


SETTINGS: tuple[Setting, ...] = _settings()
"""All readings that are run, the base first."""


# ------------------------------------------------------------------------------------------------------------- the runs


class Entry(NamedTuple):
    """A run, and the task that it counts as when the claims are judged: that of the main command."""

    task: Task
    counts_as: Task


@functools.lru_cache(maxsize=32)
def _base_tasks(sweep: Sweep, rounds: int, repeats: int, cells: tuple[Cell, ...] | None) -> tuple[Task, ...]:
    data = tuple(cell for cell in sweep.data if cells is None or cell in cells)
    return tuple(tasks(sweep._replace(data=data), rounds, repeats))


def entries(reading: Reading, seed: int, size: Size = FULL_SIZE) -> list[Entry]:
    """The runs of the paper's learners under a reading, on data with this seed.

    >>> theory = [entry for entry in entries(Reading(constant="2", banditron="standard"), seed=3)
    ...           if entry.counts_as.sweep == "bandit" and entry.counts_as.tuning == "theory"]
    >>> theory[0].task.id
    'bandit/bandit/K=6,d=80,noise=0.0,T=100000,seed=3/gaplog,theory:L=2,paper/00'
    >>> {entry.task.learner for entry in theory if entry.counts_as.learner == "banditron-iw"}
    {'banditron'}
    """
    found = []
    for sweep in PAPER_SWEEPS:
        for base in _base_tasks(sweep, size.rounds_of(reading), size.repeats, size.cells):
            learner, tuning = _as_read(base, reading)
            if learner.startswith("label-efficient-perceptron") and float(learner.partition("=")[2]) < reading.least_b:
                continue
            stream = base.stream.replace(",seed=0", f",seed={seed}")
            entrant = ",".join(part for part in (learner, tuning, base.exploration, base.optimizer) if part)
            name = f"{base.sweep}/{base.graph}/{stream.removeprefix('synthetic:')}/{entrant}/{base.repeat:02d}"
            counts_as = replace(base, id=f"{name} as {base.learner}", stream=stream)
            found.append(Entry(replace(counts_as, id=name, learner=learner, tuning=tuning), counts_as))
    return found


def _as_read(task: Task, reading: Reading) -> tuple[str, str]:
    """The learner and the tuning of the run that takes the place of a task of the main command."""
    learner, changes = task.learner, {}
    theory, only_t = task.tuning == "theory", task.tuning == "only-t"
    if learner in GAPS and theory and reading.constant != "own":
        special = CONSTANTS.get(reading.constant)
        constant = reading.constant if special is None else special.get(learner, OWN[learner])
        if constant != OWN[learner]:  # else it is the same run as the base's
            changes["L"] = constant
    if theory and reading.norm == "mean" and learner not in ("pnewtron", "soba-diag"):
        changes["X"] = reading.norm
    if learner in GAPS and only_t and reading.gamma != BASE.gamma:
        changes["gamma"] = f"{reading.gamma:g}"
    if learner == "soba-diag" and only_t and reading.root != BASE.root:
        changes["root"] = str(reading.root)
    if learner == "banditron-iw" and reading.banditron == "margin":
        changes["update"] = "margin"
    if learner == "banditron-iw" and reading.banditron == "standard" and task.graph == "bandit":
        learner = "banditron"  # it has no form for other graphs
    settings = ",".join(f"{key}={value}" for key, value in changes.items())
    return learner, task.tuning + f":{settings}" * bool(settings)


OWN = {"gaplog": "gaplog", "gaphin": "2", "gapsmh": "4"}
"""The constant L of each loss, in the words of the readings."""


def needed(settings: Sequence[Setting] = SETTINGS, size: Size = FULL_SIZE) -> list[list[Task]]:
    """The runs of all readings, each once, in stages: seed after seed, and the longest readings last.

    After an interruption the finished stages can be judged.

    >>> [len(stage) for stage in needed(SETTINGS[:2], Size(seeds=(0, 1)))]
    [4968, 4968]
    """
    stages: dict[tuple[bool, int], dict[str, Task]] = {}
    for setting in settings:
        for seed in size.seeds_of(setting.reading):
            stage = stages.setdefault((setting.reading.rounds > LONGEST, seed), {})
            stage.update((entry.task.id, entry.task) for entry in entries(setting.reading, seed, size))
    return [list(stages[key].values()) for key in sorted(stages)]


# --------------------------------------------------------------------------------------------------------- the judgment


class Count(NamedTuple):
    """In how many cells a claim's rule is true, of how many, on the data of one seed.

    >>> Count(13, 27).share > 0.48
    True
    """

    true: int
    cells: int

    @property
    def share(self) -> float:
        """The share of the cells."""
        return self.true / self.cells


@dataclass(frozen=True)
class Tally:
    """The counts of every claim under every setting: one for each seed of the data.

    >>> setting = SETTINGS[0]
    >>> some = Tally({"full-separated": {"base": (Count(9, 9), Count(8, 9))}}, 3)
    >>> some.held("full-separated", setting), round(some.share("full-separated", setting).mean, 3)
    (0.5, 0.944)
    """

    counts: Mapping[str, Mapping[str, tuple[Count, ...]]]
    repeats: int

    def of(self, claim: str, setting: Setting) -> tuple[Count, ...]:
        """The counts of a claim under a setting; empty where it was not judged."""
        return self.counts.get(claim, {}).get(setting.id, ())

    def settings(self) -> list[Setting]:
        """The settings under which some claim was judged."""
        return [setting for setting in SETTINGS if any(setting.id in found for found in self.counts.values())]

    def claims(self) -> list[Claim]:
        """The claims that were judged."""
        return [claim for claim in PAPER_CLAIMS if claim.id in self.counts]

    def held(self, claim: str, setting: Setting) -> float:
        """The share of the seeds with which the claim as a whole holds."""
        least, most = SHARES[claim]
        return statistics.fmean(least <= count.share <= most for count in self.of(claim, setting))

    def share(self, claim: str, setting: Setting) -> Interval:
        """The share of cells in which the rule is true, with its interval over the seeds."""
        return interval([count.share for count in self.of(claim, setting)])


SHARES = {claim.id: claim.share for claim in PAPER_CLAIMS}


class Interval(NamedTuple):
    """A mean over the seeds of the data, and its 95% confidence interval (Student's t, cut to 0..1)."""

    mean: float
    low: float
    high: float
    seeds: int


def interval(shares: Sequence[float]) -> Interval:
    """The interval of some shares, one per seed; of one seed it is all of 0..1.

    >>> interval([0.5, 0.5, 0.5])
    Interval(mean=0.5, low=0.5, high=0.5, seeds=3)
    >>> interval([1.0])
    Interval(mean=1.0, low=0.0, high=1.0, seeds=1)
    """
    from scipy.special import stdtrit

    n, mean = len(shares), statistics.fmean(shares)
    if n < 2:
        return Interval(mean, 0.0, 1.0, n)
    half = float(stdtrit(n - 1, 0.975)) * statistics.stdev(shares) / n**0.5
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half), n)


def judged(results: Mapping[str, Result], reading: Reading, seed: int, size: Size = FULL_SIZE) -> list[Verdict] | None:
    """The verdicts under a reading on data with this seed, from runs by their id; None where a run is missing."""
    found = entries(reading, seed, size)
    if not found or any(entry.task.id not in results for entry in found):
        return None
    summary = Summary(Result(entry.counts_as, results[entry.task.id].outcome) for entry in found)
    return [
        Verdict(claim, checks)
        for claim in PAPER_CLAIMS
        if claim.repeats <= size.repeats
        # With the standard Banditron in place of the other there is nothing to compare.
        and not (claim.id == STANDARD and reading.banditron == "standard")
        and (checks := tuple(claim.test(summary)))
    ]


STANDARD = "bandit-standard-banditron"


def tally(results: Iterable[Result], settings: Sequence[Setting] = SETTINGS, size: Size = FULL_SIZE) -> Tally:
    """Count every claim under every setting and seed whose runs are all there: a function of the runs alone."""
    by_id = {result.task.id: result for result in results}
    counts: dict[str, dict[str, list[Count]]] = {}
    for setting in settings:
        for seed in size.seeds_of(setting.reading):
            for verdict in judged(by_id, setting.reading, seed, size) or ():
                found = counts.setdefault(verdict.claim.id, {}).setdefault(setting.id, [])
                found.append(Count(sum(check.holds for check in verdict.checks), len(verdict.checks)))
    return Tally(
        {claim: {name: tuple(some) for name, some in found.items()} for claim, found in counts.items()}, size.repeats
    )


def told_over_seeds(results: Iterable[Result], size: Size = FULL_SIZE) -> dict[str, str]:
    """What a paired test over the seeds of the data says of each claim about means, under the base."""
    by_id = {result.task.id: result for result in results}
    found = [entry for seed in size.seeds for entry in entries(BASE, seed, size) if entry.task.id in by_id]
    if len(found) < len(size.seeds) * len(entries(BASE, size.seeds[0], size)) or len(size.seeds) < 2:
        return {}
    summary = Summary(Result(entry.counts_as, by_id[entry.task.id].outcome) for entry in found)
    verdicts = [Verdict(claim, checks) for claim in PAPER_CLAIMS if (checks := tuple(claim.test(summary)))]
    return {verdict.claim.id: verdict.told for verdict in verdicts if verdict.told is not None}


# -------------------------------------------------------------------------------------------------------- what it shows


def best(found: Tally) -> Setting:
    """The setting under which most claims hold, on average over the seeds; of several that with the larger shares.

    Settings that were run on fewer seeds than the base are left out: the largest of noisier averages is larger.
    """
    return max(_on_all_seeds(found), key=lambda setting: (held_claims(found, setting), mean_share(found, setting)))


def best_by_share(found: Tally) -> Setting:
    """The setting with the largest share of cells, averaged over the claims: a near miss counts almost as a hit."""
    return max(_on_all_seeds(found), key=lambda setting: mean_share(found, setting))


def _on_all_seeds(found: Tally) -> list[Setting]:
    def seeds(setting: Setting) -> int:
        return max(len(found.of(claim.id, setting)) for claim in found.claims())

    return [setting for setting in found.settings() if seeds(setting) == seeds(SETTINGS[0])]


def held_claims(found: Tally, setting: Setting) -> float:
    """The number of claims that hold under a setting, averaged over the seeds."""
    return sum(found.held(claim.id, setting) for claim in found.claims() if found.of(claim.id, setting))


def mean_share(found: Tally, setting: Setting) -> float:
    """The share of cells in which a rule is true, averaged over the claims and the seeds."""
    return statistics.fmean(
        found.share(claim.id, setting).mean for claim in found.claims() if found.of(claim.id, setting)
    )


def robust(found: Tally, claim: str) -> bool | None:
    """Whether a claim holds under every setting and seed (True), under none (False), or only under some (None)."""
    held = {found.held(claim, setting) for setting in found.settings() if found.of(claim, setting)}
    return True if held == {1.0} else False if held == {0.0} else None


SHOWN_FLIPS = 3


def flips(found: Tally, claim: str) -> str:
    """One sentence: the verdict at the base, and which readings change it, single axes before pairs.

    >>> some = Tally({"full-separated": {"base": (Count(9, 9),), "rounds=3000": (Count(0, 9),)}}, 3)
    >>> flips(some, "full-separated")
    'Holds at the base; does not hold with T = 3,000.'
    """
    base = SETTINGS[0]
    held = found.held(claim, base)
    seeds = len(found.of(claim, base))
    if 0.0 < held < 1.0:
        first = f"Depends on the data: holds at the base with {round(held * seeds)} of {seeds} seeds"
    else:
        first = f"{'Holds' if held else 'Does not hold'} at the base"
    # More than half of the seeds must agree that it is otherwise.
    changed = [
        setting
        for setting in found.settings()
        if found.of(claim, setting) and (found.held(claim, setting) > 0.5) != (held > 0.5)
    ]
    single = [setting for setting in changed if setting.axis != "plane"]
    shown = (single or changed)[:SHOWN_FLIPS]
    if not shown:
        return f"{first}; no reading changes that" + " on most seeds of the data" * (robust(found, claim) is None) + "."
    more = len(changed) - len(shown)
    rest = f", and with {more} more reading{'s' * (more > 1)}" if more else ""
    word = "does not hold" if held > 0.5 else "holds"
    return f"{first}; {word} with {'; with '.join(setting.label for setting in shown)}{rest}."


# --------------------------------------------------------------------------------------------------------- as a file

FILE = "sensitivity.json"


def to_json(found: Tally, words: Mapping[str, str], size: Size = FULL_SIZE) -> str:
    """The counts as text: for each claim and setting a pair [true, cells] for each seed.

    >>> some = Tally({"full-separated": {"base": (Count(9, 9),)}}, 3)
    >>> from_json(to_json(some, {"full-separated": "holds"})) == (some, {"full-separated": "holds"})
    True
    """
    content = {
        "rounds": size.rounds,
        "repeats": found.repeats,
        "seeds": list(size.seeds),
        "over seeds": dict(words),
    }
    head = json.dumps(content, ensure_ascii=False)[1:-1]
    rows = ",\n".join(
        f"{json.dumps(claim)}: {json.dumps(settings, separators=(',', ':'))}"
        for claim, settings in found.counts.items()
    )
    return f'{{{head}, "counts": {{\n{rows}\n}}}}\n'


def from_json(text: str) -> tuple[Tally, dict[str, str]]:
    """The counts, and the words over the seeds of the data, of :func:`to_json`."""
    content = json.loads(text)
    counts = {
        claim: {name: tuple(Count(*pair) for pair in some) for name, some in settings.items()}
        for claim, settings in content["counts"].items()
    }
    return Tally(counts, content["repeats"]), content["over seeds"]


def stored() -> tuple[Tally, dict[str, str]] | None:
    """The counts that come with the package, from a run of ``gappletron reproduce --sensitivity``; None without it."""
    file = resources.files(__package__).joinpath(FILE)
    return from_json(file.read_text(encoding="utf-8")) if file.is_file() else None
