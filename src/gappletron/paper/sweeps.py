"""All experiments as data: which learners play which streams on which graph, and how often.

A :class:`Sweep` is a grid of runs; :func:`tasks` lists them. Each is a :class:`Task` of plain values, with an id that
does not change between versions. Nothing is run here. The experiments are those of section 5 and of the appendix
"Experiments" of the paper. What the paper does not specify is chosen here or in the tunings of the learners, and
:mod:`gappletron.paper.report` lists these choices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from gappletron.base.checks import whole
from gappletron.base.text import unknown

__all__ = [
    "FIGURES",
    "SWEEPS",
    "Entrant",
    "Figure",
    "Sweep",
    "Task",
    "drawable",
    "draws",
    "left_out",
    "probes",
    "selected",
    "tasks",
]

ROUNDS = 100_000
"""The default T; the paper does not give one."""

TURNED = ",turned=quietest,repeats="
"""Part of the name of an adversary's stream that depends on the learner, before the number of repeats."""


class Cell(NamedTuple):
    """One of the paper's data sets: the synthetic stream with K classes, d features and label noise.

    >>> str(Cell(9, 120, 0.05))
    'K=9, d=120, noise 0.05'
    """

    classes: int
    features: int
    noise: float

    def __str__(self) -> str:
        return f"K={self.classes}, d={self.features}, noise {self.noise:g}"

    def stream(self, rounds: int, repeat: int, repeats: int) -> str:
        """The stream's name, as :func:`gappletron.open_stream` reads it."""
        return f"synthetic:K={self.classes},d={self.features},noise={self.noise!r},T={rounds},seed=0"

    def rounds(self, most: int) -> int:
        """T."""
        return most


class Unit(NamedTuple):
    """One unit vector per class, with label noise: a stream on which the bounds are below T."""

    classes: int
    features: int
    noise: float

    def stream(self, rounds: int, repeat: int, repeats: int) -> str:
        return f"unit-vectors:K={self.classes},noise={self.noise!r},T={rounds},seed=0"

    def rounds(self, most: int) -> int:
        return most


class Blind(NamedTuple):
    """The adversary of Theorem "apple lower bound" with 2R segments, without or with a turned segment.

    The segment is the one in which the learner plays the revealing class least often, averaged over the repeats of the
    sweep. So the stream depends on the learner and on the number of repeats, which its name ends with.
    """

    root: int
    turned: bool

    @property
    def classes(self) -> int:
        """K."""
        return 2

    @property
    def features(self) -> int:
        """d."""
        return 2 * self.root + 1

    @property
    def noise(self) -> float:
        """The label noise: none."""
        return 0.0

    def stream(self, rounds: int, repeat: int, repeats: int) -> str:
        return f"segments:R={self.root}" + f"{TURNED}{repeats}" * self.turned

    def rounds(self, most: int) -> int:
        """2 R^2, or 0 if that is more than `most`."""
        return 2 * self.root**2 if 2 * self.root**2 <= most else 0


class Fresh(NamedTuple):
    """The adversary of Theorem "full info lower bound": (B^2 - 1) K^2 fresh features, new labels in every repeat.

    If `short`, the last label stays for as many rounds as there were before, not up to T.
    """

    classes: int
    radius: int
    short: bool = False

    @property
    def noise(self) -> float:
        """The label noise: none."""
        return 0.0

    @property
    def features(self) -> int:
        """M + 1."""
        return (self.radius**2 - 1) * self.classes**2 + 1

    def stream(self, rounds: int, repeat: int, repeats: int) -> str:
        return f"fresh:K={self.classes},B={self.radius},T={rounds},seed={repeat}"

    def rounds(self, most: int) -> int:
        """`most` or 2 (M + 1), or 0 if `most` is too few."""
        if self.short:
            return 2 * self.features if most >= 2 * self.features else 0
        return most if most >= self.features else 0


class Both(NamedTuple):
    """The adversary of Corollary "lower" on one filtering graph: fresh features, then 2R segments."""

    classes: int
    radius: int
    root: int
    turned: bool

    @property
    def noise(self) -> float:
        """The label noise: none."""
        return 0.0

    @property
    def features(self) -> int:
        """M + 1 of the first part, and 2 R + 1 of the second."""
        return Fresh(self.classes, self.radius).features + 2 * self.root + 1

    def stream(self, rounds: int, repeat: int, repeats: int) -> str:
        name = f"fresh-segments:K={self.classes},B={self.radius},R={self.root},seed={repeat}"
        return name + f"{TURNED}{repeats}" * self.turned

    def rounds(self, most: int) -> int:
        """M + 1 + 2 R^2, or 0 if that is more than `most`."""
        wanted = Fresh(self.classes, self.radius).features + 2 * self.root**2
        return wanted if wanted <= most else 0


class Signs(NamedTuple):
    """Dense rows of signs, of which the first K matter: for the remark on other norms."""

    classes: int
    features: int

    @property
    def noise(self) -> float:
        """The label noise: none."""
        return 0.0

    def stream(self, rounds: int, repeat: int, repeats: int) -> str:
        return f"signs:K={self.classes},d={self.features},T={rounds},seed=0"

    def rounds(self, most: int) -> int:
        """At most 5,000."""
        return min(most, 5000)


class Turning(NamedTuple):
    """Unit vectors that change their classes so many times: for the remark on dynamic regret."""

    classes: int
    turns: int

    @property
    def noise(self) -> float:
        """The label noise: none."""
        return 0.0

    @property
    def features(self) -> int:
        """d = K."""
        return self.classes

    def stream(self, rounds: int, repeat: int, repeats: int) -> str:
        return f"turning:K={self.classes},S={self.turns},T={rounds},seed=0"

    def rounds(self, most: int) -> int:
        """At most 20,000, or 0 if there are more turns than rounds."""
        return min(most, 20_000) if most > self.turns else 0


Data = Cell | Unit | Blind | Fresh | Both | Signs | Turning


class Entrant(NamedTuple):
    """A learner in a sweep: its name, its tuning, and for a Gappletron its exploration rule and its optimizer.

    A deterministic learner (`draws` is False) plays the same data only once.
    """

    learner: str
    tuning: str = ""
    exploration: str = ""
    optimizer: str = ""
    draws: bool = True


class Sweep(NamedTuple):
    """A grid of runs on one feedback graph: every entrant on every data set, `repeats` times.

    >>> bandit = SWEEPS[0]
    >>> bandit.id, len(bandit.data), len(bandit.entrants), bandit.repeats
    ('bandit', 27, 14, 10)
    """

    id: str
    graph: str
    data: tuple[Data, ...]
    entrants: tuple[Entrant, ...]
    repeats: int = 10


@dataclass(frozen=True)
class Task:
    """One run in plain values: everything that its outcome depends on.

    >>> task = tasks(SWEEPS[0])[0]
    >>> task.id
    'bandit/bandit/K=6,d=80,noise=0.0,T=100000/gaplog,theory,paper/00'
    """

    id: str
    sweep: str
    graph: str
    exploration: str
    learner: str
    tuning: str
    optimizer: str
    classes: int
    features: int
    noise: float
    rounds: int
    stream: str
    repeat: int
    seed: int

    @property
    def configuration(self) -> Task:
        """The task without what differs between its repeats: the id, the repeat and the seeds (also the stream's).

        >>> first, second = tasks(SWEEPS[0])[:2]
        >>> first == second, first.configuration == second.configuration
        (False, True)
        """
        return replace(self, id="", stream=_without(self.stream, "seed"), repeat=0, seed=0)


def _without(stream: str, *keys: str) -> str:
    kind, colon, numbers = stream.partition(":")
    return kind + colon + ",".join(part for part in numbers.split(",") if part.partition("=")[0] not in keys)


def probes(stream: str) -> tuple[str, int | None]:
    """The name of a stream without its turned segment, and the number of repeats that decide which segment is turned.

    The number is None where no segment is turned.

    >>> probes("segments:R=22,turned=quietest,repeats=20"), probes("segments:R=22")
    (('segments:R=22', 20), ('segments:R=22', None))
    """
    name, turned, repeats = stream.partition(TURNED)
    return name, int(repeats) if turned else None


def tasks(sweep: Sweep, rounds: int = ROUNDS, repeats: int | None = None) -> list[Task]:
    """The runs of a sweep with at most `rounds` rounds: each entrant `repeats` times, or once if it is deterministic.

    >>> sum(len(tasks(sweep)) for sweep in SWEEPS if sweep.id in ("bandit", "filtering", "full"))
    6831
    """
    whole(rounds, "rounds", least=1)
    wanted = sweep.repeats if repeats is None else whole(repeats, "repeats", least=1, most=100_000)
    found = []
    for data in sweep.data:
        horizon = data.rounds(rounds)
        for entrant in sweep.entrants if horizon else ():
            # With new labels in every repeat, the runs of a deterministic learner differ too.
            times = wanted if entrant.draws or isinstance(data, Fresh | Both) else 1
            found += [_task(sweep, data, entrant, horizon, repeat, times) for repeat in range(times)]
    return found


def _task(sweep: Sweep, data: Data, entrant: Entrant, rounds: int, repeat: int, repeats: int) -> Task:
    stream = data.stream(rounds, repeat, repeats)
    data_id = _without(stream, "seed", "repeats").removeprefix("synthetic:")
    entrant_id = ",".join(part for part in entrant[:4] if part)
    return Task(
        id=f"{sweep.id}/{sweep.graph}/{data_id}/{entrant_id}/{repeat:02d}",
        sweep=sweep.id,
        graph=sweep.graph,
        exploration=entrant.exploration,
        learner=entrant.learner,
        tuning=entrant.tuning,
        optimizer=entrant.optimizer,
        classes=data.classes,
        features=data.features,
        noise=data.noise,
        rounds=rounds,
        stream=stream,
        repeat=repeat,
        seed=0,
    )


# -------------------------------------------------------------------------------------------------- the paper's figures

CLASSES = (6, 9, 12)
FEATURES = (80, 120, 160)
NOISES = (0.0, 0.05, 0.1)
CELLS = tuple(Cell(K, d, noise) for K in CLASSES for d in FEATURES for noise in NOISES)
MIDDLE = tuple(Cell(K, 120, noise) for K in CLASSES for noise in NOISES)

GAPS = ("gaplog", "gaphin", "gapsmh")
TUNINGS = ("theory", "only-t")


def _gaps(exploration: str, *tunings: str) -> tuple[Entrant, ...]:
    return tuple(Entrant(name, tuning, exploration) for tuning in tunings for name in GAPS)


def _baselines(*names: str) -> tuple[Entrant, ...]:
    return tuple(Entrant(name, tuning) for tuning in TUNINGS for name in names)


QUERY_SCALES = (0.001, 0.003, 0.01, 0.03, 0.1, 1.0, 10.0, 100.0)
"""Values of b. The label-efficient Perceptron asks with probability b / (b + margin): from rarely to almost always."""

PAPER = (
    # The standard Banditron is not in the paper's figures, but in a remark of its text.
    Sweep(
        "bandit",
        "bandit",
        CELLS,
        _gaps("paper", *TUNINGS) + _baselines("pnewtron", "soba-diag", "banditron-iw", "banditron"),
    ),
    Sweep("filtering", "filtering", CELLS, _gaps("paper", *TUNINGS) + _baselines("banditron-iw")),
    # With full information there is nothing to explore, so there is one tuning.
    Sweep(
        "full",
        "full",
        CELLS,
        (
            *_gaps("paper", ""),
            Entrant("second-order-perceptron-diag", draws=False),
            Entrant("perceptron", draws=False),
            Entrant("passive-aggressive", draws=False),
        ),
    ),
    Sweep(
        "label-efficient",
        "label-efficient",
        MIDDLE,
        (
            *_gaps("paper", *TUNINGS),
            *(Entrant(f"label-efficient-perceptron:b={b:g}") for b in QUERY_SCALES),
        ),
    ),
    # Not in the paper: the exploration rule top-up, compared with that of Algorithm 1.
    Sweep("exploration", "filtering", CELLS, _gaps("top-up", "only-t")),
    Sweep("exploration", "label-efficient", MIDDLE, _gaps("top-up", "only-t")),
)

# ------------------------------------------------------------------------------------------------ the theorems' figures

UNIT = 3
RADIUS = f"{math.sqrt(2.0):.6f}"  # norm of U = I - 11'/K, which separates three unit vectors with margin 1
WIDE = f"{4.0 * math.sqrt(2.0):.6f}"  # norm of 4 U: the logistic loss needs larger scores


def _projected(tuning: str, *losses: tuple[str, str]) -> tuple[Entrant, ...]:
    return tuple(Entrant(name, tuning, "top-up", f"projected-ogd:radius={radius}") for name, radius in losses)


MARGIN_LOSSES = (("gapsmh", RADIUS), ("gaphin", RADIUS))
ALL_LOSSES = (*MARGIN_LOSSES, ("gaplog2", WIDE), ("gaplog", WIDE))
NOISY, SEPARABLE = (Unit(UNIT, UNIT, 0.05),), (Unit(UNIT, UNIT, 0.0),)

PARTIAL = ("bandit", "filtering", "label-efficient")

MANY = 200
"""Repeats where a statement holds with probability 1 - delta: no failure in so many runs tells that delta < 0.015."""

SMOOTH, HINGE = (("gapsmh", RADIUS),), (("gaphin", RADIUS),)

BOUNDS = (
    *(
        Sweep("bounds", graph, NOISY, _projected("expectation", *ALL_LOSSES) + _projected("high-probability", *HINGE))
        for graph in PARTIAL
    ),
    *(
        Sweep(
            "bounds",
            graph,
            SEPARABLE,
            _projected("expectation-separable", *MARGIN_LOSSES) + _projected("high-probability-separable", *HINGE),
        )
        for graph in PARTIAL
    ),
    *(
        Sweep("bounds", graph, data, _projected(tuning, *SMOOTH), repeats=MANY)
        for graph in PARTIAL
        for data, tuning in ((NOISY, "high-probability"), (SEPARABLE, "high-probability-separable"))
    ),
    # Gradient descent with the rate 1/(2L), for a theorem about separable data: L = 4 for the smooth hinge.
    Sweep(
        "bounds",
        "full",
        NOISY + SEPARABLE,
        (
            *_projected("", *ALL_LOSSES[1:]),
            Entrant("gapsmh", "", "top-up", f"fixed-ogd:rate=0.125,radius={RADIUS}"),
        ),
    ),
    Sweep("bounds", "full", NOISY + SEPARABLE, _projected("", *SMOOTH), repeats=MANY),
)

ROOTS = (5, 10, 22, 50, 100, 223, 500, 707)
SEGMENTS = tuple(Blind(root, turned) for root in ROOTS for turned in (False, True))
SQRT5 = f"{math.sqrt(5.0):.6f}"  # norm of the comparator in the proof


def _on_fresh_features(radius: int, *more: Entrant) -> Sweep:
    """All learners that can play full information. Gappletron's weights stay in the ball of the adversary's comparator,
    so that its theorem applies.
    """
    ball = f"projected-ogd:radius={radius}"
    return Sweep(
        "lower-full",
        "full",
        (Fresh(3, radius),),
        (
            *(Entrant(name, "", "top-up", ball) for name in (*GAPS, "gaplog2")),
            *(
                Entrant(name, "theory")
                for name in ("gaptron-log", "gaptron-hin", "gaptron-smh", "banditron-iw", "exp3-g")
            ),
            *(
                Entrant(name, draws=False)
                for name in ("perceptron", "passive-aggressive", "second-order-perceptron-diag", "arow")
            ),
            *more,
        ),
        repeats=40,
    )


LOWER_BOUNDS = (
    Sweep(
        "lower-filtering",
        "filtering:revealing=1",
        SEGMENTS,
        (
            *(Entrant(name, "expectation", "top-up", f"projected-ogd:radius={SQRT5}") for name in (*GAPS, "gaplog2")),
            Entrant("banditron-iw", "theory"),
            Entrant("exp3-g", "theory"),
        ),
        repeats=20,
    ),
    # The full matrix of the second-order Perceptron has (Kd)^2 entries, so it plays only the smallest of the three.
    _on_fresh_features(2, Entrant("second-order-perceptron", draws=False)),
    _on_fresh_features(4),
    _on_fresh_features(8),
    Sweep(
        "lower-classes",
        "full",
        tuple(Fresh(K, 2, short=True) for K in (2, 3, 4, 6, 8, 10, 12)),
        (
            Entrant("gapsmh", "", "top-up", "projected-ogd:radius=2"),
            Entrant("banditron-iw", "theory"),
            Entrant("perceptron", draws=False),
        ),
        repeats=40,
    ),
    # The comparator has the squared norm B^2 + 5 = 9.
    Sweep(
        "lower-both",
        "filtering:revealing=1",
        tuple(Both(4, 2, root, turned) for root in (5, 10, 22, 50, 100, 158) for turned in (False, True)),
        (
            Entrant("gapsmh", "expectation", "top-up", "projected-ogd:radius=3"),
            Entrant("banditron-iw", "theory"),
            Entrant("exp3-g", "theory"),
        ),
        repeats=20,
    ),
)

HALF_ROOT = f"{math.sqrt(3.0) / 2.0:.6f}"  # norm of the comparator on three signs, whose entries add up to 1.5

REMARKS = (
    *(
        Sweep(
            "norms",
            "full",
            (Signs(3, d),),
            (
                Entrant("gapsmh", "", "top-up", f"exponentiated-gradient:radius=1.5,coordinates={3 * d}"),
                Entrant("gapsmh", "", "top-up", f"projected-ogd:radius={HALF_ROOT}"),
            ),
        )
        for d in (10, 30, 100, 300)
    ),
    # The rate of the dynamic bound is 1/(K L) = 1/12.
    Sweep(
        "drift",
        "full",
        tuple(Turning(3, turns) for turns in (0, 1, 3, 10, 30, 100, 300)),
        (
            Entrant("gapsmh", "", "top-up", f"fixed-ogd:rate={1.0 / 12.0:.8f},radius={RADIUS}"),
            Entrant("gapsmh", "", "top-up", f"projected-ogd:radius={RADIUS}"),
        ),
    ),
    # Unit vectors are strongly separable: U^k with 1 at entry k and -1 elsewhere, ||U||^2 = 9.
    Sweep(
        "future",
        "bandit",
        SEPARABLE + NOISY,
        _projected("expectation", ("perceptrons-first:budget=9", RADIUS), ("gapsmh", RADIUS)),
    ),
)
"""The paper's remarks on other norms and on dynamic regret, and the question in its section on future work."""

COMPARED = ("bounds",)
"""The sweeps whose runs are compared with the best comparator in hindsight."""

# --------------------------------------------------------------------------------------------------- beyond the paper

OURS = (
    *(
        Sweep("ours", graph, cells, (Entrant("auto"),), repeats=3)
        for graph, cells in (("bandit", CELLS), ("filtering", CELLS), ("label-efficient", MIDDLE))
    ),
    # With full information it explores nothing, so it draws nothing.
    Sweep("ours", "full", CELLS, (Entrant("auto", draws=False),)),
)
"""The default learner on the data of the paper's figures."""

SWEEPS: tuple[Sweep, ...] = PAPER + BOUNDS + LOWER_BOUNDS + REMARKS + OURS
"""All experiments."""


class Figure(NamedTuple):
    """A figure of the report and the runs it shows: those of `sweeps`, with one of `tunings` where these are given.

    `paper` is the number of the corresponding figure of the paper. A figure `beyond` the paper is about a learner that
    is not in it, and has a section of its own in the report.
    """

    id: str
    title: str
    sweeps: tuple[str, ...]
    tunings: tuple[str, ...] | None = None
    paper: int | None = None
    beyond: bool = False


FIGURES: tuple[Figure, ...] = (
    Figure("bandit-intro", "Bandit graph, noisy labels, each learner with its better tuning", ("bandit",), paper=1),
    Figure("bandit-best", "Bandit graph, each learner with its better tuning", ("bandit",), paper=2),
    Figure("bandit-only-t", "Bandit graph, all parameters 1 except T", ("bandit",), ("only-t",), paper=3),
    Figure("bandit-theory", "Bandit graph, tuned by theory", ("bandit",), ("theory",), paper=4),
    Figure("filtering-best", "Multiclass filtering, each learner with its better tuning", ("filtering",), paper=8),
    Figure("filtering-only-t", "Multiclass filtering, all parameters 1 except T", ("filtering",), ("only-t",), paper=5),
    Figure("filtering-theory", "Multiclass filtering, tuned by theory", ("filtering",), ("theory",), paper=6),
    Figure("full", "Full information", ("full",), paper=7),
    Figure("label-efficient", "Label efficient: mistakes and queries", ("label-efficient",)),
    Figure(
        "exploration",
        "Exploration: top-up compared with Algorithm 1 (paper)",
        ("exploration", "filtering", "label-efficient"),
        ("only-t",),
    ),
    Figure("bounds", "Mistakes and the bounds of the theorems", ("bounds",)),
    Figure("lower-filtering", "The lower bound for filtering", ("lower-filtering",)),
    Figure("lower-full", "The lower bound for full information", ("lower-full",)),
    Figure("lower-classes", "The lower bound for full information: a line in K", ("lower-classes",)),
    Figure("lower-both", "Both lower bounds on one filtering graph", ("lower-both",)),
    Figure("norms", "Another norm: exponentiated gradient on dense rows", ("norms",)),
    Figure("drift", "Dynamic regret: classes that change", ("drift",)),
    Figure("future", "Bandit feedback on data that may be separable", ("future",)),
    Figure(
        "ours",
        "The default learner beside the best of the paper's learners",
        ("ours", "bandit", "filtering", "label-efficient", "full"),
        beyond=True,
    ),
)
"""All figures, in the order of the report."""


def selected(wanted: Iterable[str] = (), rounds: int = ROUNDS, repeats: int | None = None) -> list[Task]:
    """The runs of these figures or sweeps (ids), of all if none is given; each run once, sorted by id.

    >>> len(selected(["full"], repeats=1)), len(selected(["bandit-theory", "bandit-intro"], repeats=1))
    (162, 378)
    """
    ids = list(wanted)
    known = list(dict.fromkeys([*(sweep.id for sweep in SWEEPS), *(figure.id for figure in FIGURES)]))
    for name in ids:
        if name not in known:
            raise unknown(name, "figure", known)
    drawn = [figure for figure in FIGURES if not ids or figure.id in ids]
    drawn += [Figure(name, "", (name,)) for name in ids]
    found = {
        task.id: task
        for sweep in SWEEPS
        if any(sweep.id in figure.sweeps for figure in drawn)
        for task in tasks(sweep, rounds, repeats)
        if any(draws(figure, task) for figure in drawn)
    }
    return [found[key] for key in sorted(found)]


def draws(figure: Figure, task: Task) -> bool:
    """Whether a figure shows this run."""
    return task.sweep in figure.sweeps and (figure.tunings is None or task.tuning in figure.tunings)


def left_out(wanted: Iterable[str], present: Iterable[str]) -> list[str]:
    """The requested figures (all if none is given) that have no runs at this T.

    >>> left_out(["full", "lower-full"], ["full"])
    ['lower-full']
    """
    ids = set(wanted)
    asked = [figure.id for figure in FIGURES if not ids or figure.id in ids or ids & set(figure.sweeps)]
    drawn = {figure.id for figure in drawable(wanted, present)}
    return [name for name in asked if name not in drawn and (not ids or name in ids)]


def drawable(wanted: Iterable[str], present: Iterable[str]) -> list[Figure]:
    """The requested figures (all if none is given) whose sweeps are all present.

    >>> [figure.id for figure in drawable(["filtering"], ["filtering"])]
    ['filtering-best', 'filtering-only-t', 'filtering-theory']
    """
    ids, there = set(wanted), set(present)
    return [
        figure
        for figure in FIGURES
        if there.issuperset(figure.sweeps) and (not ids or figure.id in ids or ids & set(figure.sweeps))
    ]
