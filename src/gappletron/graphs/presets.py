"""The graphs that have a name: one entry each, which Python, the command line and the guide read.

A new preset is one entry here, and a method of :class:`gappletron.FeedbackGraph` if it is to have one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Preset:
    """A graph by name, for any classes.

    :param name: in texts.
    :param action: what the action of a class reveals; "others" are all classes but its own.
    :param reveals: what playing an action reveals, in words.
    :param example: where such feedback occurs.
    :param by_class: some classes, named by the parameter `revealing`, reveal every label; by default the first.
    :param query: an extra action reveals every label.
    :param n_classes: the number of classes, where it is fixed.
    """

    name: str
    action: Literal["nothing", "itself", "others", "everything"]
    reveals: str
    example: str
    by_class: bool = False
    query: bool = False
    n_classes: int | None = None


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("bandit", "itself", "a class: whether it was correct", "recommendations, adverts"),
        Preset("full", "everything", "any class: the label", "ordinary online classification"),
        Preset(
            "filtering",
            "nothing",
            "the revealing class (the first, or those you name): the label; the others: nothing",
            "routing mail, where only the inbox is read",
            by_class=True,
        ),
        Preset(
            "label-efficient",
            "nothing",
            'a class: nothing; the extra action `"query"`: the label',
            "labels that cost something",
            query=True,
        ),
        Preset(
            "apple-tasting",
            "nothing",
            'one of two classes (`"ham"` of `"ham"` and `"spam"`): the label; the other: nothing',
            "spam filters, credit, inspection",
            by_class=True,
            n_classes=2,
        ),
        Preset(
            "disease-prevention",
            "others",
            "a class: all the other classes",
            "interventions that hide their own effect",
        ),
    )
}
