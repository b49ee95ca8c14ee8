"""Writes the tables of docs/learners.md that follow from the code. Run it as `python docs/learners.py`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import NamedTuple

import gappletron
from gappletron import named, names

PAGE = Path(__file__).with_name("learners.md")
BEGIN, END = "<!-- begin of the table made by `python docs/learners.py` -->\n", "<!-- end of the table -->\n"

CITED_BEGIN = "<!-- begin of the cited methods, made by `python docs/learners.py` -->\n"
CITED_END = "<!-- end of the cited methods -->\n"

NO_FEATURES = "not built: it has no features; `exp3-g` is here as the method of this kind"
OTHER_SETTING = "not built: another setting, without features"


class Cited(NamedTuple):
    """A method that the paper cites: what is built of it (learners and components by name), and a remark."""

    method: str
    reference: str
    built: tuple[str, ...] = ()
    remark: str = ""


CITED = (
    Cited("Gaptron", "van der Hoeven 2020", ("gaptron-log", "gaptron-hin", "gaptron-smh")),
    Cited("Banditron", "Kakade et al. 2008", ("banditron", "banditron-iw")),
    Cited("Newtron, PNewtron", "Hazan, Kale 2011", ("newtron", "pnewtron")),
    Cited("SOBA, SOBAdiag", "Beygelzimer et al. 2017", ("soba", "soba-diag")),
    Cited(
        "Obama",
        "Foster et al. 2018",
        remark="not built: it samples W from continuous exponential weights over all matrices of a ball, in K d "
        "dimensions and in every round; the known samplers take a number of steps that is a large power of K d and T",
    ),
    Cited(
        "Aggregating algorithm for logistic regression",
        "Foster et al. 2018",
        remark="not built: the full-information version of Obama, with the same sampling",
    ),
    Cited(
        "bandit Perceptrons for separable data",
        "Beygelzimer et al. 2019",
        remark="its Perceptrons for strongly separable data are part of an experiment (below); its kernel for weakly "
        "separable data is not built, since its bound is exponential in the number of classes or in the margin",
    ),
    Cited("Perceptron", "Rosenblatt 1958, Novikov 1962; Crammer, Singer 2003", ("perceptron",)),
    Cited(
        "other multiclass Perceptrons",
        "Crammer, Singer 2003; Fink et al. 2006",
        remark="not built: they differ from `perceptron` in how an update is shared among the classes",
    ),
    Cited(
        "second-order Perceptron",
        "Cesa-Bianchi et al. 2005",
        ("second-order-perceptron", "second-order-perceptron-diag"),
    ),
    Cited("AROW", "Crammer et al. 2009", ("arow",)),
    Cited("passive-aggressive", "Crammer et al. 2006", ("passive-aggressive",)),
    Cited("label-efficient Perceptron", "Cesa-Bianchi et al. 2006", ("label-efficient-perceptron",)),
    Cited("Exp3.G", "Alon et al. 2015", ("exp3-g",)),
    Cited("ELP; Exp3-SET and Exp3-DOM", "Mannor, Shamir 2011; Alon et al. 2017", remark=NO_FEATURES),
    Cited(
        "graphs that change, are noisy or partly known",
        "Cohen et al. 2016, Kocak et al. 2016",
        remark=f"{NO_FEATURES}. A graph that changes and is known can be played by every learner",
    ),
    Cited("small losses", "Lykouris et al. 2018", remark=NO_FEATURES),
    Cited(
        "sleeping and switching experts, adaptive adversaries, auctions",
        "Cortes et al. 2019, Arora et al. 2019, Feng et al. 2018, Cesa-Bianchi et al. 2017, Han et al. 2020",
        remark=OTHER_SETTING,
    ),
    Cited(
        "Thompson sampling and UCB on graphs",
        "Tossou et al. 2017, Liu et al. 2018, Lykouris et al. 2020",
        remark=OTHER_SETTING,
    ),
    Cited(
        "apple tasting",
        "Helmbold et al. 2000",
        remark="not built: it needs a finite domain and labels y = f(x) with f in a known class. The graph is the "
        "preset `apple-tasting`",
    ),
    Cited(
        "partial monitoring",
        "Lattimore, Szepesvari 2018",
        remark="not built: a more general setting than feedback graphs, without features",
    ),
    Cited(
        "spam filters",
        "Cesa-Bianchi et al. 2003, Sculley, Brodley 2008",
        remark="not built: applications of Perceptrons and support vector machines",
    ),
    Cited("online gradient descent", "Zinkevich 2003", ("FixedOGD", "ProjectedOGD", "AdaptiveOGD")),
    Cited("scale-free FTRL", "Orabona, Pal 2018", ("ScaleFreeFTRL",)),
)


def cited() -> str:
    """A row for every method that the paper cites."""
    lines = ["| method | reference | here |", "|---|---|---|"]
    for row in CITED:
        for name in row.built:
            assert name in names() or hasattr(gappletron, name), f"{name} is not built"
        here = f"built: {', '.join(f'`{name}`' for name in row.built)}" if row.built else row.remark
        lines.append(f"| {row.method} | {row.reference} | {here} |")
    return "\n".join(lines) + "\n"


def table() -> str:
    """Every learner's name, feedback, parameters, summary, what happens to a new class, and reference."""
    lines = [
        "| name | feedback | parameters | what it is | a class added later starts with | reference |",
        "|---|---|---|---|---|---|",
    ]
    for name in names():
        learner = named(name)
        summary = (inspect.getdoc(type(learner)) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
        fields = learner._asdict().items()
        shown = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in fields]
        cells = [
            f"`{name}`",
            learner.setting,
            f"`{', '.join(shown) or 'none'}`",
            summary,
            learner.new_class,
            learner.reference,
        ]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page, with the tables of today."""
    text = PAGE.read_text(encoding="utf-8")
    for begin, end, made in ((BEGIN, END, table()), (CITED_BEGIN, CITED_END, cited())):
        text = re.sub(
            f"{re.escape(begin)}.*{re.escape(end)}",
            lambda _, whole=begin + made + end: whole,
            text,
            flags=re.DOTALL,
        )
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
