"""What the verdicts depend on: the paper's experiments under every reading of what the paper leaves open.

A :class:`Reading` says how each open question is answered; its defaults are the answers of the main command.
:data:`AXES` lists the other answers. The readings that are run are the base, one axis at a time around it, and the
plane of L and T (:data:`SETTINGS`), each on several data sets that differ only in their seed. Runs that several
readings share are run once. :func:`count_claims` counts, from stored runs only, in how many cells each claim holds.
"""

import dataclasses
import functools
import itertools
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, NamedTuple

from gappletron.learners.registry import named
from gappletron.paper import templates
from gappletron.paper.claims import CLAIMS, OURS, Claim, Verdict
from gappletron.paper.results import Cell, Result, Summary, Task
from gappletron.paper.styles import read_scale
from gappletron.paper.sweeps import GAPS, PAPER, ROUNDS, Sweep, list_tasks, make_stream


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

# The answers to each question, with a label. The first of each but T's is that of the main command.
AXES: dict[str, dict[Any, str]] = {
    "rounds": {T: f"T = {T:,}" for T in (3_000, 10_000, 30_000, 50_000, 100_000, 300_000)},
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

# The seeds of the data: the last axis.
SEEDS = (0, 1, 2, 3, 4)

# With more rounds than this only the first seed is run, which keeps the whole within an hour on two cores.
LONGEST = 100_000

# The readings of L that are not the same for all losses: the loss that is read otherwise, and how.
CONSTANTS = {"2 in gaplog": {"gaplog": "2"}}


class Size(NamedTuple):
    """How much is run: the seeds of the data, the repeats, T of the base (the other T in proportion), and the cells.

    >>> Size().find_rounds(Reading(rounds=30_000)), Size(rounds=1000).find_rounds(Reading(rounds=30_000))
    (30000, 300)
    """

    seeds: tuple[int, ...] = SEEDS
    repeats: int = 3
    rounds: int = ROUNDS
    cells: tuple[Cell, ...] | None = None

    def find_rounds(self, reading: Reading) -> int:
        """Return the T of a reading."""
        return max(1, reading.rounds * self.rounds // ROUNDS)

    def choose_seeds(self, reading: Reading) -> tuple[int, ...]:
        """Return the seeds of the data on which a reading is run.

        >>> Size().choose_seeds(BASE), Size().choose_seeds(Reading(rounds=300_000))
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
        base = dataclasses.asdict(BASE)
        answers = dataclasses.asdict(self.reading).items()
        return ",".join(f"{name}={answer}" for name, answer in answers if answer != base[name]) or "base"


def _list_settings() -> Iterator[Setting]:
    yield Setting("base", "base", BASE)
    for axis, answers in AXES.items():
        for answer, label in answers.items():
            if answer != getattr(BASE, axis):
                yield Setting(axis, label, replace(BASE, **{axis: answer}))
    for (constant, label), (rounds, more) in itertools.product(AXES["constant"].items(), AXES["rounds"].items()):
        if constant != BASE.constant and rounds != BASE.rounds:
            yield Setting("plane", f"{label}, {more}", replace(BASE, constant=constant, rounds=rounds))


# All readings that are run, the base first.
SETTINGS = tuple(_list_settings())

BASE_SETTING = SETTINGS[0]


# ------------------------------------------------------------------------------------------------------------- the runs


class Entry(NamedTuple):
    """A run, and the task that it counts as when the claims are judged: that of the main command."""

    task: Task
    counts_as: Task


@functools.lru_cache(maxsize=32)
def _list_base_tasks(sweep: Sweep, rounds: int, repeats: int, cells: tuple[Cell, ...] | None) -> tuple[Task, ...]:
    data = tuple(cell for cell in sweep.data if cells is None or cell in cells)
    return tuple(list_tasks(sweep._replace(data=data), rounds, repeats))


def list_entries(reading: Reading, seed: int, size: Size = FULL_SIZE) -> list[Entry]:
    """Return the runs of the paper's learners under a reading, on data with this seed.

    >>> theory = [entry for entry in list_entries(Reading(constant="2", banditron="standard"), seed=3)
    ...           if entry.counts_as.sweep == "bandit" and entry.counts_as.tuning == "theory"]
    >>> theory[0].task.id
    'bandit/bandit/K=6,d=80,noise=0.0,T=100000,seed=3/gaplog,theory:L=2,paper/00'
    >>> {entry.task.learner for entry in theory if entry.counts_as.learner == "banditron-iw"}
    {'banditron'}
    """
    found = []
    for sweep in PAPER_SWEEPS:
        for base in _list_base_tasks(sweep, size.find_rounds(reading), size.repeats, size.cells):
            if ":b=" in base.learner and read_scale(base.learner) < reading.least_b:
                continue
            learner, changes = _read(base, reading)
            stream = make_stream(base.cell, base.rounds, seed)
            assert stream is not None
            settings = ",".join(f"{key}={value}" for key, value in changes)
            tuning = base.tuning + f":{settings}" * bool(settings)
            entrant = ",".join(part for part in (learner, tuning, base.exploration, base.optimizer) if part)
            name = f"{base.sweep}/{base.graph}/{stream.name.removeprefix('synthetic:')}/{entrant}/{base.repeat:02d}"
            piece = base.pieces.learner if learner == base.learner else named(learner)
            setup = base.pieces._replace(learner=piece, stream=stream, changes=changes)
            counts_as = replace(base, id=f"{name} as {base.learner}", stream=stream.name)
            task = replace(counts_as, id=name, learner=learner, tuning=tuning, setup=setup)
            found.append(Entry(task, counts_as))
    return found


def _read(task: Task, reading: Reading) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the learner that takes the place of one of the main command, and what is read otherwise in its tuning."""
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
    return learner, tuple(changes.items())


# The constant L of each loss, in the words of the readings.
OWN = {"gaplog": "gaplog", "gaphin": "2", "gapsmh": "4"}


def list_stages(settings: Sequence[Setting] = SETTINGS, size: Size = FULL_SIZE) -> list[list[Task]]:
    """Return the runs of all readings, each once, in stages: seed after seed, and the longest readings last.

    After an interruption the finished stages can be judged.

    >>> [len(stage) for stage in list_stages(SETTINGS[:2], Size(seeds=(0, 1)))]
    [4968, 4968]
    """
    stages: dict[tuple[bool, int], dict[str, Task]] = {}
    for setting in settings:
        for seed in size.choose_seeds(setting.reading):
            stage = stages.setdefault((setting.reading.rounds > LONGEST, seed), {})
            stage.update((entry.task.id, entry.task) for entry in list_entries(setting.reading, seed, size))
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


class Interval(NamedTuple):
    """A mean over the seeds of the data, and its 95% confidence interval (Student's t, cut to 0..1)."""

    mean: float
    low: float
    high: float
    seeds: int


def compute_interval(shares: Sequence[float]) -> Interval:
    """Return the interval of some shares, one per seed; of one seed it is all of 0..1.

    >>> compute_interval([0.5, 0.5, 0.5])
    Interval(mean=0.5, low=0.5, high=0.5, seeds=3)
    >>> compute_interval([1.0])
    Interval(mean=1.0, low=0.0, high=1.0, seeds=1)
    """
    from scipy.special import stdtrit

    n, mean = len(shares), statistics.fmean(shares)
    if n < 2:
        return Interval(mean, 0.0, 1.0, n)
    half = float(stdtrit(n - 1, 0.975)) * statistics.stdev(shares) / n**0.5
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half), n)


@dataclass(frozen=True)
class Tally:
    """The counts of every claim under every setting: one for each seed of the data.

    `words` has what a paired test over the seeds of the data says of each claim about means, under the base.

    >>> setting = SETTINGS[0]
    >>> some = Tally({"full-separated": {"base": (Count(9, 9), Count(8, 9))}}, 3)
    >>> some.find_held_share("full-separated", setting), round(some.find_share("full-separated", setting).mean, 3)
    (0.5, 0.944)
    """

    counts: Mapping[str, Mapping[str, tuple[Count, ...]]]
    repeats: int
    words: Mapping[str, str] = field(default_factory=dict)

    def find_counts(self, claim: str, setting: Setting) -> tuple[Count, ...]:
        """Return the counts of a claim under a setting; empty where it was not judged."""
        return self.counts.get(claim, {}).get(setting.id, ())

    def settings(self, claim: str | None = None) -> list[Setting]:
        """Return the settings under which a claim, or some claim, was judged."""
        judged = self.counts.values() if claim is None else [self.counts.get(claim, {})]
        return [setting for setting in SETTINGS if any(setting.id in found for found in judged)]

    def claims(self, setting: Setting | None = None) -> list[Claim]:
        """Return the claims that were judged, under a setting or under any."""
        judged = [claim for claim in PAPER_CLAIMS if claim.id in self.counts]
        return [claim for claim in judged if setting is None or self.find_counts(claim.id, setting)]

    def find_held_share(self, claim: str, setting: Setting) -> float:
        """Return the share of the seeds with which the claim as a whole holds."""
        least, most = SHARES[claim]
        return statistics.fmean(least <= count.share <= most for count in self.find_counts(claim, setting))

    def find_share(self, claim: str, setting: Setting) -> Interval | None:
        """Return the share of cells in which the rule is true, with its interval over the seeds."""
        counts = self.find_counts(claim, setting)
        return compute_interval([count.share for count in counts]) if counts else None

    def average_along(self, claim: str, axis: str) -> Interval | None:
        """Return the mean share along an axis, with its interval over the seeds that all its settings have."""
        counts = [
            self.find_counts(claim, setting) for setting in self.settings(claim) if setting.axis in ("base", axis)
        ]
        # Settings with fewer seeds, those with the most rounds, are left out where others have more.
        complete = [some for some in counts if len(some) == max(map(len, counts))]
        means = [statistics.fmean(count.share for count in same) for same in zip(*complete, strict=True)]
        return compute_interval(means) if len(counts) > 1 else None

    def count_held(self, setting: Setting) -> float:
        """Return the number of claims that hold under a setting, averaged over the seeds."""
        return sum(self.find_held_share(claim.id, setting) for claim in self.claims(setting))

    def count_held_by_seed(self) -> list[int]:
        """Return the number of claims that hold at the base, for each seed of the data."""
        counts = zip(*(self.find_counts(claim.id, BASE_SETTING) for claim in self.claims()), strict=False)
        ranges = [claim.share for claim in self.claims()]
        return [
            sum(least <= count.share <= most for count, (least, most) in zip(same, ranges, strict=True))
            for same in counts
        ]

    def average_share(self, setting: Setting) -> float:
        """Return the share of cells in which a rule is true, averaged over the claims and the seeds."""
        counts = [self.find_counts(claim.id, setting) for claim in self.claims(setting)]
        return statistics.fmean(statistics.fmean(count.share for count in some) for some in counts)

    @functools.cached_property
    def best(self) -> Setting:
        """The setting under which most claims hold on average; of several that with the larger shares."""
        return max(self._complete, key=lambda setting: (self.count_held(setting), self.average_share(setting)))

    @functools.cached_property
    def best_by_share(self) -> Setting:
        """The setting with the largest mean share of cells: a near miss counts almost as a hit."""
        return max(self._complete, key=self.average_share)

    @property
    def _complete(self) -> list[Setting]:
        """The settings that were run on as many seeds as the base: the largest of noisier averages is larger."""

        def seeds(setting: Setting) -> int:
            return max(len(self.find_counts(claim.id, setting)) for claim in self.claims())

        return [setting for setting in self.settings() if seeds(setting) == seeds(BASE_SETTING)]

    def find_robustness(self, claim: str) -> bool | None:
        """Whether a claim holds under every setting and seed (True), under none (False), or only under some (None)."""
        held = {self.find_held_share(claim, setting) for setting in self.settings(claim)}
        return True if held == {1.0} else False if held == {0.0} else None

    def count_robust(self, outcome: bool) -> int:
        """Return the number of claims that hold under every reading, or of those that hold under none."""
        return sum(self.find_robustness(claim.id) is outcome for claim in self.claims())

    def describe_flips(self, claim: str) -> str:
        """Return one sentence: the verdict at the base, and which readings change it, single axes before pairs.

        >>> some = Tally({"full-separated": {"base": (Count(9, 9),), "rounds=3000": (Count(0, 9),)}}, 3)
        >>> some.describe_flips("full-separated")
        'Holds at the base; does not hold with T = 3,000.'
        """
        held = self.find_held_share(claim, BASE_SETTING)
        # More than half of the seeds must agree that it is otherwise.
        changed = [
            setting for setting in self.settings(claim) if (self.find_held_share(claim, setting) > 0.5) != (held > 0.5)
        ]
        shown = ([setting for setting in changed if setting.axis != "plane"] or changed)[:SHOWN_FLIPS]
        text = templates.render(
            "flips.jinja",
            held=held,
            seeds=len(self.find_counts(claim, BASE_SETTING)),
            shown=[setting.label for setting in shown],
            more=len(changed) - len(shown),
            robust=self.find_robustness(claim),
        )
        return " ".join(text.split())


SHOWN_FLIPS = 3
SHARES = {claim.id: claim.share for claim in PAPER_CLAIMS}


def judge_reading(
    results: Mapping[str, Result], reading: Reading, seeds: Sequence[int], size: Size = FULL_SIZE
) -> list[Verdict]:
    """Return the verdicts under a reading on data with these seeds, from runs by id; none where a run is missing."""
    found = [entry for seed in seeds for entry in list_entries(reading, seed, size)]
    if any(entry.task.id not in results for entry in found):
        return []
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


def count_claims(results: Iterable[Result], settings: Sequence[Setting] = SETTINGS, size: Size = FULL_SIZE) -> Tally:
    """Count every claim under every setting and seed whose runs are all there: a function of the runs alone."""
    by_id = {result.task.id: result for result in results}
    counts: dict[str, dict[str, tuple[Count, ...]]] = {}
    for setting in settings:
        for seed in size.choose_seeds(setting.reading):
            for verdict in judge_reading(by_id, setting.reading, [seed], size):
                by_setting = counts.setdefault(verdict.claim.id, {})
                count = Count(verdict.true_checks, len(verdict.checks))
                by_setting[setting.id] = (*by_setting.get(setting.id, ()), count)
    # What a paired test over the seeds of the data says of each claim about means.
    over_seeds = judge_reading(by_id, BASE, size.seeds, size) if len(size.seeds) > 1 else []
    words = {verdict.claim.id: word for verdict in over_seeds if (word := verdict.word) is not None}
    return Tally(counts, size.repeats, words)


# ------------------------------------------------------------------------------------------------------------ as a file

FILE = "sensitivity.json"


def to_json(found: Tally, size: Size = FULL_SIZE) -> str:
    """Return the counts as text: for each claim and setting a pair [true, cells] for each seed.

    >>> some = Tally({"full-separated": {"base": (Count(9, 9),)}}, 3, {"full-separated": "holds"})
    >>> from_json(to_json(some)) == some
    True
    """
    content = {"rounds": size.rounds, "repeats": found.repeats, "seeds": size.seeds, "over seeds": dict(found.words)}
    rows = ",\n".join(
        f"{json.dumps(claim)}: {json.dumps(settings, separators=(',', ':'))}"
        for claim, settings in found.counts.items()
    )
    return f'{{{json.dumps(content, ensure_ascii=False)[1:-1]}, "counts": {{\n{rows}\n}}}}\n'


def from_json(text: str) -> Tally:
    """Return the counts of :func:`to_json`."""
    content = json.loads(text)
    counts = {
        claim: {name: tuple(Count(*pair) for pair in some) for name, some in settings.items()}
        for claim, settings in content["counts"].items()
    }
    return Tally(counts, content["repeats"], content["over seeds"])


def read_stored() -> Tally:
    """Return the counts of the sensitivity run that comes with the package."""
    return from_json(resources.files(__package__).joinpath(FILE).read_text("utf-8"))
