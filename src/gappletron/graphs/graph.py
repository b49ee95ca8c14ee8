"""Feedback graphs: what is observed depends on what is played.

A graph with K classes and N >= K actions is an N x K matrix of zeros and ones. Entry `[i, y]` says that playing action
`i` reveals whether the label is class `y`. The first K actions predict the classes; an extra action (the label query of
label efficient classification) predicts nothing and always counts as a mistake. A graph may also have costs: what each
action costs at each label.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gappletron.base import files
from gappletron.base.checks import Label, check_memory, label, labels, whole
from gappletron.base.errors import UserError
from gappletron.base.text import listing, make_printable, quote, unknown
from gappletron.graphs import costs as graph_costs, files as graph_files, text as graph_words
from gappletron.graphs.cover import bound_size, find_dominating_set, is_dominating

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NO_COSTS = np.zeros((0, 0))
NO_COSTS.flags.writeable = False


class GraphArrays(NamedTuple):
    """A graph for compiled code: C-contiguous and read-only arrays.

    >>> FeedbackGraph.filtering(2).arrays.observers.astype(int)
    array([[1, 0],
           [1, 0]])
    """

    visible: NDArray[np.bool_]
    """N x K: playing the action (row) reveals whether the label is the class (column)."""
    observers: NDArray[np.bool_]
    """K x N, the transpose, so that the observers of a class are contiguous."""
    revealing: NDArray[np.bool_]
    """N: the action reveals every label."""
    dominating: NDArray[np.int64]
    """The members of the dominating set, ascending."""
    sole_observer: NDArray[np.int64]
    """K: the only action that reveals the class; -1 where there are several."""
    costs: NDArray[np.float64]
    """N x K: what the action (row) costs where the label is the class (column); empty where only mistakes count. In
    compiled code use :func:`gappletron.learners.learner.cost_of`."""
    has_costs: bool
    """Whether there are other costs than 0 and 1."""


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

    PRESETS: ClassVar[tuple[str, ...]] = (
        "bandit",
        "full",
        "filtering",
        "label-efficient",
        "apple-tasting",
        "disease-prevention",
    )
    """The names that :meth:`preset` accepts."""
    BY_REVEALING_CLASS: ClassVar[tuple[str, ...]] = ("filtering", "apple-tasting")
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
        given = _matrix(visible)
        n_actions, n_classes = given.shape
        _enough_classes(n_classes)
        if n_actions < n_classes:
            raise UserError(
                f"the matrix has {n_actions} rows for {n_classes} classes: give one row for each class, "
                "and more for extra actions"
            )
        if not isinstance(name, str):
            raise UserError(f"the name of a graph must be a str, not {type(name).__name__}")
        put = object.__setattr__  # the class is frozen
        put(self, "classes", _class_labels(n_classes if classes is None else classes))
        if len(self.classes) != n_classes:
            raise UserError(
                f"the matrix has {n_classes} columns but there are {len(self.classes)} classes: "
                "give one column for each class"
            )
        put(self, "actions", _action_labels(self.classes, n_actions, actions))
        put(self, "_own_costs", graph_costs.cost_matrix(costs, self.classes, self.actions))
        closed = _close(given)
        put(self, "visible", closed)
        put(self, "name", name)
        nearly = np.flatnonzero(given.sum(axis=1) == n_classes - 1)
        put(self, "completed", tuple((int(i), int(given[i].argmin())) for i in nearly))
        unseen = [self.classes[y] for y in np.flatnonzero(~closed.any(axis=0))]
        if unseen:
            raise UserError(
                f"no action observes the class{'es' if len(unseen) > 1 else ''} {listing(unseen)}: "
                f"give some action an edge to {'each' if len(unseen) > 1 else 'it'}"
            )
        if dominating_set is None:
            members, exact = find_dominating_set(closed)
        else:
            members = self._own_dominating_set(dominating_set)
            exact = len(members) == 1
        put(self, "dominating_indices", members)
        put(self, "dominating_set_is_exact", exact)
        put(self, "dominating_set_is_given", dominating_set is not None)

    def _own_dominating_set(self, names: Iterable[Any]) -> tuple[int, ...]:
        chosen = _labels(names, "the dominating set", "member of the dominating set")
        members = tuple(sorted(self.action_index(item) for item in chosen))
        if not is_dominating(self.visible, members):
            out = [self.classes[y] for y in np.flatnonzero(~self.visible[list(members)].any(axis=0))]
            raise UserError(
                f"the dominating set [{listing(chosen)}] does not observe {listing(out)}: "
                "add actions that do, or omit dominating_set"
            )
        return members

    # Properties

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
        """The names of actions that together observe every class, in the order of :attr:`actions`.

        >>> FeedbackGraph.filtering(["work", "inbox"], revealing="inbox").dominating_set
        ('inbox',)
        """
        return tuple(self.actions[i] for i in self.dominating_indices)

    @cached_property
    def revealing_indices(self) -> tuple[int, ...]:
        """Indices of the actions that reveal every label, ascending.

        >>> FeedbackGraph.label_efficient(3).revealing_indices
        (3,)
        """
        return tuple(np.flatnonzero(self.visible.all(axis=1)).tolist())

    @property
    def revealing(self) -> tuple[Label, ...]:
        """The names of the actions that reveal every label, in the order of :attr:`actions`.

        >>> FeedbackGraph.label_efficient(["cat", "dog"]).revealing
        ('query',)
        """
        return tuple(self.actions[i] for i in self.revealing_indices)

    @property
    def revealing_classes(self) -> tuple[Label, ...]:
        """The names of the classes whose actions reveal every label; |Q| in the theorems counts these.

        >>> FeedbackGraph.filtering(["work", "inbox"], revealing="inbox").revealing_classes
        ('inbox',)
        >>> FeedbackGraph.label_efficient(["cat", "dog"]).revealing_classes
        ()
        """
        return tuple(self.classes[i] for i in self.revealing_indices if i < self.n_classes)

    @property
    def is_full_information(self) -> bool:
        """Whether the action of every class reveals every label.

        >>> FeedbackGraph.bandit(2).is_full_information, FeedbackGraph.bandit(3).is_full_information
        (True, False)
        """
        return len(self.revealing_classes) == self.n_classes

    @property
    def is_bandit(self) -> bool:
        """Whether this is bandit feedback: no extra action, and each action reveals only its own class (before the
        closure).

        >>> FeedbackGraph.bandit(2).is_bandit, FeedbackGraph.full(3).is_bandit
        (True, False)
        """
        if self.n_actions > self.n_classes:
            return False
        return bool((self.visible == _close(np.eye(self.n_classes, dtype=bool))).all())

    @property
    def rho(self) -> int:
        """The size of the dominating set."""
        return len(self.dominating_indices)

    @cached_property
    def least_rho(self) -> int:
        """A lower bound on the size of every dominating set; :attr:`rho` where the set is proved to be a minimum.

        >>> FeedbackGraph.bandit(4).least_rho
        4
        >>> FeedbackGraph([[1, 1, 1]] * 3, dominating_set=[0, 1]).least_rho
        1
        """
        return self.rho if self.dominating_set_is_exact else bound_size(self.visible)

    @cached_property
    def observability(self) -> Literal["strong", "weak"]:
        """Strong if every class is revealed by its own action or by every other action, else weak.

        This is the notion of Alon et al. (2015) for N x K graphs: only the classes have to be observed, because the
        loss of an extra action is known to be 1. (A graph in which no action observes some class is an error.)

        >>> FeedbackGraph.bandit(3).observability, FeedbackGraph.filtering(3).observability
        ('strong', 'weak')
        """
        return "strong" if self.strongly_observed().all() else "weak"

    def strongly_observed(self) -> NDArray[np.bool_]:
        """For every class, whether its own action or every other action reveals it."""
        own = self.visible[np.arange(self.n_classes), np.arange(self.n_classes)]
        by_all_others = self.visible.sum(axis=0) - own == self.n_actions - 1
        return np.asarray(own | by_all_others)

    @cached_property
    def arrays(self) -> GraphArrays:
        """The graph for compiled code.

        >>> FeedbackGraph.bandit(3).arrays.dominating
        array([0, 1, 2])
        """
        return GraphArrays(
            self.visible,
            _frozen(np.array(self.visible.T, dtype=np.bool_, order="C")),
            _frozen(np.asarray(self.visible.all(axis=1))),
            _frozen(np.array(self.dominating_indices, dtype=np.int64)),
            _frozen(np.where(self.visible.sum(axis=0) == 1, self.visible.argmax(axis=0), -1).astype(np.int64)),
            self.costs if self.has_costs else NO_COSTS,
            self.has_costs,
        )

    @property
    def has_costs(self) -> bool:
        """Whether some cost is not 0 or 1 as by default, where only mistakes count.

        >>> FeedbackGraph.bandit(3).has_costs, FeedbackGraph.bandit(2, costs=[[0, 1], [10, 0]]).has_costs
        (False, True)
        """
        return self._own_costs is not None

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """N x K: what each action (row) costs at each label (column); read-only.

        >>> FeedbackGraph.label_efficient(["cat", "dog"], costs=[("query", "cat", 0.1), ("query", "dog", 0.1)]).costs
        array([[0. , 1. ],
               [1. , 0. ],
               [0.1, 0.1]])
        """
        return graph_costs.zero_one(self.n_actions, self.n_classes) if self._own_costs is None else self._own_costs

    def with_costs(self, costs: Any) -> FeedbackGraph:
        """The same graph with other costs.

        :param costs: a matrix; or single entries, which change those of this graph; None for 0 and 1.

        >>> mail = FeedbackGraph.apple_tasting().with_costs({("spam", "ham"): 10})
        >>> mail.has_costs, mail.with_costs(None) == FeedbackGraph.apple_tasting()
        (True, True)
        """
        base = None if costs is None else self._own_costs
        new = object.__new__(FeedbackGraph)
        for field in fields(FeedbackGraph):
            object.__setattr__(new, field.name, getattr(self, field.name))
        object.__setattr__(new, "_own_costs", graph_costs.cost_matrix(costs, self.classes, self.actions, base))
        return new

    @cached_property
    def _places(self) -> dict[tuple[type, Label], int]:
        return {(type(item), item): index for index, item in enumerate(self.actions)}

    def action_index(self, action: Label) -> int:
        """The index of an action; the type counts, so True is not 1.

        >>> FeedbackGraph.label_efficient(["a", "b"]).action_index("query")
        2
        """
        return self._index(action, "action", self.actions)

    def class_index(self, name: Label) -> int:
        """The index of a class; the type counts, so True is not 1.

        >>> FeedbackGraph.bandit(3).class_index(True)
        Traceback (most recent call last):
            ...
        gappletron.UserError: there is no class True: choose one of 0, 1, 2
        """
        return self._index(name, "class", self.classes)

    def _index(self, name: Any, kind: str, known: tuple[Label, ...]) -> int:
        place = self._places.get((type(name), name)) if type(name) in (str, int) else None
        if place is None:  # not found at once: another type, or a name that there is not
            plain = _label(name, kind)
            place = self._places.get((type(plain), plain), len(known))
        if place >= len(known):
            raise unknown(name, kind, known)
        return place

    def reveals(self, action: Label) -> tuple[Label, ...]:
        """The classes that the action reveals.

        >>> FeedbackGraph.apple_tasting().reveals("ham"), FeedbackGraph.apple_tasting().reveals("spam")
        (('ham', 'spam'), ())
        """
        return tuple(self.classes[y] for y in np.flatnonzero(self.visible[self.action_index(action)]))

    # Growing

    @property
    def given(self) -> NDArray[np.bool_]:
        """The N x K matrix without the edges that the closure added; a class that is added later may undo those.

        >>> FeedbackGraph.bandit(2).given.astype(int), FeedbackGraph.bandit(2).visible.astype(int)
        (array([[1, 0],
               [0, 1]]), array([[1, 1],
               [1, 1]]))
        """
        edges = self.visible.copy()
        for action, seen in self.completed:
            edges[action, seen] = False
        return edges

    def with_class(
        self,
        name: Label,
        reveals: Iterable[Label] | None = None,
        revealed_by: Iterable[Label] | None = None,
        costs: Any = None,
    ) -> FeedbackGraph:
        """The graph with one more class, after the others, and the action that predicts it.

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
        >>> FeedbackGraph.apple_tasting().with_class("news", reveals=[], revealed_by=["ham"]).reveals("ham")
        ('ham', 'spam', 'news')
        """
        new = _label(name, "class")
        if (type(new), new) in self._places:
            raise UserError(f"there is a class or an action {new!r} already: choose another name for the new class")
        K, N = self.n_classes, self.n_actions
        edges = np.zeros((N + 1, K + 1), dtype=bool)
        old = np.concatenate([np.arange(K), np.arange(K + 1, N + 1)])  # the extra actions stay last
        edges[np.ix_(old, np.arange(K))] = self.given
        classes, actions = (*self.classes, new), (*self.classes, new, *self.actions[K:])
        if reveals is None and revealed_by is None:
            edges[K], edges[:, K] = self._edges_of_one_more()
        else:
            for item in _labels(reveals or (), "reveals", "class"):
                edges[K, _place(item, "class", classes)] = True
            for item in _labels(revealed_by or (), "revealed_by", "action"):
                edges[_place(item, "action", actions), K] = True
        if not edges[:, K].any() and not (edges[:, :K].sum(axis=1) == K).any():
            raise UserError(
                f"no action would reveal the new class {new!r}: name at least one in revealed_by (or {new!r} itself in "
                "reveals)"
            )
        kept = self.dominating_set if self.dominating_set_is_given else None
        if kept is not None and not is_dominating(
            _close(edges), tuple(_place(item, "action", actions) for item in kept)
        ):
            kept = None
        name = "filtering" if self.name == "apple-tasting" else self.name  # apple tasting has two classes
        grown = FeedbackGraph(edges, classes, actions, name=name, dominating_set=kept)
        if self.has_costs:
            base = grown.costs.copy()
            base[np.ix_(old, np.arange(K))] = self.costs
            grown = grown.with_costs(base)
        return grown if costs is None else grown.with_costs(costs)

    def _edges_of_one_more(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The row and the column of a new class where the graph is a preset's."""
        K, given = self.n_classes, self.given
        row, column = np.zeros(K + 1, dtype=bool), np.zeros(self.n_actions + 1, dtype=bool)
        square, own = given[:K], np.eye(K, dtype=bool)
        reveals_all: NDArray[np.bool_] = np.asarray(given.all(axis=1))
        if self.n_actions == K and (square == own).all():  # bandit
            row[K] = column[K] = True
        elif self.n_actions == K and (square == ~own).all():  # disease prevention
            row[:K] = column[:K] = True
        elif (given.all(axis=1) | ~given.any(axis=1)).all():  # full, filtering, label efficient
            column[np.delete(np.arange(self.n_actions + 1), K)] = reveals_all
            row[:] = column[K] = reveals_all[:K].all()
        else:
            raise UserError(
                f"the graph {self.name!r} is not a preset, so its edges do not follow for a new class: say what it "
                "reveals=[...] and what it is revealed_by=[...]"
            )
        return row, column

    def may_precede(self, later: FeedbackGraph) -> bool:
        """Whether the later graph can have come from this one by new classes and other edges: same extra actions.

        >>> FeedbackGraph.bandit(["a", "b"]).may_precede(FeedbackGraph.full(["a", "b", "c"]))
        True
        """
        K = self.n_classes
        return later.classes[:K] == self.classes and later.actions[later.n_classes :] == self.actions[K:]

    def _restored(self, *, dominating_set_is_given: bool, dominating_set_is_exact: bool) -> FeedbackGraph:
        """The same graph, after it was read from a file with its dominating set: who chose the set, and whether it is
        known to be the smallest."""
        object.__setattr__(self, "dominating_set_is_given", bool(dominating_set_is_given))
        object.__setattr__(self, "dominating_set_is_exact", bool(dominating_set_is_exact))
        return self

    # Value semantics

    @cached_property
    def _value(self) -> tuple[object, ...]:
        costs = None if self._own_costs is None else self._own_costs.tobytes()
        return tuple(self._places), self.n_classes, self.visible.tobytes(), self.dominating_indices, costs

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, FeedbackGraph) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Unpickled arrays are writable, and cached arrays would come back as copies that no longer share memory.
        for key, value in state.items():
            if key in FeedbackGraph.__dataclass_fields__:
                object.__setattr__(self, key, _frozen(value) if isinstance(value, np.ndarray) else value)

    def __repr__(self) -> str:
        return f"FeedbackGraph({quote(self.name)}: {self._summary})"

    def __str__(self) -> str:
        return f"{make_printable(self.name)} ({self._summary})"

    @property
    def _summary(self) -> str:
        counts = f"{self.n_classes} classes, {self.n_actions} actions, {self.n_edges} edges, rho {self.rho}"
        who = graph_words.revealers(self)
        return ", ".join([counts, *([who] if who else []), *(["with costs"] if self.has_costs else [])])

    # Presets

    @classmethod
    def full(cls, classes: int | Iterable[Any], *, costs: Any = None) -> FeedbackGraph:
        """Full information: every action reveals the label. `classes` is a number or the names.

        `costs` is that of :class:`FeedbackGraph`, here and in the other presets.

        >>> FeedbackGraph.full(3)
        FeedbackGraph('full': 3 classes, 3 actions, 9 edges, rho 1)
        """
        names = _class_labels(classes)
        return cls(np.ones((len(names), len(names)), dtype=bool), names, name="full", costs=costs)

    @classmethod
    def bandit(cls, classes: int | Iterable[Any], *, costs: Any = None) -> FeedbackGraph:
        """Bandit feedback: an action reveals only whether it was correct. With two classes that is full information.

        >>> FeedbackGraph.bandit(["cat", "dog", "fox"]).reveals("dog")
        ('dog',)
        """
        names = _class_labels(classes)
        return cls(np.eye(len(names), dtype=bool), names, name="bandit", costs=costs)

    @classmethod
    def filtering(cls, classes: int | Iterable[Any], revealing: Any = None, *, costs: Any = None) -> FeedbackGraph:
        """Multiclass filtering: a revealing class reveals the label, the other actions reveal nothing.

        `revealing` is a class or a list of classes, by default the first class (as in the paper's experiments).

        >>> graph = FeedbackGraph.filtering(["inbox", "work", "spam"])
        >>> graph.reveals("inbox"), graph.reveals("spam")
        (('inbox', 'work', 'spam'), ())
        """
        return cls._filtering(_class_labels(classes), revealing, "filtering", costs)

    @classmethod
    def apple_tasting(
        cls, classes: int | Iterable[Any] = ("ham", "spam"), revealing: Any = None, *, costs: Any = None
    ) -> FeedbackGraph:
        """Apple tasting, also called spam filtering: two classes of which one reveals, by default the first.

        The default is the example of the paper with the edges (ham, ham) and (ham, spam): a delivered message is read,
        and the reader says whether it was spam; a message that is filed as spam is never read. Pass `revealing` if your
        first class is not the one that reveals.

        >>> FeedbackGraph.apple_tasting().visible.astype(int)
        array([[1, 1],
               [0, 0]])
        >>> FeedbackGraph.apple_tasting(["rotten", "good"], revealing="good").reveals("good")
        ('rotten', 'good')
        """
        names = _class_labels(classes)
        if len(names) != 2:
            raise UserError(f"apple tasting has exactly 2 classes, but {len(names)} were given: use filtering for more")
        return cls._filtering(names, revealing, "apple-tasting", costs)

    @classmethod
    def _filtering(cls, names: tuple[Label, ...], revealing: Any, name: str, costs: Any) -> FeedbackGraph:
        if revealing is None:
            chosen = names[:1]
        elif isinstance(revealing, list | tuple | np.ndarray):
            chosen = _labels(revealing, "the revealing classes", "revealing class")
        else:
            chosen = (_label(revealing, "revealing class"),)
        if not chosen:
            raise UserError("a filtering graph needs a revealing class, but none was named: name at least one")
        places = {(type(item), item): index for index, item in enumerate(names)}
        visible = np.zeros((len(names), len(names)), dtype=bool)
        for item in chosen:
            if (type(item), item) not in places:
                raise unknown(item, "class", names)
            visible[places[type(item), item]] = True
        return cls(visible, names, name=name, costs=costs)

    @classmethod
    def label_efficient(
        cls, classes: int | Iterable[Any], query: Label = "query", *, costs: Any = None
    ) -> FeedbackGraph:
        """Label efficient classification: predictions reveal nothing, the extra action `query` reveals the label.

        >>> graph = FeedbackGraph.label_efficient(["cat", "dog"], query="ask")
        >>> graph.reveals("cat"), graph.reveals("ask")
        ((), ('cat', 'dog'))
        """
        names = _class_labels(classes)
        visible = np.zeros((len(names) + 1, len(names)), dtype=bool)
        visible[-1] = True
        return cls(visible, names, (*names, query), name="label-efficient", costs=costs)

    @classmethod
    def disease_prevention(cls, classes: int | Iterable[Any], *, costs: Any = None) -> FeedbackGraph:
        """Predicting a class reveals all classes but that one: vaccination of an area hides what would have happened
        there.

        With one label per round this is full information: an outbreak that is observed in none of the other areas would
        have been in this one. The closure adds exactly these edges, so the graph equals :meth:`full`.

        >>> FeedbackGraph.disease_prevention(3) == FeedbackGraph.full(3)
        True
        """
        names = _class_labels(classes)
        return cls(~np.eye(len(names), dtype=bool), names, name="disease-prevention", costs=costs)

    @classmethod
    def preset(
        cls, name: str, classes: int | Iterable[Any], revealing: Any = None, *, costs: Any = None
    ) -> FeedbackGraph:
        """A preset by its name (see :attr:`PRESETS`).

        >>> FeedbackGraph.preset("filtering", ["a", "b", "c"], revealing=["a", "c"]).revealing
        ('a', 'c')
        """
        if name == "filtering":
            return cls.filtering(classes, revealing, costs=costs)
        if name == "apple-tasting":
            return cls.apple_tasting(classes, revealing, costs=costs)
        plain = {
            "bandit": cls.bandit,
            "full": cls.full,
            "label-efficient": cls.label_efficient,
            "disease-prevention": cls.disease_prevention,
        }
        if not isinstance(name, str) or name not in plain:
            raise unknown(name, "graph", cls.PRESETS)
        if revealing is not None:
            raise UserError(f"the {name} graph has no revealing class to choose: omit revealing, or use filtering")
        return plain[name](classes, costs=costs)

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
        """A graph from pairs (action, class) of names; duplicate edges are ignored.

        Extra actions are named in `actions`, after the classes; the other arguments are those of the constructor.

        >>> edges = [("a", "a"), ("a", "b"), ("ask", "c"), ("ask", "d")]
        >>> FeedbackGraph.from_edges(["a", "b", "c", "d"], edges, actions=["a", "b", "c", "d", "ask"])
        FeedbackGraph('graph': 4 classes, 5 actions, 4 edges, rho 2)
        """
        class_names = _class_labels(classes)
        action_names = class_names if actions is None else _action_labels(class_names, None, actions)
        _fits(len(action_names), len(class_names))
        rows = {(type(item), item): index for index, item in enumerate(action_names)}
        columns = {(type(item), item): index for index, item in enumerate(class_names)}
        visible = np.zeros((len(action_names), len(class_names)), dtype=bool)
        for place, edge in enumerate(_sequence(edges, "edges"), start=1):
            pair = edge.tolist() if isinstance(edge, np.ndarray) else edge
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise UserError(f"edge {place} is not a pair of names: give each edge as (action, class)")
            action, seen = _label(pair[0], f"edge {place}: action"), _label(pair[1], f"edge {place}: class")
            if (type(action), action) not in rows:
                raise UserError(f"edge {place}: {unknown(action, 'action', action_names)}")
            if (type(seen), seen) not in columns:
                raise UserError(f"edge {place}: {unknown(seen, 'class', class_names)}")
            visible[rows[type(action), action], columns[type(seen), seen]] = True
        return cls(visible, class_names, action_names, name=name, dominating_set=dominating_set, costs=costs)

    @classmethod
    def from_networkx(
        cls, graph: Any, *, name: str = "graph", dominating_set: Iterable[Any] | None = None, costs: Any = None
    ) -> FeedbackGraph:
        """A graph from a networkx graph: the nodes are the classes, in their order, an edge goes from action to class.

        Nodes with the attribute `extra=True` are extra actions. An undirected edge counts in both directions, except
        that no edge leads to an extra action. Self-loops are not added.

        >>> import networkx
        >>> path = networkx.path_graph(["a", "b", "c"])
        >>> FeedbackGraph.from_networkx(path).reveals("a")
        ('b',)
        """
        try:
            import networkx
        except ImportError:
            raise UserError("networkx is not installed: pip install networkx") from None
        if not isinstance(graph, networkx.Graph):
            raise UserError(f"expected a networkx graph, not a {type(graph).__name__}: give a Graph or a DiGraph")
        extra = {node for node, data in graph.nodes(data=True) if data.get("extra") is True}
        classes = [node for node in graph if node not in extra]
        edges = list(graph.edges())
        if not graph.is_directed():
            edges = [pair for u, v in edges for pair in ((u, v), (v, u)) if pair[1] not in extra]
        for _, head in edges:
            if head in extra:
                raise UserError(f"an edge goes into the extra action {head!r}, whose loss is known: remove that edge")
        actions = [*classes, *(node for node in graph if node in extra)]
        return cls.from_edges(classes, edges, actions, name=name, dominating_set=dominating_set, costs=costs)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> FeedbackGraph:
        """A graph from a file `{"classes": [...], "actions": [...], "edges": [[action, class], ...]}`.

        `actions` may be left out when they are the classes; `name`, `dominating_set` (names of actions) and `costs`
        (``[[action, class, number], ...]``) may be added.

        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "graph.json"
        >>> _ = file.write_text('{"classes": ["a", "b"], "edges": [["a", "a"], ["a", "b"]]}')
        >>> FeedbackGraph.from_json(file).revealing
        ('a',)
        """
        try:
            return cls.from_edges(**graph_files.read(path))
        except UserError as error:
            raise UserError(f"graph file {make_printable(os.fspath(path))}: {error}") from None

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write a file that :meth:`from_json` reads back as an equal graph; an existing file is replaced atomically.

        The edges are those that were given: the closure adds the others again.

        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "graph.json"
        >>> FeedbackGraph.bandit(4).to_json(file)
        >>> FeedbackGraph.from_json(file) == FeedbackGraph.bandit(4)
        True
        """
        with files.replacing(path) as file:
            file.write(graph_files.written(self))

    # Text and drawings

    @property
    def caption(self) -> str:
        """A title for tables and plots: the name, the actions that reveal every label if only some do, and whether
        there are costs.

        >>> FeedbackGraph.apple_tasting().caption, FeedbackGraph.bandit(3).caption
        ("apple-tasting graph, 'ham' reveals", 'bandit graph')
        """
        return graph_words.caption(self)

    def describe(self) -> str:
        """A description of the graph.

        >>> print(FeedbackGraph.apple_tasting().describe())
        Feedback graph 'apple-tasting': 2 classes, 2 actions, 2 edges.
        <BLANKLINE>
        What each action reveals
          every label: 'ham'
          nothing: 'spam'
        <BLANKLINE>
        Observability: strong. Every class is revealed by its own action or by every other action.
        <BLANKLINE>
        Dominating set: 'ham' (rho = 1, minimum).
          Exploration plays one of these actions; together they reveal every class. The surrogate regret is
          of order sqrt(rho K T) = sqrt(2 T): about 447 mistakes over T = 100,000 rounds, up to constants.
        """
        return graph_words.described(self)

    def as_text(self) -> str:
        """The matrix as text.

        >>> print(FeedbackGraph.label_efficient(["cat", "dog"]).as_text())
        action played   cat  dog
        cat              .    .
        dog              .    .
        query         *  #    #
        <BLANKLINE>
        # reveals whether the label is the class of the column; * is in the dominating set
        """
        return graph_words.matrix(self)

    def draw(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Figure:
        """Draw the graph, or its matrix when it is large, and return the figure.

        With a path the figure is also written, as PNG, SVG or PDF by the suffix. With `ax` it is drawn there.

        >>> figure = FeedbackGraph.bandit(4).draw()
        >>> len(figure.axes)
        1
        """
        from gappletron.graphs import drawing as graph_drawing

        return graph_drawing.drawn(self, path, ax)


# Checks


def _label(value: Any, name: str) -> Label:
    plain = label(value, name)
    if type(plain) is int and not -(2**63) <= plain < 2**63:
        raise UserError(f"{name}: a whole number that is a name must fit in 64 bits: write it as a string instead")
    return plain


def _labels(values: Iterable[Any], what: str, name: str) -> tuple[Label, ...]:
    return labels([_label(value, name) for value in _sequence(values, what)], name)


def _sequence(values: object, what: str) -> list[Any]:
    """The items of anything that has an order of its own."""
    if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
        raise UserError(f"{what} must be a list, not a {type(values).__name__}")
    if isinstance(values, np.ndarray) and values.ndim == 0:
        raise UserError(f"{what} must be a list, not a single value")
    return list(values)


def _place(item: Label, kind: str, known: tuple[Label, ...]) -> int:
    """The position of a name; the type counts, so True is not 1."""
    for place, name in enumerate(known):
        if type(name) is type(item) and name == item:
            return place
    raise unknown(item, kind, known)


def _enough_classes(n_classes: int) -> None:
    if n_classes < 2:
        raise UserError(
            f"a graph needs at least 2 classes, but {n_classes} {'was' if n_classes == 1 else 'were'} given: "
            "name two or more"
        )


def _class_labels(classes: int | Iterable[Any]) -> tuple[Label, ...]:
    if isinstance(classes, int | np.integer | np.bool_):
        n_classes = whole(classes, "the number of classes")
        _fits(n_classes, n_classes)
        names: tuple[Label, ...] = tuple(range(n_classes))
    else:
        names = _labels(classes, "classes", "class")
        _fits(len(names), len(names))
    _enough_classes(len(names))
    return names


def _fits(n_actions: int, n_classes: int) -> None:
    # The matrix, its transpose, and two copies on the way. Costs, which only a graph that is played has, come on top.
    check_memory(
        4 * n_actions * n_classes, f"a graph of {n_actions} actions and {n_classes} classes", "use fewer classes"
    )


def _action_labels(
    classes: tuple[Label, ...], n_actions: int | None, actions: Iterable[Any] | None
) -> tuple[Label, ...]:
    """The names of all actions; their number is not checked when it is None."""
    n_classes = len(classes)
    if actions is None:
        extra = (n_actions or n_classes) - n_classes
        added = ["query"] if extra == 1 else [f"query {i}" for i in range(1, extra + 1)]
        for new in added:
            if new in classes:
                raise UserError(
                    f"the extra action would be called {new!r}, which is a class: name the actions yourself"
                )
        return (*classes, *added)
    names = _labels(actions, "actions", "action")
    if n_actions is not None and len(names) != n_actions:
        raise UserError(
            f"the matrix has {n_actions} rows but there are {len(names)} actions: give one row for each action"
        )
    for place, item in enumerate(classes):
        if place >= len(names) or type(names[place]) is not type(item) or names[place] != item:
            there = (
                f"action {place + 1} is {names[place]!r}"
                if place < len(names)
                else f"there are only {len(names)} actions"
            )
            raise UserError(
                f"{there} where class {item!r} was expected: list the classes first, in order, then the extra actions"
            )
    return names


def _matrix(visible: ArrayLike) -> NDArray[np.bool_]:
    try:
        given = np.asarray(visible)
    except ValueError:
        raise UserError("the rows of the matrix differ in length: give each action one entry for every class") from None
    if given.ndim != 2:
        raise UserError(
            f"the matrix must have 2 dimensions, not {given.ndim}: give one row per action, one column per class"
        )
    if given.dtype.kind not in "biuf" or not ((given == 0) | (given == 1)).all():
        raise UserError("the matrix must hold only 0 and 1: write 1 where the action reveals the class")
    return given.astype(np.bool_, order="C")


def _close(given: NDArray[np.bool_]) -> NDArray[np.bool_]:
    closed = given.copy()
    closed[given.sum(axis=1) == given.shape[1] - 1] = True
    return _frozen(closed)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
