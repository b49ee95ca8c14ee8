"""Why a model decides as it does: what each part of a row adds to the score of the decided class against the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gappletron.base import tables
from gappletron.base.checks import Label
from gappletron.base.text import make_printable
from gappletron.data.records.naming import FeatureName
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.numerics import rival
from gappletron.kernel.types import Vector
from gappletron.learners.score_parts import COSTS, GIVEN, GUARD, LIMITS
from gappletron.play.explaining import Explained

BIAS = "bias"
# What the other parts are, for people who have not read the page.
MEANINGS = {
    BIAS: "the same for every row",
    GUARD: "what the guard has learned itself",
    GIVEN: "the scores that came with the row",
    LIMITS: "scores are cut to [-1, 1]",
    COSTS: "what mistakes cost",
}
# So many parts of a row are printed; the others are added up.
SHOWN = 20


@dataclass(frozen=True)
class Contribution:
    """What one column, word or category of a row adds to the score of the decided class against the next.

    :param name: ``links`` for a number, ``country = DE`` for a category, ``message: prize`` for a word; of a vector
        ``feature 7``.
    :param value: the number; how often the word occurs; 1 for a category.
    :param added: what it adds; below 0 it speaks for the next class.

    >>> Contribution("message: prize", 1.0, 0.25).added
    0.25
    """

    name: str
    value: float
    added: float


@dataclass(frozen=True)
class Explanation:
    """Why a model decides as it does, as :meth:`gappletron.Online.explain` returns it; prints as a table.

    :param label: the class that is decided without exploration.
    :param against: the class that would be next, by its score.
    :param difference: the score of `label` minus that of `against`. The parts and the others add up to it.
    :param parts: what each column, word and category adds to the difference, the largest first.
    :param others: what else does, by name: ``bias``, ``guard`` (what the guard has learned beside its scorer), ``your
        scores``, ``limits`` (scores are cut to [-1, 1]) and ``costs``.
    :param probabilities: of every action, if the row came next.
    :param chances: of every label, as the model estimates them.

    >>> from gappletron import Encoder, FeedbackGraph, Online
    >>> model = Online(graph=FeedbackGraph.filtering(["ham", "spam"]), encoder=Encoder(text="message"))
    >>> for message, label in [("win a prize", "spam"), ("see you at five", "ham")] * 20:
    ...     model.teach({"message": message}, label)
    >>> why = model.explain({"message": "win at five"})
    >>> why.label, why.against, [part.name for part in why.parts if part.added < 0]
    ('ham', 'spam', ['message: win'])
    >>> abs(sum(part.added for part in why.parts) + sum(why.others.values()) - why.difference) < 1e-12
    True
    """

    label: Label
    against: Label
    difference: float
    parts: tuple[Contribution, ...]
    others: dict[str, float]
    probabilities: dict[Label, float]
    chances: dict[Label, float]

    @property
    def probability(self) -> float:
        """The probability that the decided class is the action."""
        return self.probabilities[self.label]

    @property
    def exploration(self) -> float:
        """The probability that another action is taken, to learn from what it shows."""
        return sum(chance for action, chance in self.probabilities.items() if action != self.label)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "class": self.label,
            "against": self.against,
            "difference": self.difference,
            "probability": self.probability,
            "exploration": self.exploration,
            "parts": [vars(part) for part in self.parts],
            "others": dict(self.others),
            "actions": list(self.probabilities),
            "action_probabilities": list(self.probabilities.values()),
            "classes": list(self.chances),
            "probabilities": list(self.chances.values()),
        }

    def rows(self, most: int = SHOWN) -> list[tuple[str, str, str]]:
        """Return the cells of the table: at most so many parts, the sum of the other ones, and what else there is."""
        found = [(part.name, f"{part.value:.6g}", _sign(part.added)) for part in self.parts[:most]]
        rest = self.parts[most:]
        if rest:
            found.append((f"{len(rest):,} others", "", _sign(sum(part.added for part in rest))))
        found += [(f"{name} ({MEANINGS[name]})", "", _sign(added)) for name, added in self.others.items() if added]
        return [*found, ("sum", "", _sign(self.difference))]

    @property
    def headline(self) -> str:
        """What was decided, in one sentence."""
        return (
            f"{self.label}, not {self.against}: decided with probability {self.probability:.3g} (exploration takes "
            f"{self.exploration:.3g}); right with probability {self.chances[self.label]:.3g} by the model's estimate"
        )

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int | None = None, most: int = SHOWN) -> str:
        """Return the explanation as a table of at most so many parts; lines have at most so many characters."""
        rows = [(make_printable(name), *cells) for name, *cells in self.rows(most)]
        return "\n".join([tables.wrap(make_printable(self.headline), width), *tables.align(HEADER, rows, width)])

    def _repr_html_(self) -> str:
        return tables.make_html(HEADER, self.rows(), self.headline)


HEADER = ("part", "value", "added")


def _sign(added: float) -> str:
    return f"{added:+.4f}"


def make_explanation(
    found: Explained, vector: Vector, names: dict[int, FeatureName], graph: FeedbackGraph, bias: bool
) -> Explanation:
    """Return the explanation of a checked vector in words; `names` are those of its features, none for a vector."""
    label = found.greedy
    against = rival(found.scores, label)
    entries, others = found.parts
    added = entries[:, label] - entries[:, against]
    parts = []
    for feature, value, part in zip(vector.indices.tolist(), vector.values.tolist(), added[int(bias) :], strict=True):
        name = names.get(feature, FeatureName(f"feature {feature}", is_number=True))
        # A word or a category has a sign from its hash, which says nothing.
        parts.append(Contribution(name.text, value if name.is_number else abs(value), float(part)))
    named = {BIAS: float(added[0])} if bias else {}
    named |= {name: float(each[label] - each[against]) for name, each in others.items()}
    return Explanation(
        graph.classes[label],
        graph.classes[against],
        float(found.scores[label] - found.scores[against]),
        tuple(sorted(parts, key=lambda part: -abs(part.added))),
        named,
        dict(zip(graph.actions, found.probabilities.tolist(), strict=True)),
        dict(zip(graph.classes, found.chances.tolist(), strict=True)),
    )
