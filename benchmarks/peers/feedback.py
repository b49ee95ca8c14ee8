"""What a player sees of the label, for the four graphs that are compared."""

from __future__ import annotations

from typing import NamedTuple

GRAPHS = ("full", "filtering", "label-efficient", "bandit")


class Feedback(NamedTuple):
    """A graph over classes 0, ..., K - 1. The action K, if there is one, asks for the label and is always a mistake.

    >>> Feedback("label-efficient", 3, 0).shows(3, label=1), Feedback("filtering", 3, 2).shows(0, label=0)
    (True, False)
    """

    graph: str
    """One of GRAPHS."""
    classes: int
    """K."""
    revealing: int
    """The class whose prediction shows the label, where the graph is filtering."""

    @property
    def actions(self) -> int:
        """The number of actions: K, and one more where there is a query."""
        return self.classes + (self.graph == "label-efficient")

    @property
    def looking(self) -> int | None:
        """The action that always shows the label, where exactly one does."""
        return {"filtering": self.revealing, "label-efficient": self.classes}.get(self.graph)

    @property
    def first_guess(self) -> int:
        """What a model says that knows no class yet: the class that reveals, else the first."""
        return self.revealing if self.graph == "filtering" else 0

    def shows(self, action: int, label: int) -> bool:
        """Whether the label is seen after this action. On the bandit graph that is: whether the action was right."""
        if self.graph == "full":
            return True
        if self.graph == "bandit":
            return action == label
        return action == self.looking
