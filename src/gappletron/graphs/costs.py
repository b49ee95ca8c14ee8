"""The costs of a feedback graph: what each action costs at each label, as an N x K matrix.

By default an action costs 0 where it is the label and 1 elsewhere, so that the total cost is the number of mistakes; an
extra action costs 1 at every label.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.checks import Label, number
from gappletron.base.errors import UserError

LARGEST_COST = 1e6


def zero_one(n_actions: int, n_classes: int) -> NDArray[np.float64]:
    """Return the default costs: 1, and 0 where the action is the label; read-only.

    >>> zero_one(3, 2)
    array([[0., 1.],
           [1., 0.],
           [1., 1.]])
    """
    costs = np.ones((n_actions, n_classes))
    np.fill_diagonal(costs, 0.0)
    costs.flags.writeable = False
    return costs


def make_costs(
    costs: Any, actions: Any, classes: Any, base: NDArray[np.float64] | None = None
) -> NDArray[np.float64] | None:
    """Return the matrix of costs that a user means, or None where it is that of :func:`zero_one`.

    :param costs: a matrix, a mapping {(action, class): number}, an iterable of tuples (action, class, number), or None.
    :param actions, classes: the :class:`gappletron.graphs.labels.Positions` of the rows and columns of the matrix.
    :param base: what single entries change; by default 0 and 1.

    >>> from gappletron.graphs.labels import Positions
    >>> names = Positions(["ham", "spam"], "class")
    >>> make_costs({("spam", "ham"): 10}, names, names)
    array([[ 0.,  1.],
           [10.,  0.]])
    """
    shape = len(actions.names), len(classes.names)
    items = [] if costs is None else _check_iterable(costs)
    if isinstance(items, list) and all(type(item) is tuple for item in items):
        made = _set_entries(items, actions, classes, base) if items else base
    else:
        made = _check_matrix(items, shape)
    if made is None or (made == zero_one(*shape)).all():
        return None
    made = np.array(made, dtype=np.float64, order="C") + 0.0  # no -0.0: equal costs have equal bytes
    made.flags.writeable = False
    return made


def list_changed(
    costs: NDArray[np.float64], actions: tuple[Label, ...], classes: tuple[Label, ...]
) -> list[tuple[Label, Label, float]]:
    """Return the costs that are not 0 or 1 as by default: (action, class, number), in the order of the matrix.

    >>> list_changed(np.array([[0.0, 1.0], [10.0, 0.0]]), ("ham", "spam"), ("ham", "spam"))
    [('spam', 'ham', 10.0)]
    """
    places = np.argwhere(costs != zero_one(*costs.shape)).tolist()
    return [(actions[i], classes[y], float(costs[i, y])) for i, y in places]


def _check_iterable(costs: Any) -> Any:
    """Return the entries of a mapping or the items of an iterable as a list; what is or becomes an array unchanged."""
    if isinstance(costs, Mapping):
        for pair in costs:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise UserError(f"the costs have the key {pair!r}: write each key as a pair (action, class)")
        return [(*pair, cost) for pair, cost in costs.items()]
    if hasattr(costs, "__array__"):
        return np.asarray(costs)
    if isinstance(costs, str | bytes | Set) or not isinstance(costs, Iterable):
        raise UserError(
            f"costs must be a matrix, a mapping from (action, class) to a number, or tuples (action, class, number), "
            f"not a {type(costs).__name__}"
        )
    return list(costs)


def _check_matrix(given: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
    wanted = f"give {shape[0]} rows, one for each action, of {shape[1]} numbers, one for each class"
    try:
        array = np.asarray(given)
    except ValueError:
        raise UserError(
            f"the costs are neither tuples (action, class, number) nor a matrix with rows of one length: {wanted}"
        ) from None
    if array.shape != shape:
        raise UserError(f"the costs have the shape {array.shape}, and the graph {shape}: {wanted}")
    if array.dtype.kind not in "biuf":
        raise UserError(f"the matrix of costs must hold numbers only: {wanted}")
    made = array.astype(np.float64)
    wrong = made[~((made >= 0.0) & (made <= LARGEST_COST))]  # also NaN
    if wrong.size:
        raise UserError(f"a cost is {wrong[0]:g}: every cost must be a number from 0 to {LARGEST_COST:,.0f}")
    return made


def _set_entries(
    entries: list[tuple[Any, ...]], actions: Any, classes: Any, base: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    made = (zero_one(len(actions.names), len(classes.names)) if base is None else base).copy()
    seen: set[tuple[int, int]] = set()
    for count, entry in enumerate(entries, start=1):
        if len(entry) != 3:
            raise UserError(
                f"cost {count} is a tuple of length {len(entry)}: give each cost as (action, class, number), and the "
                "rows of a matrix as lists"
            )
        action, name, cost = entry
        place = actions.find(action, f"cost {count}"), classes.find(name, f"cost {count}")
        where = f"the cost of {action!r} at the label {name!r}"
        if place in seen:
            raise UserError(f"{where} is given twice: keep one")
        seen.add(place)
        made[place] = number(cost, where, least=0.0, most=LARGEST_COST)
    return made
