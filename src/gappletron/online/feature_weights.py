"""What a model has learned, by name: the columns, categories and words with the largest weights for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gappletron.base import tables
from gappletron.base.checks import Label
from gappletron.base.text import make_printable
from gappletron.data.records.kept_names import KeptNames
from gappletron.play.player import Player

HEADER = ("name", "value", "weight")


@dataclass(frozen=True)
class FeatureWeight:
    """What one column, category or word adds to the score of a class, in a record that holds nothing else.

    :param name: ``links`` for a number, ``country = DE`` for a category, ``message: prize`` for a word.
    :param value: the number that is weighed; 1 for a category and a word.
    :param weight: what it adds; below 0 it speaks against the class.

    >>> FeatureWeight("message: prize", 1.0, 0.25).weight
    0.25
    """

    name: str
    value: float
    weight: float


@dataclass(frozen=True)
class FeatureWeights:
    """The largest weights of a model, as :meth:`gappletron.Online.feature_weights` returns them; prints as tables.

    :param largest: of each class, the largest by size first.
    :param named: how many names the model keeps.
    :param unnamed: how many features have weights and no name: they came when the table was full, or as vectors.

    >>> from gappletron import Encoder, FeedbackGraph, Online
    >>> encoder = Encoder(text="message", names=True)
    >>> model = Online(graph=FeedbackGraph.filtering(["ham", "spam"]), encoder=encoder)
    >>> for message, label in [("win a prize", "spam"), ("see a friend", "ham")] * 20:
    ...     model.teach({"message": message}, label)
    >>> weights = model.feature_weights()
    >>> sorted(each.name for each in weights.largest["spam"] if each.weight > 0.1)
    ['message: prize', 'message: win']
    """

    largest: dict[Label, tuple[FeatureWeight, ...]]
    named: int
    unnamed: int

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        classes = [
            {"class": label, "weights": [vars(each) for each in weights]} for label, weights in self.largest.items()
        ]
        return {"classes": classes, "named": self.named, "unnamed": self.unnamed}

    @property
    def note(self) -> str:
        """How many features have a name, in one sentence."""
        without = f"; {self.unnamed:,} features have none" if self.unnamed else ""
        return f"{self.named:,} names are kept{without}"

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int | None = None) -> str:
        """Return a table for each class; lines have at most so many characters."""
        lines: list[str] = []
        for label in self.largest:
            rows = [(make_printable(name), *cells) for name, *cells in self._rows(label)]
            title = make_printable(f"largest weights for {label}")
            lines += [tables.wrap(title, width), *tables.align(HEADER, rows, width), ""]
        return "\n".join([*lines, tables.wrap(self.note, width)])

    def _repr_html_(self) -> str:
        found = [tables.make_html(HEADER, self._rows(label), f"largest weights for {label}") for label in self.largest]
        return "".join([*found, f"<p>{self.note}</p>"])

    def _rows(self, label: Label) -> list[tuple[str, str, str]]:
        return [(each.name, f"{each.value:.6g}", f"{each.weight:+.4f}") for each in self.largest[label]]


def make_feature_weights(player: Player, names: KeptNames, top: int) -> FeatureWeights:
    """Return the largest weights of each class, by these names."""
    kept = list(names)
    features = np.array([name.feature for name in kept], np.int64)
    values, weights = player.weigh(features, np.array([name.sign for name in kept], np.float64))
    largest = {}
    for position, label in enumerate(player.graph.classes):
        order = np.argsort(-np.abs(weights[:, position]), kind="stable")[:top]
        found = [(kept[place], float(values[place]), float(weights[place, position])) for place in order]
        # The sign of a category or a word comes from its hash, and says nothing.
        largest[label] = tuple(
            FeatureWeight(name.text, value if name.is_number else 1.0, weight) for name, value, weight in found
        )
    unnamed = np.setdiff1d(player.feature_indices, features).size
    return FeatureWeights(largest, len(kept), int(unnamed))
