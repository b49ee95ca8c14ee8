"""Feedback graphs: what is observed depends on what is played.

A graph with K classes and N >= K actions is an N x K matrix of zeros and ones. Entry `[i, y]` says that playing action
`i` reveals whether the label is class `y`. The first K actions predict the classes; an extra action (the label query of
label efficient classification) predicts nothing and always counts as a mistake. A graph may also have costs: what each
action costs at each label.

Files, descriptions and drawings of graphs are in modules of their own, which are loaded when they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gappletron.base.checks import Label
from gappletron.base.errors import UserError
from gappletron.base.text import listing, make_printable, quote, shorten, unknown
from gappletron.graphs.costs import make_costs, zero_one
from gappletron.graphs.cover import bound_size, find_dominating_set, is_dominating
from gappletron.graphs.edges import (
    check_matrix,
    close_edges,
    extend_preset,
    find_strongly_observed,
    freeze,
    insert_class,
    make_preset,
)
from gappletron.graphs.labels import (
    Positions,
    check_actions,
    check_classes,
    check_label,
    check_labels,
    check_list,
    check_size,
)
from gappletron.graphs.presets import PRESETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gappletron.graphs.sums import Sums

NO_COSTS = np.zeros((0, 0))
NO_COSTS.flags.writeable = False

NAMES_IN_CAPTION, LETTERS_IN_CAPTION = 3, 20


class GraphArrays(NamedTuple):
    """A graph for compiled code: C-contiguous and read-only arrays.

    :param visible: N x K: playing the action (row) reveals whether the label is the class (column).
    :param observers: K x N, the transpose, so that the observers of a class are contiguous.
    :param revealing: N: the action reveals every label.
    :param dominating: the members of the dominating set, ascending.
    :param sole_observer: K: the only action that reveals the class; -1 where there are several.
    :param costs: N x K: what the action (row) costs where the label is the class (column); empty where only mistakes
        count. In compiled code use :func:`gappletron.learners.learner.cost_of`.
    :param has_costs: whether there are other costs than 0 and 1.
    :param cost_sums: these costs, for :func:`gappletron.graphs.sums.multiply`.

    >>> FeedbackGraph.filtering(2).arrays.observers.astype(int)
    array([[1, 0],
           [1, 0]])
    """

    visible: NDArray[np.bool_]
    observers: NDArray[np.bool_]
    revealing: NDArray[np.bool_]
    dominating: NDArray[np.int64]
    sole_observer: NDArray[np.int64]
    costs: NDArray[np.float64]
    has_costs: bool
    cost_sums: Sums


class Plan(NamedTuple):
    """What a round needs to know of its feedback graph: read-only, made from the graph alone, never saved.

    `graph` holds the graph's arrays, `table` what the learner (or its exploration rule) derives from the graph.

    >>> from gappletron import named
    >>> named("label-efficient-perceptron").plan(FeedbackGraph.label_efficient(3)).table.query
    3
    """

    graph: GraphArrays
    table: Any


@dataclass(frozen=True, init=False, repr=False, eq=False)
class FeedbackGraph:
    """Which actions reveal which labels; immutable, compared and hashed by value (the name aside).

    An action that reveals all classes but one gets the missing edge: a label that is none of K-1 classes is the last
    one, so the learner knows it anyway. (The paper requires this; it makes bandit feedback with two classes full
    information.)

    Parameters
    ----------
    visible
        N x K matrix of 0 and 1 (or of booleans) with N >= K: `visible[i, y]` is 1 where action `i` reveals whether the
        label is `y`.
    classes
        K names (str, int, bool or None), by default 0 to K-1.
    actions
        N names of which the first K are the classes. By default an extra action is called "query", and several are
        called "query 1", "query 2" and so on.
    name
        The name in titles and messages.
    dominating_set
        Names of actions that together observe every class, to use them instead of a minimum set.
    costs
        What an action costs at a label: an N x K matrix, or single entries as a mapping {(action, class): number} or as
        tuples (action, class, number). By default, and for all other entries, an action costs 0 where it is the label
        and 1 elsewhere, so that the total cost is the number of mistakes.

    >>> graph = FeedbackGraph([[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0]], classes=["a", "b", "c"])
    >>> graph
    FeedbackGraph('graph': 3 classes, 4 actions, 3 edges, rho 3)
    >>> graph.actions, graph.reveals("query")
    (('a', 'b', 'c', 'query'), ('b',))
    """

    visible: NDArray[np.bool_]
    """The N x K matrix, closure applied, read-only."""
    classes: tuple[Label, ...]
    actions: tuple[Label, ...]
    name: str
    dominating_indices: tuple[int, ...]
    """Indices of the actions of the dominating set, ascending."""
    dominating_set_is_exact: bool
    """Whether no dominating set is smaller; False if that was not proved, as for a set that the user chose."""
    dominating_set_is_given: bool
    """Whether the user chose the dominating set."""
    completed: tuple[tuple[int, int], ...]
    """The edges (action index, class index) that the closure added."""
    _own_costs: NDArray[np.float64] | None = None
    """The costs, or None where they are 0 and 1 as by default."""

    PRESETS: ClassVar[tuple[str, ...]] = tuple(PRESETS)
    """The names that :meth:`preset` accepts."""
    BY_REVEALING_CLASS: ClassVar[tuple[str, ...]] = tuple(name for name in PRESETS if PRESETS[name].by_class)
    """The presets in which some class reveals, by default the first."""

    def __init__(
        self,
        visible: ArrayLike,
        classes: int | Iterable[Any] | None = None,
        actions: Iterable[Any] | None = None,
        *,
        name: str = "graph",
        dominating_set: Iterable[Any] | None = None,
        costs: Any = None,
    ) -> None:
        given = check_matrix(visible)
        n_actions, n_classes = given.shape
        names = check_classes(n_classes if classes is None else classes)
        if not isinstance(name, str):
            raise UserError(f"the name of a graph must be a str, not {type(name).__name__}")
        if len(names) != n_classes:
            raise UserError(
                f"the matrix has {n_classes} columns but there are {len(names)} classes: give one column for each class"
            )
        nearly = np.flatnonzero(given.sum(axis=1) == n_classes - 1)
        put = self.__dict__.update  # the class is frozen
        put(
            classes=names,
            actions=check_actions(names, n_actions, actions),
            visible=close_edges(given),
            name=name,
            completed=tuple((int(i), int(given[i].argmin())) for i in nearly),
            dominating_set_is_given=dominating_set is not None,
        )
        put(_own_costs=make_costs(costs, self.action_positions, self.class_positions))
        unseen = self._list_unseen(range(n_actions))
        if unseen:
            raise UserError(f"no action reveals {listing(unseen)}: give some action an edge to every class")
        if dominating_set is None:
            members, exact = find_dominating_set(self.visible)
        else:
            chosen = check_labels(dominating_set, "the dominating set", "member of the dominating set")
            members = tuple(sorted(map(self.action_index, chosen)))
            exact = len(members) == 1
            unseen = self._list_unseen(members)
            if unseen:
                raise UserError(
                    f"the dominating set [{listing(chosen)}] does not reveal {listing(unseen)}: "
                    "add actions that do, or omit dominating_set"
                )
        put(dominating_indices=members, dominating_set_is_exact=exact)

    def _list_unseen(self, actions: Sequence[int]) -> list[Label]:
        """Return the classes that none of these actions reveals."""
        return [self.classes[y] for y in np.flatnonzero(~self.visible[list(actions)].any(axis=0))]

    @property
    def n_classes(self) -> int:
        """K, the number of classes."""
        return len(self.classes)

    @property
    def n_actions(self) -> int:
        """N, the number of actions: the classes and the extra actions."""
        return len(self.actions)

    @property
    def n_edges(self) -> int:
        """The number of edges, those of the closure included."""
        return int(self.visible.sum())

    @property
    def dominating_set(self) -> tuple[Label, ...]:
        """The names of actions that together observe every class, in the order of :attr:`actions`."""
        return tuple(self.actions[i] for i in self.dominating_indices)

    @cached_property
    def revealing_indices(self) -> tuple[int, ...]:
        """Indices of the actions that reveal every label, ascending."""
        return tuple(np.flatnonzero(self.visible.all(axis=1)).tolist())

    @property
    def revealing(self) -> tuple[Label, ...]:
        """The names of the actions that reveal every label, in the order of :attr:`actions`."""
        return tuple(self.actions[i] for i in self.revealing_indices)

    @property
    def revealing_classes(self) -> tuple[Label, ...]:
        """The names of the classes whose actions reveal every label; ``|Q|`` in the theorems counts these."""
        return tuple(self.classes[i] for i in self.revealing_indices if i < self.n_classes)

    @property
    def is_full_information(self) -> bool:
        """Whether the action of every class reveals every label."""
        return len(self.revealing_classes) == self.n_classes

    @property
    def is_bandit(self) -> bool:
        """Whether there is no extra action, and each action reveals only its own class (before the closure)."""
        if self.n_actions > self.n_classes:
            return False
        return bool((self.visible == close_edges(np.eye(self.n_classes, dtype=bool))).all())

    @property
    def rho(self) -> int:
        """The size of the dominating set."""
        return len(self.dominating_indices)

    @cached_property
    def least_rho(self) -> int:
        """A lower bound on the size of every dominating set; :attr:`rho` where the set is proved to be a minimum."""
        return self.rho if self.dominating_set_is_exact else bound_size(self.visible)

    @cached_property
    def observability(self) -> Literal["strong", "weak"]:
        """Strong if every class is revealed by its own action or by every other action, else weak.

        This is the notion of Alon et al. (2015) for N x K graphs: only the classes have to be observed, because the
        loss of an extra action is known to be 1.
        """
        return "strong" if find_strongly_observed(self.visible).all() else "weak"

    @cached_property
    def arrays(self) -> GraphArrays:
        """The graph for compiled code."""
        return _make_arrays(self)

    @property
    def has_costs(self) -> bool:
        """Whether some cost is not 0 or 1 as by default, where only mistakes count."""
        return self._own_costs is not None

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """N x K: what each action (row) costs at each label (column); read-only."""
        return zero_one(self.n_actions, self.n_classes) if self._own_costs is None else self._own_costs

    def with_costs(self, costs: Any) -> FeedbackGraph:
        """Return the same graph with other costs.

        :param costs: a matrix; or single entries, which change those of this graph; None for 0 and 1.

        >>> mail = FeedbackGraph.apple_tasting().with_costs({("spam", "ham"): 10})
        >>> mail.has_costs, mail.with_costs(None) == FeedbackGraph.apple_tasting()
        (True, True)
        """
        base = None if costs is None else self._own_costs
        return self._copy(_own_costs=make_costs(costs, self.action_positions, self.class_positions, base))

    def _copy(self, **changes: Any) -> FeedbackGraph:
        """Return the same graph with other fields."""
        copy = object.__new__(FeedbackGraph)
        copy.__setstate__(self.__dict__ | changes)
        return copy

    @cached_property
    def action_positions(self) -> Positions:
        """Where each action stands in :attr:`actions`."""
        return Positions(self.actions, "action")

    @cached_property
    def class_positions(self) -> Positions:
        """Where each class stands in :attr:`classes`."""
        return Positions(self.classes, "class")

    def action_index(self, action: Label) -> int:
        """Return the index of an action; the type counts, so True is not 1."""
        return self.action_positions.find(action)

    def class_index(self, name: Label) -> int:
        """Return the index of a class; the type counts, so True is not 1."""
        return self.class_positions.find(name)

    def reveals(self, action: Label) -> tuple[Label, ...]:
        """Return the classes that the action reveals.

        >>> FeedbackGraph.apple_tasting().reveals("ham"), FeedbackGraph.apple_tasting().reveals("spam")
        (('ham', 'spam'), ())
        """
        return tuple(self.classes[y] for y in np.flatnonzero(self.visible[self.action_index(action)]))

    @property
    def given(self) -> NDArray[np.bool_]:
        """The N x K matrix without the edges that the closure added; a class that is added later may undo those."""
        edges = self.visible.copy()
        for edge in self.completed:
            edges[edge] = False
        return edges

    def with_class(
        self,
        name: Label,
        reveals: Iterable[Label] | None = None,
        revealed_by: Iterable[Label] | None = None,
        costs: Any = None,
    ) -> FeedbackGraph:
        """Return the graph with one more class, after the others, and the action that predicts it.

        :param name: of the class.
        :param reveals: the classes that the new action reveals (the new one may be among them).
        :param revealed_by: the actions that reveal the new class (the new one may be among them).
        :param costs: a matrix for the new graph, or single entries. The other costs stay, and those of the new class
            and of its action are 0 and 1.

        Where neither `reveals` nor `revealed_by` is given and the graph is a preset's (bandit, full, filtering, label
        efficient, disease prevention), the result is that preset with the new class. The dominating set is found anew,
        unless it was given and still observes every class.

        >>> FeedbackGraph.bandit(["cat", "dog"]).with_class("fox") == FeedbackGraph.bandit(["cat", "dog", "fox"])
        True
        """
        return _add_class(self, name, reveals, revealed_by, costs)

    def may_precede(self, later: FeedbackGraph) -> bool:
        """Whether the later graph can have come from this one by new classes and other edges: same extra actions."""
        K = self.n_classes
        return later.classes[:K] == self.classes and later.actions[later.n_classes :] == self.actions[K:]

    @cached_property
    def _value(self) -> tuple[object, ...]:
        costs = None if self._own_costs is None else self._own_costs.tobytes()
        names = tuple(self.action_positions.places)
        return names, self.n_classes, self.visible.tobytes(), self.dominating_indices, costs

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, FeedbackGraph) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Unpickled arrays are writable, and cached arrays would come back as copies that no longer share memory.
        for key in FeedbackGraph.__dataclass_fields__.keys() & state:
            value = state[key]
            self.__dict__[key] = freeze(value) if isinstance(value, np.ndarray) else value

    def __repr__(self) -> str:
        return f"FeedbackGraph({quote(self.name)}: {self._summary})"

    def __str__(self) -> str:
        return f"{make_printable(self.name)} ({self._summary})"

    @property
    def _summary(self) -> str:
        return _add_notes(
            self, f"{self.n_classes} classes, {self.n_actions} actions, {self.n_edges} edges, rho {self.rho}"
        )

    @property
    def caption(self) -> str:
        """A title for tables and plots: the name, who reveals every label if only some do, and whether there are costs.

        >>> FeedbackGraph.apple_tasting().caption, FeedbackGraph.bandit(3).caption
        ("apple-tasting graph, 'ham' reveals", 'bandit graph')
        """
        name = shorten(make_printable(self.name), 80)
        return _add_notes(self, name if name == "graph" else f"{name} graph")

    # Presets

    @classmethod
    def full(cls, classes: int | Iterable[Any], *, costs: Any = None) -> FeedbackGraph:
        """Full information: every action reveals the label. `classes` is a number or the names.

        `costs` is that of :class:`FeedbackGraph`, here and in the other presets.
        """
        return cls.preset("full", classes, costs=costs)

    @classmethod
    def bandit(cls, classes: int | Iterable[Any], *, costs: Any = None) -> FeedbackGraph:
        """Bandit feedback: an action reveals only whether it was correct. With two classes that is full information.

        >>> FeedbackGraph.bandit(["cat", "dog", "fox"]).reveals("dog")
        ('dog',)
        """
        return cls.preset("bandit", classes, costs=costs)

    @classmethod
    def filtering(cls, classes: int | Iterable[Any], revealing: Any = None, *, costs: Any = None) -> FeedbackGraph:
        """Multiclass filtering: a revealing class reveals the label, the other actions reveal nothing.

        `revealing` is a class or a list of classes, by default the first class (as in the paper's experiments).
        """
        return cls.preset("filtering", classes, revealing, costs=costs)

    @classmethod
    def apple_tasting(
        cls, classes: int | Iterable[Any] = ("ham", "spam"), revealing: Any = None, *, costs: Any = None
    ) -> FeedbackGraph:
        """Apple tasting, also called spam filtering: two classes of which one reveals, by default the first.

        The default is the example of the paper with the edges (ham, ham) and (ham, spam): a delivered message is read,
        and the reader says whether it was spam; a message that is filed as spam is never read. Pass `revealing` if your
        first class is not the one that reveals.
        """
        return cls.preset("apple-tasting", classes, revealing, costs=costs)

    @classmethod
    def label_efficient(
        cls, classes: int | Iterable[Any], query: Label = "query", *, costs: Any = None
    ) -> FeedbackGraph:
        """Label efficient classification: predictions reveal nothing, the extra action `query` reveals the label."""
        return cls.preset("label-efficient", classes, query=query, costs=costs)

    @classmethod
    def disease_prevention(cls, classes: int | Iterable[Any], *, costs: Any = None) -> FeedbackGraph:
        """Predicting a class reveals all classes but that one: vaccination of an area hides what would happen there.

        With one label per round this is full information: an outbreak that is observed in none of the other areas would
        have been in this one. The closure adds exactly these edges, so the graph equals :meth:`full`. The label is
        where an outbreak would be if nothing were done: it must not depend on the action (docs, page Monitoring).
        """
        return cls.preset("disease-prevention", classes, costs=costs)

    @classmethod
    def preset(
        cls,
        name: str,
        classes: int | Iterable[Any],
        revealing: Any = None,
        *,
        query: Label = "query",
        costs: Any = None,
    ) -> FeedbackGraph:
        """Return a preset by its name (see :attr:`PRESETS`).

        A revealing class is found by its name, or by its text where that is unique.
        """
        if name not in cls.PRESETS:  # a tuple: what is not a text need not have a hash
            raise unknown(name, "graph", cls.PRESETS)
        preset, names = PRESETS[name], check_classes(classes)
        if revealing is not None and not preset.by_class:
            raise UserError(f"the {name} graph has no revealing class to choose: omit revealing, or use filtering")
        if (preset.n_classes or len(names)) != len(names):
            raise UserError(
                f"the {name} graph has {preset.n_classes} classes, but {len(names)} were given: use filtering for more"
            )
        visible = make_preset(preset, len(names))
        if preset.by_class:
            visible[[0] if revealing is None else _find_revealing(names, revealing)] = True
        return cls(visible, names, (*names, query)[: len(visible)], name=name, costs=costs)

    # Conversions

    @classmethod
    def from_edges(
        cls,
        classes: int | Iterable[Any],
        edges: Iterable[Any],
        actions: Iterable[Any] | None = None,
        *,
        name: str = "graph",
        dominating_set: Iterable[Any] | None = None,
        costs: Any = None,
    ) -> FeedbackGraph:
        """Return a graph from pairs (action, class) of names; duplicate edges are ignored.

        Extra actions are named in `actions`, after the classes; the other arguments are those of the constructor.
        """
        columns = check_classes(classes)
        rows = columns if actions is None else check_actions(columns, None, actions)
        visible = _read_edges(edges, Positions(rows, "action"), Positions(columns, "class"))
        return cls(visible, columns, rows, name=name, dominating_set=dominating_set, costs=costs)

    @classmethod
    def from_networkx(
        cls, graph: Any, *, name: str = "graph", dominating_set: Iterable[Any] | None = None, costs: Any = None
    ) -> FeedbackGraph:
        """Return a graph from a networkx graph: the nodes are the classes, an edge goes from action to class.

        Nodes with the attribute `extra=True` are extra actions. An undirected edge counts in both directions, except
        that no edge leads to an extra action. Self-loops are not added.
        """
        from gappletron.graphs.open import read_networkx

        return cls.from_edges(**read_networkx(graph), name=name, dominating_set=dominating_set, costs=costs)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> FeedbackGraph:
        """Return a graph from a file `{"classes": [...], "actions": [...], "edges": [[action, class], ...]}`.

        `actions` may be left out when they are the classes; `name`, `dominating_set` (names of actions) and `costs`
        (``[[action, class, number], ...]``) may be added.
        """
        from gappletron.graphs.open import read_graph

        try:
            return cls.from_edges(**read_graph(path))
        except UserError as error:
            raise error.at(f"graph file {make_printable(os.fspath(path))}") from None

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write a file that :meth:`from_json` reads back as an equal graph; an existing file is replaced atomically.

        The edges are those that were given: the closure adds the others again.
        """
        from gappletron.graphs.open import write_graph

        write_graph(self, path)

    def _repr_html_(self) -> str:
        from gappletron.graphs.text import make_html

        return make_html(self)

    def describe(self, width: int | None = 100) -> str:
        """Return a description of the graph; lines have at most so many characters."""
        from gappletron.graphs.text import describe

        return describe(self, width)

    def as_text(self, width: int | None = None) -> str:
        """Return the matrix as text; where lines may have at most so many characters, in several parts."""
        from gappletron.graphs.text import show_matrix

        return show_matrix(self, width)

    def draw(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Figure:
        """Draw the graph, or its matrix when it is large, and return the figure.

        With a path the figure is also written, as PNG, SVG or PDF by the suffix. With `ax` it is drawn there.
        """
        from gappletron.graphs.drawing import draw

        return draw(self, path, ax)


def _make_arrays(graph: FeedbackGraph) -> GraphArrays:
    """Return the graph for compiled code."""
    from gappletron.graphs.sums import split  # it needs the compiler, and graphs alone do not

    visible, costs = graph.visible, graph.costs if graph.has_costs else NO_COSTS
    return GraphArrays(
        visible,
        freeze(np.array(visible.T, dtype=np.bool_, order="C")),
        freeze(np.asarray(visible.all(axis=1))),
        freeze(np.array(graph.dominating_indices, dtype=np.int64)),
        freeze(np.where(visible.sum(axis=0) == 1, visible.argmax(axis=0), -1).astype(np.int64)),
        costs,
        graph.has_costs,
        split(costs if graph.has_costs else np.zeros((1, 1))),
    )


def _find_revealing(classes: tuple[Label, ...], revealing: Any) -> list[int]:
    """Return the positions of the classes that reveal: one, or a list of them."""
    several = isinstance(revealing, list | tuple | np.ndarray)
    chosen = check_labels(revealing if several else [revealing], "the revealing classes", "revealing class")
    if not chosen:
        raise UserError("a filtering graph needs a revealing class, but none was named: name at least one")
    positions = Positions(classes, "class")
    matched = [positions.match(item) for item in chosen]
    return [positions.find(item) if place is None else place for item, place in zip(chosen, matched, strict=True)]


def _read_edges(edges: Iterable[Any], rows: Positions, columns: Positions) -> NDArray[np.bool_]:
    """Return the matrix of pairs (action, class) of names."""
    check_size(len(rows.names), len(columns.names))
    visible = np.zeros((len(rows.names), len(columns.names)), dtype=bool)
    for place, edge in enumerate(check_list(edges, "edges"), start=1):
        pair = edge.tolist() if isinstance(edge, np.ndarray) else edge
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise UserError(f"edge {place} is not a pair of names: give each edge as (action, class)")
        visible[rows.find(pair[0], f"edge {place}"), columns.find(pair[1], f"edge {place}")] = True
    return visible


def _add_class(
    graph: FeedbackGraph, name: Label, reveals: Iterable[Label] | None, revealed_by: Iterable[Label] | None, costs: Any
) -> FeedbackGraph:
    """Return the graph with one more class: see :meth:`FeedbackGraph.with_class`."""
    K, classes = graph.n_classes, (*graph.classes, check_label(name, "class"))
    actions = (*classes, *graph.actions[K:])  # the extra actions stay last
    rows, columns = Positions(actions, "action"), Positions(classes, "class")
    if reveals is None and revealed_by is None:
        edges = extend_preset(graph.given, graph.name)
    else:
        edges = insert_class(graph.given, False)
        edges[K, [columns.find(item) for item in check_labels(reveals or (), "reveals", "class")]] = True
        edges[[rows.find(item) for item in check_labels(revealed_by or (), "revealed_by", "action")], K] = True
    kept = graph.dominating_set if graph.dominating_set_is_given else None
    if kept is not None and not is_dominating(close_edges(edges), map(rows.find, kept)):
        kept = None
    title = "filtering" if graph.name == "apple-tasting" else graph.name  # apple tasting has two classes
    grown = FeedbackGraph(edges, classes, actions, name=title, dominating_set=kept)
    if graph.has_costs:
        matrix = insert_class(graph.costs, 1.0)
        matrix[K, K] = 0.0
        grown = grown.with_costs(matrix)
    return grown if costs is None else grown.with_costs(costs)


def _add_notes(graph: FeedbackGraph, title: str) -> str:
    """Return the title, which actions reveal every label, unless none or all do, and whether there are costs."""
    names, parts = graph.revealing, [title]
    if 0 < len(names) < graph.n_actions:
        shown = listing(names, NAMES_IN_CAPTION, LETTERS_IN_CAPTION)
        parts.append(f"{shown} reveal{'s' if len(names) == 1 else ''}")
    return ", ".join([*parts, *(["with costs"] if graph.has_costs else [])])
