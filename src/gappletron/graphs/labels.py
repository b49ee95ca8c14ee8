"""The names of classes and actions: checked, and found by name."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np

from gappletron.base.checks import Label, check_memory, label, labels, whole
from gappletron.base.errors import UserError
from gappletron.base.text import listing, unknown


class Positions:
    """Where each name stands in a list of names; the type counts, so True is not 1.

    >>> Positions(["cat", "dog"], "class").find("dog")
    1
    """

    def __init__(self, names: Sequence[Label], kind: str) -> None:
        self.names, self.kind = names, kind
        self.places = {(type(name), name): place for place, name in enumerate(names)}

    def find(self, name: Any, where: str = "") -> int:
        """Return the position of a name, or raise a UserError that may begin with where the name stands."""
        place = self.places.get((type(name), name)) if type(name) in (str, int) else None
        if place is None:  # not found at once: another type, or a name that there is not
            plain = check_label(name, f"{where}: {self.kind}" if where else self.kind)
            place = self.places.get((type(plain), plain))
            if place is None:
                # Not kept in a variable: a frame that holds its error waits for the garbage collector.
                if where:
                    raise unknown(plain, self.kind, self.names).at(where)
                raise unknown(plain, self.kind, self.names)
        return place

    def match(self, name: Label) -> int | None:
        """Return the position of a name, or of the only one with the same text, or None.

        >>> Positions([1, 2, "2"], "class").match("1"), Positions([1, 2, "2"], "class").match("2")
        (0, 2)
        """
        return self.places.get((type(name), name), self._by_text.get(str(name)))

    @cached_property
    def _by_text(self) -> dict[str, int]:
        counts = Counter(map(str, self.names))
        return {str(name): place for place, name in enumerate(self.names) if counts[str(name)] == 1}


def check_label(value: Any, name: str) -> Label:
    """Return a plain label that fits in a file."""
    plain = label(value, name)
    if type(plain) is int and not -(2**63) <= plain < 2**63:
        raise UserError(f"{name}: a whole number that is a name must fit in 64 bits: write it as a string instead")
    return plain


def check_labels(values: Iterable[Any], what: str, name: str) -> tuple[Label, ...]:
    """Return distinct labels in the order given; `what` is the list, `name` one of them."""
    return labels([check_label(value, name) for value in check_list(values, what)], name)


def check_list(values: object, what: str) -> list[Any]:
    """Return the items of anything that has an order of its own."""
    if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
        raise UserError(f"{what} must be a list, not a {type(values).__name__}")
    if isinstance(values, np.ndarray) and values.ndim == 0:
        raise UserError(f"{what} must be a list, not a single value")
    return list(values)


def check_classes(classes: int | Iterable[Any]) -> tuple[Label, ...]:
    """Return the names of at least two classes, given as their number or as a list."""
    if isinstance(classes, int | np.integer | np.bool_):
        n_classes = whole(classes, "the number of classes")
        check_size(n_classes, n_classes)
        classes = range(n_classes)
    names = check_labels(classes, "classes", "class")
    check_size(len(names), len(names))
    if len(names) < 2:
        raise UserError(f"a graph needs at least 2 classes, not {len(names)}: name two or more")
    return names


def check_size(n_actions: int, n_classes: int) -> None:
    """Check that a graph of this size fits in memory."""
    # The matrix, its transpose, and two copies on the way. Costs, which only a graph that is played has, come on top.
    check_memory(
        4 * n_actions * n_classes, f"a graph of {n_actions} actions and {n_classes} classes", "use fewer classes"
    )


def check_actions(
    classes: tuple[Label, ...], n_actions: int | None, actions: Iterable[Any] | None
) -> tuple[Label, ...]:
    """Return the names of all actions, the classes first; their number is not checked when it is None."""
    if actions is None:
        extra = (n_actions or len(classes)) - len(classes)
        added = ["query"] if extra == 1 else [f"query {i}" for i in range(1, extra + 1)]
        for new in added:
            if new in classes:
                raise UserError(
                    f"the extra action would be called {new!r}, which is a class: name the actions yourself"
                )
        return (*classes, *added)
    names = check_labels(actions, "actions", "action")
    if n_actions is not None and len(names) != n_actions:
        raise UserError(
            f"the matrix has {n_actions} rows but there are {len(names)} actions: give one row for each action"
        )
    for place, item in enumerate(classes):
        found = names[place : place + 1]
        if [*map(type, found)] != [type(item)] or found != (item,):
            raise UserError(
                f"action {place + 1} is {listing(found) or 'missing'} where class {item!r} was expected: list the "
                "classes first, in order, then the extra actions"
            )
    return names
