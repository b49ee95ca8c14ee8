"""The label, the colour and the marker of every learner, in figures and tables."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple
from zlib import crc32

from gappletron.base.colours import COLOURS
from gappletron.learners.registry import names

Line = Literal["-", "--", "-.", ":"]
# One of matplotlib's markers; a tuple is the number of corners, 0 for a polygon or 1 for a star, and an angle.
Marker = str | tuple[int, Literal[0, 1], int]


class Style(NamedTuple):
    """The style of a learner in every figure: its label (the paper's name for it), colour, marker and line."""

    label: str
    colour: str
    marker: Marker
    line: Line = "-"

    @property
    def look(self) -> dict[str, Any]:
        """The arguments of matplotlib for a line with markers."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line, "label": self.label}


BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, OLIVE = COLOURS
# Also for everything that does not belong to a learner.
GREY = "#777777"

# The learners of the sweeps, in the order of the legends. :func:`find_style` gives other learners a style.
STYLES: dict[str, Style] = {
    "auto": Style("auto", "#882255", (4, 1, 0)),
    "gaplog": Style("GapLog", GREEN, "^"),
    "gaphin": Style("GapHin", VERMILION, "s"),
    "gapsmh": Style("GapSmH", BLUE, "o"),
    "gaplog2": Style("GapLog2", SKY, "v"),
    "decoded-logistic": Style("decoded logistic", "#005f73", (8, 0, 0)),
    "pnewtron": Style("PNewtron", ORANGE, "D"),
    "soba-diag": Style("SOBAdiag", BLACK, "X"),
    "banditron-iw": Style("Banditron", PURPLE, "P"),
    # Lightly, since the paper's figures do not have it.
    "banditron": Style("standard Banditron", "#d9b8cc", "H"),
    # A Gaptron has the colour of the Gappletron with the same loss, and another line.
    "gaptron-log": Style("Gaptron (logistic)", GREEN, "1", "--"),
    "gaptron-hin": Style("Gaptron (hinge)", VERMILION, "2", "--"),
    "gaptron-smh": Style("Gaptron (smooth hinge)", BLUE, "3", "--"),
    "second-order-perceptron-diag": Style("soPerceptron", ORANGE, "<"),
    "second-order-perceptron": Style("soPerceptron (full)", SKY, "+", ":"),
    "perceptron": Style("Perceptron", BLACK, "*"),
    "passive-aggressive": Style("PA", PURPLE, ">"),
    "arow": Style("AROW", GREY, "h", "-."),
    "label-efficient-perceptron": Style("label-efficient Perceptron", BLACK, "d"),
    "exp3-g": Style("Exp3.G", OLIVE, "p", ":"),
    "perceptrons-first": Style("Perceptrons first", VERMILION, "H"),
}

OTHER_COLOURS = ("#661100", "#332288", "#44AA99", "#DDCC77", "#AA4499", "#117733", "#88CCEE", "#CC6677")
OTHER_MARKERS: tuple[Marker, ...] = ((7, 1, 0), (6, 1, 0), (5, 1, 36), (4, 1, 45), (5, 0, 180), (8, 1, 0), (7, 0, 0))
# For learners that are not in STYLES: a brown and Paul Tol's muted palette, and markers that STYLES does not use.
OTHER_LINES: tuple[Line, ...] = ("--", "-.", ":")


def label_learner(learner: str) -> str:
    """Return the label of a learner in figures and tables, with its numbers.

    >>> label_learner("soba-diag"), label_learner("label-efficient-perceptron:b=0.1")
    ('SOBAdiag', 'label-efficient Perceptron (b=0.1)')
    """
    _, colon, numbers = learner.partition(":")
    return find_style(learner).label + (f" ({numbers})" if colon else "")


def find_style(learner: str) -> Style:
    """Return the style of a learner; the numbers in its name do not matter.

    A learner that is not in :data:`STYLES` is labelled with its name. Its colour, marker and line follow from its place
    among the other registered learners (from its name if it is not registered), so that no two of them look the same.

    >>> find_style("label-efficient-perceptron:b=0.1").label
    'label-efficient Perceptron'
    >>> find_style("soba").label
    'soba'
    """
    name = learner.partition(":")[0]
    if name in STYLES:
        return STYLES[name]
    others = [other for other in names() if other not in STYLES]
    place = others.index(name) if name in others else crc32(name.encode())
    colour, marker, line = (some[place % len(some)] for some in (OTHER_COLOURS, OTHER_MARKERS, OTHER_LINES))
    return Style(name, colour, marker, line)  # type: ignore[arg-type]


def sort_learners(learners: Iterable[str]) -> list[str]:
    """Return learners in the order of the legends: those of :data:`STYLES`, others in the order of registration.

    Those that differ only in their numbers stay in the order given.

    >>> sort_learners(["soba", "perceptron", "arow", "gaplog"])
    ['gaplog', 'perceptron', 'arow', 'soba']
    """
    rank = {name: place for place, name in enumerate(dict.fromkeys([*STYLES, *names()]))}
    return sorted(dict.fromkeys(learners), key=lambda learner: rank.get(learner.partition(":")[0], len(rank)))


def read_scale(learner: str) -> float:
    """Return the number b of a label-efficient Perceptron.

    >>> read_scale("label-efficient-perceptron:b=0.1")
    0.1
    """
    return float(learner.partition(":b=")[2])
