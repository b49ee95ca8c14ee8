"""All experiments as data: which learners play which streams on which graph, and how often.

A :class:`Sweep` is a grid of runs; :func:`list_tasks` lists them. Each is a :class:`~gappletron.paper.results.Task`,
with the pieces that it is played with and an id that does not change between versions. Nothing is run here. The
experiments are those of section 5 and of the appendix "Experiments" of the paper. What the paper does not specify is
chosen here or in the tunings of the learners, and the report lists these choices.
"""

import functools
import math
import re
from typing import NamedTuple, Self

from gappletron.base.checks import whole
from gappletron.base.text import to_kebab_case
from gappletron.data.adversarial import FreshFeatures, FreshThenSegments, Segments
from gappletron.data.stream import Stream
from gappletron.data.synthetic import Synthetic, UnitVectors
from gappletron.graphs.open import open_graph
from gappletron.kernel.pieces import Piece
from gappletron.learners.exploration.rules import Exploration, Paper, TopUp
from gappletron.learners.gappletron import Gappletron
from gappletron.learners.learner import Learner
from gappletron.learners.optimizers import AdaptiveOGD, FixedOGD, Optimizer, ProjectedOGD
from gappletron.learners.registry import named
from gappletron.paper.remarks import ExponentiatedGradient, PerceptronsFirst, Signs, Turning
from gappletron.paper.results import Cell, Setup, Task
from gappletron.paper.tuning import tuned

# The default T; the paper does not give one.
ROUNDS = 100_000

_open_graph = functools.lru_cache(maxsize=64)(open_graph)


# ------------------------------------------------------------------------------------------------------------- the data


class Units(NamedTuple):
    """One unit vector per class, with label noise: a stream on which the bounds are below T."""

    classes: int
    noise: float


class Blind(NamedTuple):
    """The adversary of Theorem "apple lower bound" with 2R segments, without or with a turned segment.

    The segment is the one in which the learner plays the revealing class least often, averaged over the repeats of the
    sweep. So the stream depends on the learner and on the number of repeats.
    """

    root: int
    turned: bool


class Fresh(NamedTuple):
    """The adversary of Theorem "full info lower bound": (B^2 - 1) K^2 fresh features, new labels in every repeat.

    If `short`, the last label stays for as many rounds as there were before, not up to T.
    """

    classes: int
    radius: int
    short: bool = False


class Both(NamedTuple):
    """The adversary of Corollary "lower" on one filtering graph: fresh features, then 2R segments."""

    classes: int
    radius: int
    root: int
    turned: bool


class Dense(NamedTuple):
    """Dense rows of signs, of which the first K matter: for the remark on other norms."""

    classes: int
    features: int


class Changing(NamedTuple):
    """Unit vectors that change their classes so many times: for the remark on dynamic regret."""

    classes: int
    turns: int


Data = Cell | Units | Blind | Fresh | Both | Dense | Changing


@functools.lru_cache(maxsize=1024, typed=True)  # typed: kinds of data may have the same numbers
def make_stream(data: Data, most: int, seed: int = 0) -> Stream | None:
    """Return the stream of a data set with at most so many rounds; None where these are too few.

    >>> make_stream(Cell(9, 120, 0.05), 100), make_stream(Blind(10, turned=False), 100)
    (<Synthetic 'synthetic:K=9,d=120,noise=0.05,T=100,seed=0'>, None)
    """
    stream: Stream
    match data:
        case Cell():
            return Synthetic(data.classes, data.features, data.noise, most, seed)
        case Units():
            return UnitVectors(data.classes, data.noise, most, seed)
        case Dense():
            return Signs(data.classes, data.features, min(most, 5000), seed)
        case Changing():
            return Turning(data.classes, data.turns, min(most, 20_000), seed) if most > data.turns else None
        case Fresh():
            last = (data.radius**2 - 1) * data.classes**2 + 1
            rounds = 2 * last if data.short else most
            return FreshFeatures(data.classes, data.radius, rounds, seed) if last <= rounds <= most else None
        case Blind():
            stream = Segments(data.root)
        case Both():
            stream = FreshThenSegments(data.classes, data.radius, data.root, seed=seed)
    assert stream.rounds is not None
    return stream if stream.rounds <= most else None


# ----------------------------------------------------------------------------------------------------------- the sweeps


class Entrant(NamedTuple):
    """A learner in a sweep: its name in figures and tables, the learner before it is tuned, and its tuning.

    A deterministic learner (`draws` is False) plays the same data only once.

    >>> Entrant.make("gapsmh", "only-t", exploration=Paper()).learner.exploration
    Paper(gamma=1.0)
    """

    name: str
    learner: Learner
    tuning: str = ""
    draws: bool = True

    @classmethod
    def make(cls, name: str, tuning: str = "", *, draws: bool = True, **pieces: Exploration | Optimizer) -> Self:
        """Return the registered learner of this name, with other pieces in place of its own."""
        return cls(name, named(name).replace(**pieces), tuning, draws)


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


def list_tasks(sweep: Sweep, rounds: int = ROUNDS, repeats: int | None = None) -> list[Task]:
    """List the runs of a sweep with at most `rounds` rounds: each entrant `repeats` times, or once if it draws nothing.

    >>> sum(len(list_tasks(sweep)) for sweep in SWEEPS if sweep.id in ("bandit", "filtering", "full"))
    6831
    """
    whole(rounds, "rounds", least=1)
    wanted = sweep.repeats if repeats is None else whole(repeats, "repeats", least=1, most=100_000)
    found = []
    for data in sweep.data:
        # With new labels in every repeat, the runs of a deterministic learner differ too.
        is_fresh = isinstance(data, Fresh | Both)
        streams = [make_stream(data, rounds, repeat if is_fresh else 0) for repeat in range(wanted)]
        for entrant in sweep.entrants:
            times = wanted if entrant.draws or is_fresh else 1
            probes = times if isinstance(data, Blind | Both) and data.turned else None
            found += [
                make_task(sweep, entrant, stream, repeat, probes)
                for repeat, stream in enumerate(streams[:times])
                if stream is not None
            ]
    return found


def make_task(sweep: Sweep, entrant: Entrant, stream: Stream, repeat: int, probes: int | None = None) -> Task:
    """Return one run of a sweep; `probes` is the number of runs that decide which segment of the stream is turned."""
    classes = len(stream.classes)
    exploration, optimizer = _spell_pieces(entrant.learner)
    text = stream.name if probes is None else f"{stream.name},turned=quietest,repeats={probes}"
    data_id = re.sub(r",(seed|repeats)=\d+", "", text).removeprefix("synthetic:")
    entrant_id = ",".join(part for part in (entrant.name, entrant.tuning, exploration, optimizer) if part)
    return Task(
        id=f"{sweep.id}/{sweep.graph}/{data_id}/{entrant_id}/{repeat:02d}",
        sweep=sweep.id,
        graph=sweep.graph,
        exploration=exploration,
        learner=entrant.name,
        tuning=entrant.tuning,
        optimizer=optimizer,
        classes=classes,
        features=stream.features,
        noise=getattr(stream, "noise", 0.0),
        rounds=stream.rounds or 0,
        stream=text,
        repeat=repeat,
        seed=0,
        setup=Setup(entrant.learner, _open_graph(sweep.graph, classes), stream, entrant.tuning, probes),
    )


@functools.lru_cache(maxsize=256)
def _spell_pieces(learner: Learner) -> tuple[str, str]:
    """Return the exploration rule and the optimizer of a Gappletron as text; an optimizer by default is left out."""
    gappletron = learner.then if isinstance(learner, PerceptronsFirst) else learner
    if not isinstance(gappletron, Gappletron):
        return "", ""
    optimizer = gappletron.optimizer
    return _spell(gappletron.exploration), "" if optimizer == AdaptiveOGD() else _spell(optimizer)


def _spell(piece: Piece) -> str:
    """Return a piece as text, with the numbers that differ from its defaults.

    >>> _spell(FixedOGD(rate=0.125, radius=2.0))
    'fixed-ogd:rate=0.125,radius=2'
    """
    default = type(piece)()
    given = [
        f"{key}={value:.15g}"
        for (key, value), own in zip(piece._asdict().items(), default, strict=True)
        if value != own
    ]
    return to_kebab_case(type(piece).__name__) + (":" + ",".join(given) if given else "")


# -------------------------------------------------------------------------------------------------- the paper's figures

CELLS = tuple(Cell(K, d, noise) for K in (6, 9, 12) for d in (80, 120, 160) for noise in (0.0, 0.05, 0.1))
MIDDLE = tuple(cell for cell in CELLS if cell.features == 120)

GAPS = ("gaplog", "gaphin", "gapsmh")
TUNINGS = ("theory", "only-t")


def _gaps(exploration: Exploration, *tunings: str) -> tuple[Entrant, ...]:
    return tuple(Entrant.make(name, tuning, exploration=exploration) for tuning in tunings for name in GAPS)


def _plain(*names: str, tunings: tuple[str, ...] = ("",), draws: bool = True) -> tuple[Entrant, ...]:
    return tuple(Entrant.make(name, tuning, draws=draws) for tuning in tunings for name in names)


# Values of b. The label-efficient Perceptron asks with probability b / (b + margin): from rarely to almost always.
QUERY_SCALES = (0.001, 0.003, 0.01, 0.03, 0.1, 1.0, 10.0, 100.0)

# The standard Banditron, the last, is not in the paper's figures, but in a remark of its text.
BASELINES = ("pnewtron", "soba-diag", "banditron-iw", "banditron")

DETERMINISTIC_BASELINES = ("second-order-perceptron-diag", "perceptron", "passive-aggressive")
QUERYING = tuple(f"label-efficient-perceptron:b={b:g}" for b in QUERY_SCALES)

PAPER = (
    Sweep("bandit", "bandit", CELLS, _gaps(Paper(), *TUNINGS) + _plain(*BASELINES, tunings=TUNINGS)),
    Sweep("filtering", "filtering", CELLS, _gaps(Paper(), *TUNINGS) + _plain("banditron-iw", tunings=TUNINGS)),
    # With full information there is nothing to explore, so there is one tuning.
    Sweep("full", "full", CELLS, _gaps(Paper(), "") + _plain(*DETERMINISTIC_BASELINES, draws=False)),
    Sweep("label-efficient", "label-efficient", MIDDLE, _gaps(Paper(), *TUNINGS) + _plain(*QUERYING)),
    # Not in the paper: the exploration rule top-up, compared with that of Algorithm 1.
    Sweep("exploration", "filtering", CELLS, _gaps(TopUp(), "only-t")),
    Sweep("exploration", "label-efficient", MIDDLE, _gaps(TopUp(), "only-t")),
)

# ------------------------------------------------------------------------------------------------ the theorems' figures

# Numbers in the names of runs are rounded, and the learners play with the rounded numbers.
RADIUS = round(math.sqrt(2.0), 6)  # norm of U = I - 11'/K, which separates three unit vectors with margin 1
WIDE = round(4.0 * math.sqrt(2.0), 6)  # norm of 4 U: the logistic loss needs larger scores


def _with_optimizer(optimizer: Optimizer, tuning: str, *names: str) -> tuple[Entrant, ...]:
    return tuple(Entrant.make(name, tuning, exploration=TopUp(), optimizer=optimizer) for name in names)


def _in_ball(tuning: str, *names: str) -> tuple[Entrant, ...]:
    return _with_optimizer(ProjectedOGD(RADIUS), tuning, *names)


def _in_wide_ball(tuning: str) -> tuple[Entrant, ...]:
    return _with_optimizer(ProjectedOGD(WIDE), tuning, "gaplog2", "gaplog")


def _make_decoded(graph: str) -> Entrant:
    """Return the learner without K, tuned for comparators in the wide ball, for which it needs not know T."""
    learner: Learner = tuned("decoded-logistic", "any-time", _open_graph(graph, 3), max_norm=1.0, radius=WIDE)
    return Entrant("decoded-logistic", learner)


NOISY, SEPARABLE = (Units(3, 0.05),), (Units(3, 0.0),)
PARTIAL = ("bandit", "filtering", "label-efficient")

# Repeats where a statement holds with probability 1 - delta: no failure in so many runs tells that delta < 0.015.
MANY = 200

BOUNDS = (
    *(
        Sweep("bounds", graph, NOISY, _in_ball("expectation", "gapsmh", "gaphin") + _in_wide_ball("expectation"))
        for graph in PARTIAL
    ),
    *(Sweep("bounds", graph, SEPARABLE, _in_ball("expectation-separable", "gapsmh", "gaphin")) for graph in PARTIAL),
    *(
        Sweep("bounds", graph, data, _in_ball(tuning, "gapsmh", "gaphin"), repeats=MANY)
        for graph in PARTIAL
        for data, tuning in ((NOISY, "high-probability"), (SEPARABLE, "high-probability-separable"))
    ),
    # Gradient descent with the rate 1/(2L), for a theorem about separable data: L = 4 for the smooth hinge.
    Sweep(
        "bounds", "full", NOISY + SEPARABLE, _in_wide_ball("") + _with_optimizer(FixedOGD(0.125, RADIUS), "", "gapsmh")
    ),
    Sweep("bounds", "full", NOISY + SEPARABLE, _in_ball("", "gapsmh", "gaphin"), repeats=MANY),
    *(Sweep("bounds", graph, NOISY + SEPARABLE, (_make_decoded(graph),)) for graph in (*PARTIAL, "full")),
)

# The sweeps whose runs are compared with the best comparator in hindsight.
COMPARED = ("bounds",)


def _on_fresh_features(radius: int, *more: Entrant) -> Sweep:
    """Return a sweep of all learners that can play full information.

    Gappletron's weights stay in the ball of the adversary's comparator, so that its theorem applies.
    """
    entrants = (
        *_with_optimizer(ProjectedOGD(radius), "", *GAPS, "gaplog2"),
        *_plain("gaptron-log", "gaptron-hin", "gaptron-smh", "banditron-iw", "exp3-g", tunings=("theory",)),
        *_plain("perceptron", "passive-aggressive", "second-order-perceptron-diag", "arow", draws=False),
        *more,
    )
    return Sweep("lower-full", "full", (Fresh(3, radius),), entrants, repeats=40)


LOWER_BOUNDS = (
    # The comparator in the proof has the norm sqrt 5.
    Sweep(
        "lower-filtering",
        "filtering:revealing=1",
        tuple(Blind(root, turned) for root in (5, 10, 22, 50, 100, 223, 500, 707) for turned in (False, True)),
        _with_optimizer(ProjectedOGD(round(math.sqrt(5.0), 6)), "expectation", *GAPS, "gaplog2")
        + _plain("banditron-iw", "exp3-g", tunings=("theory",)),
        repeats=20,
    ),
    # The full matrix of the second-order Perceptron has (Kd)^2 entries, so it plays only the smallest of the three.
    _on_fresh_features(2, *_plain("second-order-perceptron", draws=False)),
    _on_fresh_features(4),
    _on_fresh_features(8),
    Sweep(
        "lower-classes",
        "full",
        tuple(Fresh(K, 2, short=True) for K in (2, 3, 4, 6, 8, 10, 12)),
        _with_optimizer(ProjectedOGD(2), "", "gapsmh")
        + _plain("banditron-iw", tunings=("theory",))
        + _plain("perceptron", draws=False),
        repeats=40,
    ),
    # The comparator has the squared norm B^2 + 5 = 9.
    Sweep(
        "lower-both",
        "filtering:revealing=1",
        tuple(Both(4, 2, root, turned) for root in (5, 10, 22, 50, 100, 158) for turned in (False, True)),
        _with_optimizer(ProjectedOGD(3), "expectation", "gapsmh")
        + _plain("banditron-iw", "exp3-g", tunings=("theory",)),
        repeats=20,
    ),
)

HALF_ROOT = round(math.sqrt(3.0) / 2.0, 6)  # norm of the comparator on three signs, whose entries add up to 1.5

# The paper's remarks on other norms and on dynamic regret, and the question in its section on future work.
REMARKS = (
    *(
        Sweep(
            "norms",
            "full",
            (Dense(3, d),),
            _with_optimizer(ExponentiatedGradient(1.5, 3 * d), "", "gapsmh")
            + _with_optimizer(ProjectedOGD(HALF_ROOT), "", "gapsmh"),
        )
        for d in (10, 30, 100, 300)
    ),
    # The rate of the dynamic bound is 1/(K L) = 1/12.
    Sweep(
        "drift",
        "full",
        tuple(Changing(3, turns) for turns in (0, 1, 3, 10, 30, 100, 300)),
        _with_optimizer(FixedOGD(round(1.0 / 12.0, 8), RADIUS), "", "gapsmh") + _in_ball("", "gapsmh"),
    ),
    # Unit vectors are strongly separable: U^k with 1 at entry k and -1 elsewhere, ||U||^2 = 9.
    Sweep(
        "future",
        "bandit",
        SEPARABLE + NOISY,
        (
            Entrant(
                "perceptrons-first:budget=9",
                PerceptronsFirst(9.0, Gappletron(optimizer=ProjectedOGD(RADIUS))),
                "expectation",
            ),
            *_in_ball("expectation", "gapsmh"),
        ),
    ),
)

# --------------------------------------------------------------------------------------------------- beyond the paper

# The default learner on the data of the paper's figures.
OURS = (
    *(
        Sweep("ours", graph, cells, _plain("auto"), repeats=3)
        for graph, cells in (("bandit", CELLS), ("filtering", CELLS), ("label-efficient", MIDDLE))
    ),
    # With full information it explores nothing, so it draws nothing.
    Sweep("ours", "full", CELLS, _plain("auto", draws=False)),
)

# The learner whose bound has no K, which needs not know T, on data of the paper's figures.
DECODED = tuple(
    Sweep("decoded", graph, MIDDLE, _plain("decoded-logistic", tunings=("any-time",)), repeats=3)
    for graph in (*PARTIAL, "full")
)

# All experiments.
SWEEPS: tuple[Sweep, ...] = PAPER + BOUNDS + LOWER_BOUNDS + REMARKS + DECODED + OURS

# The learners that play the same data in the same way in every repeat.
DETERMINISTIC = frozenset(entrant.name for sweep in SWEEPS for entrant in sweep.entrants if not entrant.draws)
