"""A classifier for River: :class:`RiverClassifier` takes dicts, and classes and features as they come.

The player's classes are positions, and the labels are a list beside it: a stream does not say in advance which labels
there are. As long as fewer than two are known, classes without a label take their places, so that no row has to be
kept for later.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gappletron.base.checks import whole
from gappletron.base.errors import UserError
from gappletron.base.text import listing
from gappletron.data.normalization import Normalization
from gappletron.data.records.encoder import Encoder
from gappletron.data.records.values import is_missing
from gappletron.data.vectors import Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.types import Floats
from gappletron.learners.learner import Learner
from gappletron.learners.registry import named, names
from gappletron.online.contents import SavedPlayer
from gappletron.online.receipts import UNSEEN, Unseen
from gappletron.play.player import Player
from gappletron.play.turns import LEARNED, WAITING, Turn

try:
    from river import base, compose
except ImportError:
    raise UserError("River is not installed: pip install river") from None


class RiverAct(NamedTuple):
    """An action for a dict of features, drawn by :meth:`RiverClassifier.act_one`.

    :param action: what to do: a label, or an extra action such as a query.
    :param probability: the probability with which it was drawn.
    :param reveals: the labels that the action reveals.
    :param reveals_all: whether it reveals every label, also those that are not known yet.
    :param x: the features.
    :param turn: what learning from it needs; its status says whether its feedback was taken in.

    >>> model = RiverClassifier(graph="bandit", classes=("cat", "dog", "fox"))
    >>> act = model.act_one({"weight": 4.0})
    >>> act.action in ("cat", "dog", "fox"), act.reveals == (act.action,)
    (True, True)
    """

    action: Any
    probability: float
    reveals: tuple[Any, ...]
    reveals_all: bool
    x: Mapping[Any, Any]
    turn: Turn


class RiverClassifier(base.Classifier):
    """Online classification under partial feedback, as a classifier of River.

    :param learner: the name of a learner, or a learner.
    :param graph: what is seen after which prediction: the name of a preset, or a :class:`FeedbackGraph` whose classes
        are the labels. New labels are added as they come, but not to a graph of your own.
    :param revealing: the label or labels that reveal, for the presets that have some.
    :param classes: labels that are known in advance. Where only the label of the prediction is revealed (`bandit`), a
        label that is not known is never seen.
    :param encoder: turns the dicts into features; by default ``Encoder()``.
    :param normalize: how rows are scaled, as in :class:`Online` with an encoder.
    :param bias: whether rows get a feature that is always 1.
    :param seed: of the draws.
    :param scorer: a classifier of River whose `predict_proba_one` gives scores with every dict, for the learner
        ``"auto"``. Labels that it does not know yet have the probability 0. It learns too, by its `learn_one`, each
        label that is revealed, after the scores of that dict were used.

    `learn_one` learns a label that is known, whatever the graph, without acting: so the model works with
    `progressive_val_score`, also with delay. `act_one` draws an action with exploration, and `learn_from` takes in what
    it revealed; :func:`evaluate` does both.

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.Phishing(), RiverClassifier(), metrics.Accuracy()).get() > 0.85
    True
    """

    def __init__(
        self,
        learner: Learner | str = "auto",
        graph: FeedbackGraph | str = "full",
        revealing: Any = None,
        classes: tuple[Any, ...] | None = None,
        encoder: Encoder | None = None,
        normalize: Normalization | str | None = "auto",
        bias: bool | str = "auto",
        seed: int = 0,
        scorer: base.Classifier | None = None,
    ) -> None:
        self.learner = _name_learner(learner)
        self.graph = graph
        self.revealing = revealing
        self.classes = classes or None
        self.encoder = encoder
        self.normalize = normalize
        self.bias = bias
        self.seed = seed
        self.scorer = scorer
        self._encoder = Encoder() if encoder is None else encoder
        self._labels: list[Any] = _find_first_labels(graph, revealing, classes or ())
        self._places = {label: place for place, label in enumerate(self._labels)}
        self._player: Any = None

    _multiclass = True

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels that are known so far."""
        return tuple(self._labels)

    # -------------------------------------------------------------------------------------------------- River's methods

    def learn_one(self, x: Mapping[Any, Any], y: Any, propensity: float | None = None) -> None:
        """Learn the label of x, whatever the graph; a label that is new becomes a class.

        :param propensity: the probability with which the label was observed; by default 1.

        >>> model = RiverClassifier()
        >>> for _ in range(10):
        ...     model.learn_one({"word": "prize"}, "spam")
        ...     model.learn_one({"word": "meeting"}, "ham")
        >>> model.predict_one({"word": "prize"})
        'spam'
        """
        label, vector = _check_label(y), self._encoder.vector(x)  # x is checked before a label is added
        if label not in self._places:
            self._add_label(label)
        player = self._get_player()
        player.teach_vector(vector, self._places[label], propensity, player.check_scores(self._score(x)))
        self._teach_scorer(x, label)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Return the greedy label for x; None as long as no label is known."""
        if len(self._labels) < 2:
            return self._labels[0] if self._labels else None
        return self._labels[self._get_player().predict(self._encoder.vector(x), scores=self._score(x))]

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of every label that is known so far; see :meth:`Player.predict_proba`."""
        if len(self._labels) < 2:
            return dict.fromkeys(self._labels, 1.0)
        scores = self._score(x)
        rows, given = Vectors.join([self._encoder.vector(x)]), None if scores is None else [scores]
        found: Floats = self._get_player().predict_proba(rows, given)[0]
        return dict(zip(self._labels, found.tolist(), strict=True))

    # ------------------------------------------------------------------------------------------------- partial feedback

    def act_one(self, x: Mapping[Any, Any]) -> RiverAct:
        """Draw an action for x, with exploration.

        >>> model = RiverClassifier(graph="filtering", revealing="ham", classes=("ham", "spam"))
        >>> act = model.act_one({"word": "prize"})
        >>> model.learn_from(act, "spam" if "spam" in act.reveals else UNSEEN)
        """
        if len(self._labels) < 2:
            known = "only one label is known" if self._labels else "no labels are known"
            raise UserError(f"{known}, and acting is a choice: name them in classes=(...), or learn some (learn_one)")
        player = self._get_player()
        turn = player.act(self._encoder.encode(x), scores=self._score(x))
        row = player.graph.visible[turn.action]
        K = len(self._labels)
        action = self._labels[turn.action] if turn.action < K else player.graph.actions[turn.action]
        reveals = tuple(self._labels[k] for k in np.flatnonzero(row))
        reveals_all = self.graph != "bandit" and bool(row.all())  # then a new label too
        return RiverAct(action, turn.probability, reveals, reveals_all, x, turn)

    def learn_from(self, act: RiverAct, label: Any | Unseen) -> None:
        """Take in the feedback of an action, now or later: the label, or UNSEEN where the action did not reveal it."""
        if act.turn.status != WAITING:
            raise UserError(f"the action of round {act.turn.round} was already learned from: feedback counts once")
        if label is UNSEEN:
            if act.reveals_all:
                raise UserError(f"the action {act.action!r} reveals every label: give it, or do not learn from it")
            self._get_player().learn(act.turn, -1)
        else:
            self._learn_revealed(act, _check_label(label))

    def _learn_revealed(self, act: RiverAct, label: Any) -> None:
        place, graph = self._places.get(label), act.turn.graph
        if place is not None and place < graph.n_classes and graph.visible[act.turn.action, place]:
            self._get_player().learn(act.turn, place)
            self._teach_scorer(act.x, label)
        elif act.reveals_all:  # a label that was not known when the action was drawn
            self.learn_one(act.x, label, min(1.0, float(act.turn.probabilities @ graph.arrays.revealing)))
            act.turn.status = LEARNED
        else:
            raise UserError(f"the action {act.action!r} does not reveal the label {label!r}: pass UNSEEN")

    # ----------------------------------------------------------------------------------------------------------- inside

    def _score(self, x: Mapping[Any, Any]) -> Floats | None:
        """Return the scorer's probability of every class; None where there is no scorer, or it knows none of them."""
        if self.scorer is None:
            return None
        found, chances = self.scorer.predict_proba_one(x), np.zeros(self._get_player().graph.n_classes)
        for label, chance in found.items():
            place = self._places.get(label)
            if place is not None:
                chances[place] = chance
        total = chances.sum()
        return chances / total if total > 0.0 else None

    def _teach_scorer(self, x: Mapping[Any, Any], label: Any) -> None:
        if self.scorer is not None:
            self.scorer.learn_one(x, label)

    def _get_player(self) -> Player:
        """Return the player, which is made when it is needed."""
        if self._player is None:
            options: dict[str, Any] = {"normalize": self.normalize, "bias": self.bias, "seed": self.seed}
            features, graph = self._encoder.features, self._make_graph()
            self._player = SavedPlayer(self.learner, graph, features, rows="records", **options)
        return self._player

    def _make_graph(self) -> FeedbackGraph:
        """Return the graph over positions of labels, two at least; the first ones reveal."""
        if isinstance(self.graph, FeedbackGraph):
            return self.graph
        revealing = None if self.revealing is None else list(range(len(_as_list(self.revealing))))
        return FeedbackGraph.preset(self.graph, max(2, len(self._labels)), revealing)

    def _add_label(self, label: Any) -> None:
        """Take in a new label: it becomes one of the classes without a label, or a new class."""
        if isinstance(self.graph, FeedbackGraph):
            known = listing(self.graph.classes)
            raise UserError(f"the label {label!r} is not among those of the graph, {known}: add it there")
        place = len(self._labels)
        if self._player is not None and place >= self._player.graph.n_classes:
            self._player.add_class(place)
        self._labels.append(label)
        self._places[label] = place


class Evaluation(NamedTuple):
    """What :func:`evaluate` found: the metric of the actions, the number of rounds, and how many labels were seen."""

    metric: Any
    rounds: int
    labels_seen: int


def evaluate(
    dataset: Iterable[tuple[Mapping[Any, Any], Any]],
    model: RiverClassifier | compose.Pipeline,
    metric: Any,
    *,
    delay: int = 0,
) -> Evaluation:
    """Play a dataset of River: the model acts, and learns only the labels that its graph reveals.

    :param dataset: pairs of a dict of features and a label.
    :param model: a :class:`RiverClassifier`, or a pipeline that ends in one. Transformers learn from every row, those
        that need labels from the labels that are seen.
    :param metric: a metric of River that takes labels; it is updated with the actions.
    :param delay: how many rounds later the feedback comes.

    `progressive_val_score` reveals every label to the model; this does not.

    >>> from river import datasets, metrics
    >>> model = RiverClassifier(graph="filtering", revealing=True, classes=(True, False))
    >>> result = evaluate(datasets.Phishing(), model, metrics.Accuracy())
    >>> result.rounds, result.labels_seen < 800, result.metric.get() > 0.8
    (1250, True, True)
    """
    *transformers, classifier = model.steps.values() if isinstance(model, compose.Pipeline) else (model,)
    if not isinstance(classifier, RiverClassifier):
        raise UserError(
            f"{type(classifier).__name__} is not a RiverClassifier: give one, or a pipeline that ends in one, since "
            "other models do not act on a graph"
        )
    whole(delay, "delay")
    waiting: deque[tuple[RiverAct, Mapping[Any, Any], Any]] = deque()
    rounds = seen = 0
    for x, y, *_ in dataset:
        act = classifier.act_one(_transform(transformers, x))
        metric.update(y, act.action)
        rounds += 1
        waiting.append((act, x, y))
        if len(waiting) > delay:
            seen += _tell(classifier, transformers, *waiting.popleft())
    for found in waiting:
        seen += _tell(classifier, transformers, *found)
    return Evaluation(metric, rounds, seen)


def _transform(transformers: Iterable[Any], x: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return x as the classifier of a pipeline sees it; the transformers learn from it what needs no label."""
    for transformer in transformers:
        if not _is_supervised(transformer):
            transformer.learn_one(x)
        x = transformer.transform_one(x)
    return x


def _is_supervised(transformer: Any) -> bool:
    return bool(getattr(transformer, "_supervised", False))


def _tell(
    classifier: RiverClassifier, transformers: Iterable[Any], act: RiverAct, x: Mapping[Any, Any], y: Any
) -> bool:
    """Tell the model what the action reveals of the label; return whether that is the label."""
    is_seen = act.reveals_all or _check_label(y) in act.reveals
    classifier.learn_from(act, y if is_seen else UNSEEN)
    for transformer in transformers if is_seen else ():
        if _is_supervised(transformer):
            transformer.learn_one(x, y)
        x = transformer.transform_one(x)
    return is_seen


def _name_learner(learner: Any) -> Any:
    """Return a registered learner as its name: River cannot clone an empty tuple, which one without parameters is."""
    if isinstance(learner, Learner) and learner.name in names() and named(learner.name) == learner:
        return learner.name
    return learner


def _find_first_labels(graph: Any, revealing: Any, classes: Any) -> list[Any]:
    """Return the labels that are known before any row, those that reveal first."""
    if isinstance(graph, FeedbackGraph):
        if classes or revealing is not None:
            raise UserError("the graph names its classes and what they reveal: leave out classes and revealing")
        return list(graph.classes)
    if isinstance(classes, str):
        raise UserError(f"classes must be a tuple of labels, not the text {classes!r}")
    if graph in FeedbackGraph.BY_REVEALING_CLASS and revealing is None:
        raise UserError(f"the {graph} graph needs the label that reveals: name it in revealing=...")
    first = () if revealing is None else _as_list(revealing)
    return list(dict.fromkeys(_check_label(label) for label in (*first, *classes)))


def _as_list(revealing: Any) -> list[Any]:
    return list(revealing) if isinstance(revealing, list | tuple) else [revealing]


def _check_label(label: Any) -> Any:
    """Return a label without NumPy's types."""
    plain = label.item() if isinstance(label, np.generic) else label
    if is_missing(plain) or not isinstance(plain, Hashable):
        raise UserError(f"{label!r} cannot be a label: give a text, a whole number or a boolean")
    return plain
