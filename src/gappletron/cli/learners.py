"""``gappletron learners``: list the learners."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import gappletron as gp
from gappletron.base.tables import find_width
from gappletron.cli.help import write_list
from gappletron.cli.options import read_preset
from gappletron.cli.output import say

EXAMPLES = """\
gappletron learners
gappletron learners one-against-all
gappletron learners --graph bandit"""

# What each is for.
PURPOSES = {
    "auto": "the default: any graph and any costs; follows a world that changes; explores no more than it must",
    "one-against-all": "the default's main part on its own: any graph and any costs, quicker, no guarantee",
    "partial-likelihood": "as one-against-all, where probabilities of the labels matter most",
    "squarecb-g": "as one-against-all, with squared errors and the exploration of SquareCB",
    "gapsmh": "the paper's Algorithm 1 with the smooth hinge: any graph, a theorem for its mistakes",
    "gaphin": "the paper's Algorithm 1 with the hinge",
    "gaplog": "the paper's Algorithm 1 with the logistic loss in base K",
    "gaplog2": "the paper's Algorithm 1 with the logistic loss in base 2",
    "decoded-logistic": "logistic regression whose guesses are drawn at random: a bound without the number of classes",
    "banditron": "the classical method for bandit feedback; to compare with",
    "banditron-iw": "Banditron with importance weights, as in the paper's figures: any graph; to compare with",
    "pnewtron": "a diagonal second-order method for bandit feedback; to compare with",
    "newtron": "a full second-order method for bandit feedback, for few features; to compare with",
    "soba-diag": "a diagonal second-order perceptron for bandit feedback; to compare with",
    "soba": "a full second-order perceptron for bandit feedback, for few features; to compare with",
    "gaptron-log": "the paper's predecessor with the logistic loss, for bandit or full information",
    "gaptron-hin": "the paper's predecessor with the hinge, for bandit or full information",
    "gaptron-smh": "the paper's predecessor with the smooth hinge, for bandit or full information",
    "perceptron": "the simplest method where every label is seen",
    "passive-aggressive": "larger steps for larger errors, where every label is seen",
    "label-efficient-perceptron": "asks for the label where it is unsure: needs a query",
    "second-order-perceptron-diag": "a diagonal second-order perceptron where every label is seen",
    "second-order-perceptron": "a full second-order perceptron where every label is seen, for few features",
    "arow": "keeps how certain each weight is, where every label is seen",
    "exp3-g": "ignores the features: what any learner that looks at them must beat",
}


def learners(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Describe this learner in full.")] = None,
    graph: Annotated[
        str | None, typer.Option(metavar="GRAPH", help="Only those that can play this graph, such as bandit.")
    ] = None,
) -> None:
    """List the learners: what each is for; with a name, its parameters and its reference."""
    if name is not None:
        describe(gp.named(name))
        return
    shown = gp.names(None if graph is None else read_preset(graph))
    rows = [(each, PURPOSES.get(each, gp.named(each).setting)) for each in shown]
    say("\n".join(write_list(rows, find_width(sys.stdout) or 1000, max(map(len, shown)) + 2)))


def describe(learner: gp.Learner) -> None:
    """Print all of one learner."""
    fields = learner._asdict().items()
    shown = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in fields]
    facts = [
        ("purpose", PURPOSES.get(learner.name, learner.setting)),
        ("feedback", learner.setting),
        ("parameters", ", ".join(shown) or "none"),
        ("reference", learner.reference),
    ]
    say("\n".join([learner.name, *write_list(facts, find_width(sys.stdout) or 1000)]))
