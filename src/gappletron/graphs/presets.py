"""The graphs that have a name: one entry each, which Python and the command line read.

A new preset is one entry here, and a method of :class:`gappletron.FeedbackGraph` if it is to have one.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A graph by name, for any classes.

    :param name: in texts.
    :param itself: the action of a class reveals whether the label is that class.
    :param others: the action of a class reveals whether the label is any of the others.
    :param by_class: some classes, named by the parameter `revealing`, reveal every label; by default the first.
    :param query: an extra action reveals every label.
    :param n_classes: the number of classes, where it is fixed.
    """

    name: str
    itself: bool = False
    others: bool = False
    by_class: bool = False
    query: bool = False
    n_classes: int | None = None


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("bandit", itself=True),
        Preset("full", itself=True, others=True),
        Preset("filtering", by_class=True),
        Preset("label-efficient", query=True),
        Preset("apple-tasting", by_class=True, n_classes=2),
        Preset("disease-prevention", others=True),
    )
}
