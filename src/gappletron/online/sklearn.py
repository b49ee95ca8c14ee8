"""A classifier for scikit-learn: :class:`GappletronClassifier` is a :class:`~gappletron.play.player.Player`
behind `fit`, `partial_fit` and `predict`.

Positions of classes in the graph and in `classes_` may differ, since `classes_` is sorted; `_order` leads from the
second to the first.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from gappletron.base.checks import Label
from gappletron.base.errors import UserError
from gappletron.base.text import listing
from gappletron.data.arrays import ArrayStream, plain_names
from gappletron.data.normalization import Normalization
from gappletron.data.records.values import is_missing
from gappletron.data.stream import Chunk
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Learner
from gappletron.online.contents import SavedPlayer
from gappletron.online.receipts import UNSEEN

NOT_SEEN = -1


class Acts(NamedTuple):
    """The actions for a batch of rows, drawn by :meth:`GappletronClassifier.act`.

    :param actions: the action of every row: a class, or an extra action such as a query.
    :param probabilities: the probability of every action, one column for each of `names`.
    :param names: the names of all actions.
    :param classes: the classes, sorted, as in `classes_`.
    :param visible: Which action (row) reveals which class (column).
    :param drawn: the position of the action of every row in `names`.

    >>> X = [[1.0, 0], [0, 1], [1, 1]]
    >>> model = GappletronClassifier(graph="bandit", random_state=1).fit(X * 50, ["cat", "dog", "fox"] * 50)
    >>> acts = model.act(X)
    >>> acts.actions, acts.reveals[0].tolist()
    (array(['cat', 'dog', 'fox'], dtype='<U3'), [True, False, False])
    >>> acts.hide(["cat", "dog", "dog"])
    array(['cat', 'dog', UNSEEN], dtype=object)
    >>> acts.propensity(["cat", "dog", None]).round(1)
    array([1., 1., 1.])
    """

    actions: NDArray[Any]
    probabilities: Floats
    names: tuple[Label, ...]
    classes: NDArray[Any]
    visible: NDArray[np.bool_]
    drawn: NDArray[np.int64]

    @property
    def reveals(self) -> NDArray[np.bool_]:
        """For every row which labels its action reveals, one column per class."""
        return self.visible[self.drawn]

    def hide(self, y: Any) -> NDArray[Any]:
        """Return the labels y with UNSEEN in place of those that the actions do not reveal: for simulations."""
        labels = _flatten_labels(y, len(self.drawn))
        places = _find_places(labels, self.classes)
        seen = (places != NOT_SEEN) & self.reveals[np.arange(places.size), places]
        shown = labels.astype(object)
        shown[~seen] = UNSEEN
        return shown

    def propensity(self, y: Any) -> Floats:
        """Return the probability with which each of the labels y was observed; 1 for labels that were not."""
        places = _find_places(_flatten_labels(y, len(self.drawn)), self.classes)
        chances = (self.probabilities @ self.visible)[np.arange(places.size), places]
        return np.where(places == NOT_SEEN, 1.0, np.minimum(1.0, chances))


class GappletronClassifier(ClassifierMixin, BaseEstimator):
    """Online classification under partial feedback, as a classifier of scikit-learn.

    :param learner: the name of a learner, or a learner.
    :param graph: what is seen after which prediction: the name of a preset (``"full"``, ``"bandit"``, ``"filtering"``
        and so on), or a :class:`FeedbackGraph` whose classes are the labels.
    :param revealing: the class or classes that reveal; needed for the presets that have some, since classes are sorted.
    :param costs: what actions cost at labels, where not 0 and 1: as in :class:`FeedbackGraph`, such as
        ``{("spam", "ham"): 10}``; for learners that minimise costs.
    :param normalize: how rows are scaled, as in :class:`Online`.
    :param bias: whether rows get a feature that is always 1, as in :class:`Online`.
    :param shuffle: whether `fit` takes the rows in a random order. Do so where they are sorted by class: an online
        learner that sees one class after the other forgets the first ones.
    :param random_state: the seed of the draws and of the order; an int gives the draws of :func:`play` with the same
        seed.
    :param scorer: a fitted classifier whose `predict_proba` (or `decision_function`) gives scores with every row, for
        the learner ``"auto"``; it is used as it is, and not fitted. Its classes are among those of the model, and
        those that it does not know have the probability 0. Where the model is cloned, as in a cross-validation, wrap it
        in :class:`sklearn.frozen.FrozenEstimator`.

    `fit` is one pass over the rows, by default in their order: the model acts on each, sees the label if the graph
    reveals it, and learns. With ``graph="full"`` every label is seen. Several passes are several calls of
    `partial_fit`.

    `partial_fit` learns from labels that are known, whatever the graph. A label that was not seen is UNSEEN or None in
    an array of objects, or NaN in an array of floats: such rows teach nothing. Where the labels were seen with known
    probabilities, pass them as `propensity`: learners with importance weights need them, and the default does not.
    Together with `act` this is a loop under partial feedback:

    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GappletronClassifier(graph="filtering", revealing=0)
    >>> for rows in np.array_split(np.arange(len(y)), 20):
    ...     if hasattr(model, "classes_"):
    ...         acts = model.act(X[rows])
    ...         shown = acts.hide(y[rows])  # in real use: what came back, and UNSEEN for the rest
    ...         model = model.partial_fit(X[rows], shown, propensity=acts.propensity(shown))
    ...     else:
    ...         model = model.partial_fit(X[rows], y[rows], classes=[0, 1])
    >>> model.score(X, y) > 0.9
    True

    What `partial_fit` cannot be told is that a label is *not* some class, which a wrong prediction under bandit
    feedback shows. :class:`Online` learns from that too, and takes labels that come late.

    Attributes: `classes_`, sorted; `n_features_in_`, and `feature_names_in_` where X has names of columns; `graph_`,
    the feedback graph; `player_`, the :class:`Player`, None if there is only one class. A pickled classifier holds the
    player as the bytes that :meth:`Player.save` writes.
    """

    def __init__(
        self,
        learner: Learner | str = "auto",
        graph: FeedbackGraph | str = "full",
        revealing: Any = None,
        costs: Any = None,
        normalize: Normalization | str | None = "auto",
        bias: bool | str = "auto",
        shuffle: bool = False,
        random_state: Any = 0,
        scorer: Any = None,
    ) -> None:
        self.learner = learner
        self.graph = graph
        self.revealing = revealing
        self.costs = costs
        self.normalize = normalize
        self.bias = bias
        self.shuffle = shuffle
        self.random_state = random_state
        self.scorer = scorer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --------------------------------------------------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any) -> Self:
        """Play the rows once, from the beginning: labels that the graph hides are not learned.

        >>> model = GappletronClassifier().fit([[0.0, 1.0], [1.0, 0.0]] * 10, ["dog", "cat"] * 10)
        >>> model.predict([[0.0, 1.0]]), model.classes_
        (array(['dog'], dtype='<U3'), array(['cat', 'dog'], dtype='<U3'))
        """
        given = X
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self._begin(np.unique(y) if isinstance(self.graph, str) else _sort_classes(self.graph))
        scores = self._score(given)
        if self.shuffle:
            order = np.random.default_rng(_find_seed(self.random_state)).permutation(len(y))
            X, y = X[order], y[order]
            scores = None if scores is None else scores[order]
        positions = _find_places(y, self.classes_)
        for here, chunk in self._make_chunks(X, positions):
            self.player_.advance(chunk, scores=None if scores is None else scores[here])
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, propensity: Any = None) -> Self:
        """Learn from rows whose labels are known; UNSEEN, None or NaN for labels that were not seen.

        :param classes: all labels that will ever come; needed in the first call, unless the graph names them.
        :param propensity: for each row the probability with which its label was observed; by default 1.

        >>> model = GappletronClassifier("banditron-iw", graph="bandit")
        >>> model = model.partial_fit([[1.0], [2.0]], ["a", None], classes=["a", "b", "c"], propensity=[0.5, 1.0])
        >>> model.predict_proba([[1.0]]).shape
        (1, 3)
        """
        is_first, given = not hasattr(self, "classes_"), X
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=is_first)
        labels = _flatten_labels(y, X.shape[0])
        known = self._check_classes(classes)
        positions = _find_places(labels, known)
        seen = positions != NOT_SEEN
        weights = None if propensity is None else _spread_propensity(propensity, labels.shape)[seen]
        if is_first:
            self._begin(known)
        if seen.any():
            scores = self._score(given)
            scores = None if scores is None else scores[seen]
            for here, chunk in self._make_chunks(X[seen], positions[seen]):
                own = None if scores is None else scores[here]
                self.player_.teach(chunk, None if weights is None else weights[here], own)
        return self

    def _check_classes(self, given: Any) -> NDArray[Any]:
        """Return the classes of the model, sorted: those of before, of the graph, or those given in the first call."""
        fitted = getattr(self, "classes_", None)
        if fitted is None and isinstance(self.graph, FeedbackGraph):
            fitted = _sort_classes(self.graph)
        if given is None:
            if fitted is None:
                raise UserError("classes is missing: name all labels in the first call of partial_fit")
            return fitted
        named = np.unique(np.asarray(given))
        if fitted is not None and not np.array_equal(fitted, named):
            given, known = listing(named.tolist()), listing(fitted.tolist())
            raise UserError(f"classes has {given}, and the model {known}: give the same in every call, or none")
        return named

    def _begin(self, classes: NDArray[Any]) -> None:
        """Make a new player for these classes, which are sorted; none where there is only one."""
        self.classes_ = classes
        names = plain_names(classes)
        self.graph_ = self._make_graph(names)
        self.player_: Any = None
        self._order = np.zeros(1, np.int64)
        if self.graph_ is not None:
            self._order = np.array([self.graph_.class_index(name) for name in names], np.int64)
            options: dict[str, Any] = {"normalize": self.normalize, "bias": self.bias}
            seed, features = _find_seed(self.random_state), self.n_features_in_
            self.player_ = SavedPlayer(self.learner, self.graph_, features, seed=seed, **options)

    def _make_graph(self, names: list[Any]) -> FeedbackGraph | None:
        """Return the graph over these classes, which are sorted; None where there is only one."""
        if isinstance(self.graph, FeedbackGraph):
            if self.revealing is not None:
                raise UserError("revealing is only for presets, and this graph has edges of its own: omit it")
            return self.graph if self.costs is None else self.graph.with_costs(self.costs)
        if len(names) < 2:
            return None
        if self.graph in FeedbackGraph.BY_REVEALING_CLASS and self.revealing is None:
            raise UserError(f"the {self.graph} graph needs the class that reveals, as in revealing={names[0]!r}")
        return FeedbackGraph.preset(self.graph, names, self.revealing, costs=self.costs)

    def _make_chunks(self, X: Any, positions: NDArray[np.int64]) -> Iterator[tuple[slice, Chunk]]:
        """Yield the rows with their labels as positions in the graph, and which rows they are; none where there is
        nothing to learn.
        """
        if self.player_ is None:
            return
        start = 0
        for chunk in ArrayStream(X, self._order[positions], classes=range(len(self.classes_)), name="X").chunks():
            yield slice(start, start + len(chunk.labels)), chunk
            start += len(chunk.labels)

    def _score(self, X: Any) -> Floats | None:
        """Return what the scorer says of rows as they were given: the probability of every class of the graph."""
        if self.scorer is None or self.player_ is None:
            return None
        if not hasattr(self.scorer, "classes_"):
            raise UserError(
                "the scorer is not fitted: fit it first, and where the model is cloned wrap it in FrozenEstimator"
            )
        places = {name: place for place, name in enumerate(self.classes_.tolist())}
        known = np.asarray(self.scorer.classes_).tolist()
        others = [name for name in known if name not in places]
        if others:
            raise UserError(
                f"the scorer has the class {others[0]!r}, and the model {listing(places)}: name it there too"
            )
        found = _find_probabilities(self.scorer, X)
        chances = np.zeros((len(found), len(self.classes_)))
        chances[:, self._order[[places[name] for name in known]]] = found
        return chances

    # ------------------------------------------------------------------------------------------------------- predicting

    def _check_rows(self, X: Any) -> tuple[Any, Floats | None]:
        """Return the rows, and their scores where there is a scorer."""
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False), self._score(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the greedy class of every row; with costs, that of least expected cost."""
        X, scores = self._check_rows(X)
        if self.player_ is None:
            return np.repeat(self.classes_, X.shape[0])
        return self.classes_[np.argsort(self._order)[self.player_.predict_many(X, scores=scores)]]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every class; see :meth:`Player.predict_proba` for when it is calibrated."""
        X, scores = self._check_rows(X)
        if self.player_ is None:
            return np.ones((X.shape[0], 1))
        return self.player_.predict_proba(X, scores)[:, self._order]

    def decision_function(self, X: Any) -> Floats:
        """Return the score of every class; with two classes, that of the second minus that of the first."""
        X, given = self._check_rows(X)
        if self.player_ is None:
            return np.zeros(X.shape[0])
        scores: Floats = self.player_.scores(X, given)[:, self._order]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def act(self, X: Any) -> Acts:
        """Draw an action for every row, with exploration, and say what the actions reveal; learns nothing yet.

        >>> model = GappletronClassifier(graph="bandit").fit([[1.0], [2.0], [3.0]], ["a", "b", "c"])
        >>> acts = model.act([[1.0], [2.0]])
        >>> acts.probabilities.shape, acts.reveals.sum(axis=1)
        ((2, 3), array([1, 1]))
        """
        X, scores = self._check_rows(X)
        rows = X.shape[0]
        if self.player_ is None:
            names, drawn, visible = tuple(plain_names(self.classes_)), np.zeros(rows, np.int64), np.ones((1, 1), bool)
            return Acts(self.classes_[drawn], np.ones((rows, 1)), names, self.classes_, visible, drawn)
        graph = self.player_.graph
        given = itertools.repeat(None, rows) if scores is None else scores
        turns = [self.player_.act(X[[t]] if hasattr(X, "tocsr") else X[t], scores=own) for t, own in enumerate(given)]
        drawn = np.array([turn.action for turn in turns], np.int64)
        probabilities, visible = np.array([turn.probabilities for turn in turns]), graph.visible[:, self._order]
        return Acts(self._name_actions(drawn), probabilities, graph.actions, self.classes_, visible, drawn)

    def _name_actions(self, drawn: NDArray[np.int64]) -> NDArray[Any]:
        """Return the names of actions: an array like the labels, or of objects where there are extra actions."""
        K, N = len(self.classes_), self.player_.graph.n_actions
        names = np.empty(N, self.classes_.dtype if N == K else object)
        names[self._order] = self.classes_
        names[K:] = self.player_.graph.actions[K:]
        return names[drawn]


def _find_seed(random_state: Any) -> int:
    """Return the seed of a player: an int is itself, so that the draws are those of play."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


def _find_probabilities(scorer: Any, X: Any) -> Floats:
    """Return the probabilities of a scorer's classes: its own, or the softmax of its decision values."""
    if hasattr(scorer, "predict_proba"):
        return np.asarray(scorer.predict_proba(X))
    from scipy.special import softmax

    values = np.asarray(scorer.decision_function(X))
    # The one value of two classes is the log-odds of the second.
    return np.asarray(softmax(np.outer(values, (-0.5, 0.5)) if values.ndim == 1 else values, axis=1))


def _sort_classes(graph: Any) -> NDArray[Any]:
    """Return the classes of a graph, as `classes_` has them."""
    if not isinstance(graph, FeedbackGraph):
        raise UserError(f"graph={graph!r} is neither the name of a preset nor a FeedbackGraph: give one of them")
    if len({type(name) for name in graph.classes}) > 1:
        raise UserError("the classes of the graph are of several types, and scikit-learn sorts them: name all by texts")
    return np.unique(np.array(graph.classes))


def _flatten_labels(y: Any, rows: int) -> NDArray[Any]:
    """Return labels as an array, one for each row; of objects where they are of several types, or some not seen."""
    given: NDArray[Any] = np.asarray(y)
    if given.dtype.kind in "US" and isinstance(y, list | tuple) and not all(isinstance(item, str) for item in y):
        given = np.array(y, dtype=object)
    labels: NDArray[Any] = column_or_1d(given, warn=True)
    if len(labels) != rows:
        raise UserError(f"X has {rows} rows and y has {len(labels)} labels: give one label for each row")
    return labels


def _find_places(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of every label in `classes`; NOT_SEEN where it was not seen."""
    known = {name: place for place, name in enumerate(classes.tolist())}
    places = np.full(len(labels), NOT_SEEN, np.int64)
    for row, label in enumerate(labels.tolist()):
        place = known.get(label)
        if place is None and (label is UNSEEN or (not isinstance(label, str) and is_missing(label))):
            continue
        if place is None:
            raise UserError(
                f"row {row} of y (counting from 0) has the label {label!r}, which is not among the classes "
                f"{listing(classes.tolist())}: name it from the beginning, or mark it as UNSEEN"
            )
        places[row] = place
    return places


def _spread_propensity(propensity: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the propensity of every row."""
    given = np.asarray(propensity)
    if given.shape not in ((), shape):
        raise UserError(f"propensity has the shape {given.shape}, and there are {shape[0]} rows: give one for each")
    return np.broadcast_to(given, shape)
