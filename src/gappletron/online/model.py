"""One round at a time, for real use: act now, learn when the feedback comes, save and go on later.

:class:`Online` is a :class:`~gappletron.play.player.Player` with names, receipts, a lock and a store.
"""

from __future__ import annotations

import copy
import functools
import itertools
import time
from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np

from gappletron.base.checks import Label, number, whole
from gappletron.base.errors import KeyReused, UserError
from gappletron.base.parts import part
from gappletron.base.signals import held_back
from gappletron.base.tables import make_html
from gappletron.base.text import listing
from gappletron.data.records.encoder import Encoder
from gappletron.data.records.kept_names import KeptName, KeptNames
from gappletron.data.vectors import Vectors
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.compiling import list_classes
from gappletron.kernel.pieces import Piece
from gappletron.kernel.types import NO_VECTOR, Floats, Vector
from gappletron.learners.learner import Learner
from gappletron.learners.run_bound import Restart, RunBound
from gappletron.online import events, transitions
from gappletron.online.access import DurableModel, changing, looking
from gappletron.online.contents import FORMAT, TOGETHER, Contents
from gappletron.online.database import NAME, Place
from gappletron.online.events import Answer
from gappletron.online.explanation import Explanation, make_explanation
from gappletron.online.feature_weights import FeatureWeights, make_feature_weights
from gappletron.online.journal import WEEK, Journal, Policy
from gappletron.online.opening import Past, open_contents, read_model, read_past
from gappletron.online.receipts import Receipt, Receipts, Unseen, WaitingLimits
from gappletron.play import archive
from gappletron.play.checks import check_distribution, check_propensities
from gappletron.play.limits import Budget, Limits, LimitsReport
from gappletron.play.monitor import Monitor
from gappletron.play.monitor_state import NoWatch
from gappletron.play.options import Options, takes_options
from gappletron.play.player import Player

# Bytes in an idempotency key and in a fingerprint.
MOST_KEY, MOST_FINGERPRINT = 255, 64
# Letters of the name of who asked for a change.
MOST_WHO = 200


class Online(DurableModel):
    """A model that decides one row at a time, and learns from feedback when it comes.

    :param learner: a learner, or the name of one; ``"auto"`` is the default (docs, page Default).
    :param graph: which action reveals which label; its class names are the labels.
    :param features: the number of features; indices run from 0 to features - 1. With ``"grow"`` any index is accepted,
        and the model is as large as the features that have come.
    :param encoder: turns records (dicts, rows of frames, texts) into features; then `act`, `predict`, `teach` and
        batches take records, and `features` is the encoder's.
    :param options: the fields of :class:`gappletron.play.options.Options`: `seed`, `normalize`, `bias`, `monitor`,
        `min_propensity`, `budget`, `memory`, `max_features`, `pending`, `pending_bytes` and `pending_age`.

    >>> from gappletron import FeedbackGraph, Online, UNSEEN
    >>> model = Online("gapsmh", FeedbackGraph.apple_tasting(), features=3, seed=0)
    >>> for x, label in [([1.0, 0, 1], "ham"), ([1.0, 1, 0], "spam")] * 50:
    ...     receipt = model.act(x)
    ...     model.learn(receipt, label if label in receipt.reveals else UNSEEN)
    >>> model.predict([1.0, 0, 1]), model.predict([1.0, 1, 0])
    ('ham', 'spam')

    Feedback may come later, out of order, by receipt or by its id; an action that is never followed by `learn` simply
    had no feedback. The default learner learns late feedback as if the row came today. Learners of the paper take the
    gradient at the scores of prediction time and apply it to the weights of today.

    Several threads may share a model: a lock lets one at a time in. Where a signal handler raises in the middle of
    `act`, the model is as before or the receipt is in `pending`; in the middle of `learn`, the receipt still waits
    exactly if nothing was learned from it, so it is safe to try again.
    """

    @takes_options(Options)
    def __init__(
        self,
        learner: Learner | str = "auto",
        graph: FeedbackGraph | None = None,
        features: int | str = "grow",
        *,
        encoder: Encoder | None = None,
        **options: Any,
    ) -> None:
        self._adopt(Contents.make(learner, graph, features, encoder, **options))

    def _adopt(self, contents: Contents) -> None:
        """Be the model with these contents; machine code is made now rather than in a round."""
        super().__init__(contents)
        self._player, self._receipts = contents.player, contents.receipts
        self._player.engine.compile_rounds()

    @classmethod
    def _from_contents(cls, contents: Contents) -> Online:
        model = cls.__new__(cls)
        model._adopt(contents)
        return model

    def __repr__(self) -> str:
        what = f"{self.rounds} rounds, {self.waiting} waiting, {self.features} features"
        return f"<Online {self.learner.name} on {self.graph}: {what}>"

    def _repr_html_(self) -> str:
        facts = {
            "learner": self.learner.name,
            "graph": self.graph.caption,
            "classes": listing(self.graph.classes),
            "x is": "a vector" if self.encoder is None else repr(self.encoder),
            "rounds": f"{self.rounds:,}",
            "waiting for feedback": f"{self.waiting:,}",
            "features": f"{self.features:,}",
        }
        return make_html(("Online", ""), facts.items())

    @classmethod
    def from_player(cls, player: Player, encoder: Encoder | None = None) -> Online:
        """Return a model around a player, which goes on where the player is."""
        if encoder is not None and encoder.features != player.engine.features:
            raise UserError("the encoder and the player differ in features: make Player(features=encoder.features)")
        receipts = Receipts(player.rounds, WaitingLimits.select(Options()))
        return cls._from_contents(Contents(player, encoder, receipts))

    # ------------------------------------------------------------------------------------------------------ what it is

    learner: Learner = part("_player.learner", "The learner with all its numbers.")
    graph: FeedbackGraph = part("_player.graph", "The feedback graph of rounds for which no other is given.")
    limits: Limits = part("_player.limits", "The limits on the exploration.")
    rounds: int = part("_player.rounds", "The number of actions taken so far.")
    features: int = part("_player.features", "How many features have a row of the state: all, or those that have come.")
    fixed_features: int | None = part(
        "_player.fixed_features", "How many features a dense row must have; None for any."
    )
    grows: bool = part("_player.grows", "Whether a feature gets a row of the state when it first comes.")
    max_features: int = part("_player.max_features", "How many features may have a row; later ones are left out.")
    features_left_out: int = part(
        "_player.features_left_out", "How many entries were left out, as there was no row left."
    )

    @property
    def player(self) -> Player:
        """The player underneath, for playing in bulk; it is not locked, so let no other thread use the model
        meanwhile. A model with a store has none to show: what it played would not be logged.
        """
        if self._contents.journal is not None:
            raise UserError("nothing that the player of a model with a store plays is logged: save and load a copy")
        return self._player

    @property
    def encoder(self) -> Encoder | None:
        """What turns records into features; None for a model of vectors."""
        return self._contents.encoder

    @encoder.setter
    def encoder(self, encoder: Encoder | None) -> None:
        """Set another encoder with as many features, such as one that declares more columns."""
        given, contents = encoder, self._contents
        if contents.journal is not None:
            raise UserError("the encoder of a model with a store cannot be replaced: make another model")
        if contents.encoder is None or given is None or given.features != self._player.engine.features:
            raise UserError("an encoder can only replace one with as many features: make another model")
        contents.encoder = given

    @property
    @looking
    def weights(self) -> Floats:
        """W as a matrix of features x classes; with a bias, its weights are the first row."""
        return self._player.weights

    @property
    @looking
    def pending(self) -> tuple[Receipt, ...]:
        """The receipts that still wait for feedback, oldest first."""
        return tuple(self._receipts.waiting)

    @property
    def waiting(self) -> int:
        """How many receipts wait for feedback: the length of :attr:`pending`, without making it."""
        receipts = self._receipts
        return len(receipts.pending) if receipts.is_settled else len(self.pending)

    pending_limits: WaitingLimits = part(
        "_receipts.limits", "How many receipts may wait, how much memory they may take, and for how many seconds each."
    )

    @property
    def expired(self) -> dict[str, int]:
        """How many receipts have expired since the model was made or opened, by the limit that was exceeded."""
        return {limit: self._receipts.expired[limit] for limit in WaitingLimits._fields}

    @property
    @looking
    def monitor(self) -> Monitor:
        """What is known of the error so far, from revealed labels alone; with ``monitor=True``, and by :meth:`open`."""
        if isinstance(self._player.watch, NoWatch):
            raise UserError("the model is not monitored: make it with Online(..., monitor=True)")
        return Monitor(self._player, self._receipts.count_shown())

    @property
    @looking
    def limits_report(self) -> LimitsReport:
        """What the limits have done so far: what the budget has left of `min_propensity`, and what is spent of it."""
        return self._player.report_limits(time.time())

    # ---------------------------------------------------------------------------------------------------------- playing

    @changing
    def act(self, x: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> Receipt:
        """Draw an action for x, one row; :meth:`act_many` takes many.

        :param x: for a model with an encoder a record: a dict, a named tuple, a row of a frame, or a text. For one
            without: ``(indices, values)`` (the fastest), a dense vector of length `features`, a one-row scipy sparse
            matrix, or a mapping from index to value. Values of a repeated index are added up.
        :param graph: the feedback graph of this round, where it is not the model's own: any graph over the same
            classes and actions. The theorems cover graphs that change (docs, page Theory).
        :param scores: what a model of your own says of x (docs, page Scores of your own model): a mapping from every
            class to its score, or numbers in the order of the classes. Numbers from 0 to 1 that add up to 1 are
            probabilities; of others the softmax is taken.
        """
        given = None if scores is None else self._player.check_scores(scores)
        contents = self._contents
        vector = contents.check_row(x)
        receipt = self._decide(vector, graph, time.time(), given=given)
        if contents.keeps_names:
            self._add_names(contents.find_new_names([x], [vector]))
        return receipt

    def _add_names(self, found: Iterable[KeptName]) -> None:
        """Keep names of features."""
        names = list(map(list, found))
        if names:
            self._make_change(events.Named(time.time(), names), None)

    @changing
    def keep_names(self, names: KeptNames) -> None:
        """Keep the names of records that were played or taught as vectors, for :meth:`feature_weights`.

        :param names: those of a stream that was read (``stream.names``) with the model's encoder.
        """
        if not self._contents.keeps_names:
            raise UserError("the model keeps no names of features: make it with Encoder(names=True)")
        known = {(name.feature, name.text) for name in self._contents.names}
        self._add_names(name for name in names if (name.feature, name.text) not in known)

    def _decide(
        self,
        vector: Vector,
        graph: FeedbackGraph | None,
        now: float,
        followed: tuple[int, Any] | None = None,
        given: Floats | None = None,
    ) -> Receipt:
        receipt = transitions.decide(self._contents, vector, graph, now, followed, given)
        if not self._receipts.is_settled or self._receipts.limits.pending_age is not None:
            transitions.expire_overdue(self._contents, now)
        return receipt

    @changing
    def act_many(self, X: Iterable[Any], graph: FeedbackGraph | None = None, scores: Any = None) -> list[Receipt]:
        """Draw an action for every row of X, in order: as :meth:`act` does, in one transaction.

        All are checked before the first is played.

        :param X: rows as those of :meth:`act`. For a model with an encoder also a frame of pandas or polars or a table
            of Arrow; for one without also a SciPy sparse matrix, which is the fastest.
        :param scores: those of every row: a 2-D array (the fastest), or a sequence of what :meth:`act` takes.
        """
        X = self._list_named(X)
        rows, now = self._contents.check_rows(X), time.time()
        receipts = self._decide_all(rows, graph, now, scores)
        self._add_names(self._contents.find_new_names(X, rows))
        return receipts

    def _list_named(self, X: Any) -> Any:
        """Return many records, whose names are to be kept, in a form that can be read twice."""
        return list(X) if self._contents.keeps_names and not hasattr(X, "columns") else X

    def _decide_all(
        self, rows: list[Vector] | Vectors, graph: FeedbackGraph | None, now: float, scores: Any
    ) -> list[Receipt]:
        if not isinstance(rows, Vectors):
            given = self._contents.check_many_scores(scores, len(rows))
            each = given if given.size else itertools.repeat(None)
            return [self._decide(vector, graph, now, given=own) for vector, own in zip(rows, each, strict=False)]
        given = self._contents.check_many_scores(scores, rows.squared.size)
        with held_back():
            receipts = transitions.decide_many(self._contents, rows, graph, now, given)
            transitions.expire_overdue(self._contents, now)
        return receipts

    @changing
    def follow(
        self, x: Any, action: Label, probabilities: Any, graph: FeedbackGraph | None = None, scores: Any = None
    ) -> Receipt:
        """Play a round in which another model has decided: this one is its shadow, and learns from the same feedback.

        Its monitor estimates what its own predictions would have led to.

        :param x: as that of :meth:`act`; or the features of a logged decision, as a pair of arrays.
        :param graph, scores: as those of :meth:`act`.
        :param action: what the other model did.
        :param probabilities: with which the other drew it, of all actions; those of its receipt.
        """
        position = self.graph.action_index(action)
        chances = check_distribution(probabilities, self.graph.n_actions)  # before the state grows
        if chances[position] <= 0.0:
            raise UserError(f"{action!r} has the probability 0: give the probabilities that it was drawn with")
        given = self._player.check_scores(scores)
        vector = self._player.check(x) if isinstance(x, tuple) else self._contents.check_row(x)
        receipt = self._decide(vector, graph, time.time(), (position, chances), given)
        if not isinstance(x, tuple):
            self._add_names(self._contents.find_new_names([x], [vector]))
        return receipt

    @changing
    def learn(self, receipt: Receipt | str, label: Label | Unseen) -> None:
        """Take in the feedback of one action: the label, or UNSEEN where the round is over and the graph hid it.

        :meth:`learn_many` takes that of many.
        """
        waiting = self._receipts.find(receipt, self._player)
        position = self._contents.check_label(waiting, label)
        transitions.learn(self._contents, waiting, position, time.time())

    @changing
    def learn_many(self, feedback: Iterable[tuple[Receipt | str, Label | Unseen]]) -> None:
        """Take in the feedback of several actions, in order: as :meth:`learn` does, in one transaction.

        All are checked before the first is learned from: where one is refused, nothing is learned.
        """
        found, now, own = self._contents.check_feedback(feedback), time.time(), self.graph
        if len(found) >= TOGETHER and all(receipt.turn.graph is own for receipt, _ in found):
            with held_back():
                transitions.learn_many(self._contents, found, now)
        else:
            for receipt, position in found:
                transitions.learn(self._contents, receipt, position, now)

    @changing
    def teach(
        self, x: Any, label: Label, propensity: float | None = None, scores: Any = None, *, who: str | None = None
    ) -> None:
        """Learn the label of x without acting: a warm start from rows whose labels are known.

        The label is learned as if the graph revealed every label, whatever is predicted; see :meth:`Player.teach`, also
        for the learners that cannot be taught. There is no receipt, and `rounds` and the draws stay as they are. Where
        a signal handler raises in the middle, the model has learned the row or is as before.

        :param x, scores: as those of :meth:`act`.
        :param propensity: the probability with which the label was observed; by default 1.
        :param who: who has asked for the change: a name for the log.
        """
        known = None if propensity is None else number(propensity, "propensity", above=0.0, most=1.0)
        position, vector = self.graph.class_index(label), self._contents.check_row(x)
        given = self._player.check_scores(scores)
        row = vector.indices.tolist(), vector.values.tolist(), None if given is None else given.tolist()
        self._make_change(events.Taught(time.time(), position, known, *row), who)
        self._add_names(self._contents.find_new_names([x], [vector]))

    @changing
    def teach_many(
        self, X: Any, labels: Iterable[Label], propensity: Any = None, scores: Any = None, *, who: str | None = None
    ) -> None:
        """Learn the labels of many rows, in order: as :meth:`teach` does, in one transaction.

        All are checked before the first is learned.

        :param X, scores: as those of :meth:`act_many`.
        :param labels: one for each row.
        :param propensity: a number for each row, or one for all; by default 1.
        :param who: who has asked for the change: a name for the log.

        >>> from gappletron import Encoder, FeedbackGraph, Online
        >>> model = Online(graph=FeedbackGraph.filtering(["ham", "spam"]), encoder=Encoder())
        >>> model.teach_many(["win a prize", "see you at five"] * 20, ["spam", "ham"] * 20)
        >>> model.predict("a prize")
        'spam'
        """
        X = self._list_named(X)
        rows, now = self._contents.check_rows(X), time.time()
        vectors = rows.each() if isinstance(rows, Vectors) else rows
        places = [self.graph.class_index(label) for label in labels]
        if len(places) != len(vectors):
            raise UserError(f"there are {len(vectors)} rows and {len(places)} labels: give one for each row")
        observed = check_propensities(propensity, len(vectors)).tolist()
        given = self._contents.check_many_scores(scores, len(vectors)).tolist() or itertools.repeat(None)
        known = itertools.repeat(None) if propensity is None else observed
        for vector, place, chance, own in zip(vectors, places, known, given, strict=False):
            row = vector.indices.tolist(), vector.values.tolist(), own
            self._make_change(events.Taught(now, place, chance, *row), who)
        self._add_names(self._contents.find_new_names(X, rows))

    @changing
    def reset(self, *, who: str | None = None) -> None:
        """Let the learner forget what may be out of date, as if it had noticed a change; what it knows stays in part.

        For the day when you know of a change before the model does. The log keeps it, and `who` has asked for it.
        """
        self._make_change(events.WasReset(time.time()), who)

    def _make_change(self, event: events.Change, who: str | None, **given: Any) -> None:
        transitions.change(self._contents, event, _check_name(who), **given)

    @looking
    def bound(self) -> RunBound | None:
        """Return what is proved about the cost so far, for the learner `auto`; None for learners without a bound."""
        return self._player.bound(self._receipts.count_shown())

    @property
    @looking
    def restarts(self) -> tuple[Restart, ...]:
        """The last restarts of the learner, oldest first: where it noticed a change, or was reset."""
        return self._player.restarts

    @changing
    def forget(self, receipt: Receipt | str) -> None:
        """Stop waiting for the feedback of an action, since none will come; nothing is learned."""
        waiting = self._receipts.find(receipt, self._player)
        transitions.forget(self._contents, waiting, time.time())

    @looking
    def receipt(self, id: str) -> Receipt:
        """Return the waiting receipt with this id."""
        return self._receipts.find(id, self._player)

    @looking
    def predict(self, x: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> Any:
        """Return the greedy class for x; for many rows those of all, as :meth:`predict_many` does.

        Draws nothing and changes nothing.

        :param x: one row, as that of :meth:`act`; or many: a frame, a table, an array with two dimensions, a sparse
            matrix of several rows, or a list of records.
        :param graph, scores: as those of :meth:`act`; the graph matters to learners that use its costs.
        """
        if self._contents.holds_many(x):
            return self.predict_many(x, graph, scores)
        player = self._player
        vector, given = self._contents.check_row(x), player.check_scores(scores)
        return player.graph.classes[player.predict_vector(vector, NO_VECTOR.values, given, graph)]

    @looking
    def predict_both(self, x: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> tuple[Label, Floats]:
        """Return the greedy class for x, and the probability of every label: :meth:`predict` and :meth:`predict_proba`
        for one row in one call.
        """
        player = self._player
        vector, given = self._contents.check_row(x), player.check_scores(scores)
        chances = np.empty(player.graph.n_classes)
        return player.graph.classes[player.predict_vector(vector, chances, given, graph)], chances

    @looking
    def explain(self, x: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> Explanation:
        """Return why x is decided as it is: what each column, word and category adds to the score of the decided class
        against the next.

        Draws nothing and changes nothing. The names of words and categories come from the record itself: nothing must
        have been kept. For learners whose scores are linear, as those of nearly all are (docs, page Explain).

        :param x, graph, scores: as those of :meth:`act`.
        """
        player, contents = self._player, self._contents
        vector, given = contents.check_row(x), player.check_scores(scores)
        names = {} if contents.encoder is None else contents.encoder.name_features(x)
        found = player.explain(vector, graph, given)
        return make_explanation(found, vector, names, player.graph, player.engine.bias)

    @looking
    def feature_weights(self, top: int = 20) -> FeatureWeights:
        """Return the columns, categories and words with the largest weights for each class, by their names.

        For models with ``Encoder(names=True)``, whose learner has linear scores. Draws nothing and changes nothing.

        :param top: so many of each class, the largest by size.
        """
        contents, player, most = self._contents, self._player, whole(top, "top", least=1)
        if not contents.keeps_names:
            raise UserError(
                "the model keeps no names of features, so its weights cannot be told apart: make it with "
                "Encoder(names=True)"
            )
        return make_feature_weights(player, contents.names, most)

    @looking
    def predict_many(self, X: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> list[Label]:
        """Return the greedy class of every row of a dense array, a sparse matrix or a frame of numbers, as a list.

        With an encoder: of every record of a frame or a list. For one row there is :meth:`predict`.

        :param scores: as those of :meth:`act_many`.
        """
        found = self._player.predict_many(self._contents.encode_rows(X), graph, scores)
        return [self.graph.classes[position] for position in found]

    @looking
    def scores(self, X: Any, scores: Any = None) -> Floats:
        """Return the scores of every row, one column per class; most learners predict that of the largest.

        :param scores: as those of :meth:`act_many`: of your own model, to which the learner's are added.
        """
        return self._player.scores(self._contents.encode_rows(X), scores)

    @looking
    def predict_proba(self, X: Any, scores: Any = None) -> Floats:
        """Return the probability of every label, one column per class; see :meth:`Player.predict_proba`.

        :param scores: as those of :meth:`act_many`.
        """
        player, vector = self._player, self._contents.check_only_row(X)
        if vector is None:
            return player.predict_proba(self._contents.encode_rows(X), scores)
        chances, given = np.empty((1, player.graph.n_classes)), self._contents.check_many_scores(scores, 1)
        player.predict_vector(vector, chances[0], given[0] if given.size else None)
        return chances

    @looking
    def probabilities(self, X: Any, graph: FeedbackGraph | None = None, scores: Any = None) -> Floats:
        """Return the probability of every action, one column per action of the graph, if the row came next.

        :param scores: as those of :meth:`act_many`.
        """
        return self._player.probabilities(self._contents.encode_rows(X), graph, scores)

    @looking
    def compile_batches(self) -> None:
        """Load from the cache, or have compiled, what :meth:`act_many`, :meth:`learn_many` and predictions need, before
        many rows come in; nothing is played.
        """
        from scipy.sparse import csr_array

        nothing = self._player.check_many(csr_array((0, 1)))
        assert nothing is not None
        self._player.draw_many(nothing)
        self._player.learn_many([], [])
        self._player.predict_many(nothing)
        self._player.predict_proba(nothing)
        self._player.predict_vector(NO_VECTOR, np.empty(self.graph.n_classes))
        if self.encoder is not None:
            plain = Encoder(features=self.encoder.features, ngrams=self.encoder.ngrams)  # takes any column
            plain.encode({"text": "word", "number": 1.0})
            plain.encode_many(["word"])

    @looking
    def compile_following(self) -> None:
        """Load from the cache, or have compiled, what :meth:`follow` needs, before a decision comes."""
        self._player.engine.compile_following()

    # ---------------------------------------------------------------------------------------------------------- growing

    @changing
    def add_class(
        self,
        name: Label,
        reveals: Iterable[Label] | None = None,
        revealed_by: Iterable[Label] | None = None,
        costs: Any = None,
        *,
        who: str | None = None,
    ) -> None:
        """Add a class, and the action that predicts it, while running; what was learned stays.

        :param reveals: the classes that the new action reveals (the new one may be among them).
        :param revealed_by: the actions that reveal the new class. Where neither is given, a preset's graph stays that
            preset.
        :param costs: those of the new class and of its action, where they are not 0 and 1: single entries as in
            :class:`FeedbackGraph`. The other costs stay.
        :param who: who has asked for the change: a name for the log.

        Receipts that wait can still be learned from: they did not reveal the new class.
        """
        self._set_graph(self.graph.with_class(name, reveals, revealed_by, costs), events.Added, who)

    def _set_graph(self, graph: FeedbackGraph, kind: Any, who: str | None) -> None:
        version = 0 if self._contents.journal is None else self._contents.journal.find_version(graph)
        self._make_change(kind(time.time(), version), who, graphs={version: graph})
        self._player.engine.compile_rounds()

    @changing
    def set_graph(self, graph: FeedbackGraph, *, who: str | None = None) -> None:
        """Go on with a graph that has other edges or costs, and perhaps more classes; what was learned stays.

        Receipts that wait keep the graph that they were decided under: what it reveals, and what it costs.

        :param graph: such as ``model.graph.with_costs({("spam", "ham"): 10})``.
        :param who: who has asked for the change: a name for the log.

        >>> model = Online("auto", FeedbackGraph.filtering(["ham", "spam"]), features=2)
        >>> model.set_graph(model.graph.with_costs({("spam", "ham"): 10}))
        >>> float(model.graph.costs.max())
        10.0
        """
        own = self.graph
        if isinstance(graph, FeedbackGraph) and graph.n_classes > own.n_classes and own.may_precede(graph):
            self._set_graph(graph, events.Added, who)
        else:
            self._set_graph(self._player.check_graph(graph), events.GraphChanged, who)

    @changing
    def grow(self, features: int, *, who: str | None = None) -> None:
        """Give the model more features; what was learned stays."""
        self._make_change(events.Grown(time.time(), whole(features, "features")), who)

    @changing
    def set_limits(
        self, *, min_propensity: float | None = None, budget: Budget | str | None = "keep", who: str | None = None
    ) -> None:
        """Go on with other limits on the exploration; what is not given stays. ``budget=None`` removes the budget.

        What was spent counts for a budget that replaces another.
        """
        limits = self.limits.changed(min_propensity, budget)
        self._make_change(events.Limited(time.time(), limits.to_dict()), who)
        self._player.engine.compile_rounds()

    def read_past(self, *, event: int | None = None, round: int | None = None) -> Past:
        """Return what the model was before event number `event` of its log, or before decision number `round`, for
        :meth:`roll_back`.

        It takes as long as opening the model from the snapshot before, and others may use the model meanwhile.
        """
        self.commit()
        return read_past(*self.stored_as, event, round, list_classes(self.learner))

    def roll_back(
        self, past: Past | None = None, *, event: int | None = None, round: int | None = None, who: str | None = None
    ) -> None:
        """Let the learner know what it knew before an event of the log, or before the decision of a round.

        What was decided since then was decided: the log, the numbers of the rounds, the estimates, what was spent, the
        limits and the graph stay, and receipts that wait can be learned from. Classes and features that are newer are
        there, and nothing is known of them. It can be undone by rolling back to the event of the roll-back itself.

        :param past: what :meth:`read_past` returned; or say where to with one of these:
        :param event: the number of an event; that of a snapshot is the quickest.
        :param round: the number of a decision.
        :param who: who has asked for the change: a name for the log.

        >>> import tempfile
        >>> from gappletron import FeedbackGraph, Online
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Online.open(f"{folder}/mail.sqlite", graph=FeedbackGraph.full(["a", "b"]), features=2) as model:
        ...         for label in ["a", "a", "b", "b", "b"]:
        ...             model.learn(model.act([1.0, 1.0]), label)
        ...         before = model.predict([1.0, 1.0])
        ...         model.roll_back(round=2, who="anna")
        ...         before, model.predict([1.0, 1.0]), model.rounds
        ('b', 'a', 5)
        """
        self._go_back(self.read_past(event=event, round=round) if past is None else past, who)

    @changing
    def _go_back(self, past: Past, who: str | None) -> None:
        event = events.RolledBack(time.time(), past.event, past.player.rounds)
        with self._find_journal().keep_state(past.event):
            self._make_change(event, who, earlier=past.player)

    # ------------------------------------------------------------------------------------------------------------ store

    @classmethod
    def open(
        cls,
        place: str | PathLike[str],
        learner: Learner | str | None = None,
        graph: FeedbackGraph | None = None,
        features: int | str | None = None,
        *,
        name: str = NAME,
        start: Online | None = None,
        durability: str = "disk",
        snapshot_every: int = 100_000,
        keep_rows: int | None = None,
        keep_answers: float = WEEK,
        pieces: Iterable[type[Piece]] = (),
        **options: Any,
    ) -> Online:
        """Open a model with a store: every decision and every piece of feedback is stored before the call returns.

        Opened again, also after a kill or a power failure, the model goes on bit for bit. A new name gets a new model,
        with `monitor=True` by default. For one that is stored, the arguments may be omitted; where they are given, they
        must be those that the model was made with, or has now, but for `pending`, `pending_bytes`, `pending_age`,
        `min_propensity` and `budget`. One process at a time can have a model open, until :meth:`close`.

        :param place: an SQLite file, such as ``"mail.sqlite"``, which is made where it does not exist; or the URL of
            a PostgreSQL database, ``"postgresql://host/database"``.
        :param learner, graph, features: as those of :class:`Online`, and so are `options`.
        :param name: which of the models of the database.
        :param start: a model to begin with, such as one that was taught, in place of a new one.
        :param durability: what a call waits for: ``"disk"``, that its events survive a power failure (calls of several
            threads share one write), or ``"os"``, that they survive the end of the process.
        :param snapshot_every: the least number of events between two snapshots of the state, which are written in the
            background and make opening quick. A large state is written more rarely (docs, page Store).
        :param keep_rows: the features of at least so many last rounds are kept; older ones may be dropped. By default
            all are kept.
        :param keep_answers: for how many seconds the answers of :meth:`remember` are kept.
        :param pieces: classes of your own that the learner is made of.
        """
        policy = Policy(durability, snapshot_every, keep_rows, keep_answers)
        named = {"learner": learner, "graph": graph, "features": features}
        given = {key: value for key, value in named.items() if value is not None} | options
        contents = open_contents(place, name, policy, given, _copy_start(start, given), tuple(pieces))
        return cls._from_contents(contents)

    @classmethod
    def from_store(
        cls,
        place: str | PathLike[str],
        *,
        name: str = NAME,
        replay: str = "last",
        stop: int | None = None,
        pieces: Iterable[type[Piece]] = (),
    ) -> Online:
        """Return a copy in memory of a stored model, which stays as it is; another process may have it open.

        :param replay: from the ``"last"`` snapshot, or from the ``"first"``, which does everything again that is in the
            log. Both lead to the same bits.
        :param stop: replay the events before this number only.
        :param place, name, pieces: as those of :meth:`open`.
        """
        return cls._from_contents(read_model(place, name, replay, stop, tuple(pieces)))

    @changing
    def note_role(self, *, decides: bool, other: str, term: int, who: str | None = None) -> None:
        """Log that the model decides from now on in place of another, or follows the decisions of another.

        Nothing else changes: who starts the models reads it (:meth:`find_role`). Of several models the one with the
        largest term decides.
        """
        kind: Any = events.Promoted if decides else events.Demoted
        self._make_change(kind(time.time(), other, term), who)

    @looking
    def find_role(self, *, decides: bool) -> tuple[str, int] | None:
        """Return the other model and the term of the last :meth:`note_role` of this kind that was stored; None without
        one.
        """
        journal = self._contents.journal
        found = None if journal is None else journal.store.read_last_change("promoted" if decides else "demoted")
        return None if found is None else tuple(found[1:])

    @changing
    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None:
        """Keep the answer to a request under an idempotency key, for :meth:`recall`, in the store.

        Inside :meth:`hold` it is stored together with what the request did.
        """
        if not isinstance(answer, bytes):
            raise UserError(f"an answer must be bytes, not {type(answer).__name__}: encode it first")
        _check_key(key, fingerprint)
        self._find_journal().put_answer(Answer(key, fingerprint, answer, time.time()))

    @looking
    def recall(self, key: str, fingerprint: bytes) -> bytes | None:
        """Return the answer kept under this key, None where there is none; a UserError for another fingerprint."""
        _check_key(key, fingerprint)
        found = self._find_journal().find_answer(key, time.time())
        if found is not None and found.fingerprint != fingerprint:
            raise KeyReused("this idempotency key was used for another request: use a new key for each request")
        return None if found is None else found.answer

    def confirm_writer(self) -> None:
        """Raise an :class:`gappletron.base.errors.Unavailable` where another process writes the store by now."""
        if self._contents.journal is not None:
            self._contents.journal.store.confirm()

    @property
    def stored_as(self) -> tuple[Place, str]:
        """Where the model's store is opened (a file, a URL, or connections of this process), and its name there."""
        store = self._find_journal().store
        return store.place, store.model_name

    def _find_journal(self) -> Journal:
        if self._contents.journal is None:
            raise UserError("the model has no store: make it with Online.open()")
        return self._contents.journal

    # ----------------------------------------------------------------------------------------------- saving and loading

    @looking
    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole model, with its random state and waiting receipts, to a file that cannot run code.

        It replaces an older one at once or not at all. A loaded model goes on bit for bit.
        """
        archive.write(path, FORMAT, *self._contents.describe())

    @classmethod
    def load(cls, path: str | PathLike[str], *, pieces: Iterable[type[Piece]] = ()) -> Online:
        """Read what :meth:`save` wrote; `pieces` are the classes of your own that the learner is made of."""
        return cls._from_contents(archive.read(path, FORMAT, functools.partial(Contents.build, pieces)))

    def differences(self, other: Online) -> list[str]:
        """Return the names of the parts of the state in which another model differs, bit for bit.

        The times of waiting receipts and the names of sessions are not compared.
        """
        theirs, ours = other._compare(), self._compare()  # one after the other: two locks at once could wait for ever
        return [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]

    @looking
    def _compare(self) -> dict[str, Any]:
        return self._contents.compare()

    @looking
    def __getstate__(self) -> dict[str, Any]:
        """Return a copy, made under the lock: copying and pickling go on when other threads play again."""
        return {"contents": self._contents.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy or an unpickled model is another model: its new receipts must not be taken for those of the first.
        self._adopt(state["contents"])
        self._receipts.start_session(self.rounds)


def _check_key(key: Any, fingerprint: Any) -> None:
    if not isinstance(key, str) or not 0 < len(key.encode(errors="replace")) <= MOST_KEY or not key.isprintable():
        raise UserError(
            f"an idempotency key must be a printable text of 1 to {MOST_KEY} bytes: use a random one, such as a UUID"
        )
    if not isinstance(fingerprint, bytes) or len(fingerprint) > MOST_FINGERPRINT:
        raise UserError(f"a fingerprint must be at most {MOST_FINGERPRINT} bytes: give a hash of the request")


def _check_name(who: Any) -> str | None:
    if who is not None and (not isinstance(who, str) or not 0 < len(who) <= MOST_WHO or not who.isprintable()):
        raise UserError(f"{who!r} cannot be logged as who asked for a change: give 1 to {MOST_WHO} printable letters")
    return who


def _copy_start(start: Any, given: dict[str, Any]) -> Contents | None:
    """Return the contents of a model to begin a store with, which others may go on to use."""
    if start is None:
        return None
    if not isinstance(start, Online):
        raise UserError(f"start is {start!r}, not a model: give one, for example Online.load('model.npz')")
    if given:
        raise UserError(f"{next(iter(given))} was given beside start, which has its own: omit it")
    return copy.copy(start)._contents
