"""What hosts one model in the event loop: decisions, feedback, predictions, descriptions and shadows.

A request is one step of the loop under the model's lock; then it waits, without the lock, until the step is durable. So
one thread works on a model, and as many requests as there are share a write to the disk.
"""

import asyncio
import contextlib
import json
import logging
import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import cache, partial
from itertools import chain, repeat
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw, Struct
from scipy.sparse import csr_array

from gappletron import UNSEEN, Budget, FeedbackGraph, Online, Receipt
from gappletron.base.checks import Label
from gappletron.base.errors import (
    NotDeciding,
    NotLeading,
    SpentReceipt,
    TooManyWaiting,
    Unavailable,
    UnknownReceipt,
    UserError,
)
from gappletron.base.version import __version__
from gappletron.data.vectors import Checker, Vectors
from gappletron.kernel.compiling import SECONDS_TO_COMPILE, background, load_tables
from gappletron.kernel.types import MOST_FEATURES
from gappletron.learners.registry import check_can_play
from gappletron.online.decisions import list_changes
from gappletron.online.follower import Follower, Lag
from gappletron.online.opening import Past
from gappletron.service import schemas
from gappletron.service.activity import SECONDS, Activity, Delays
from gappletron.service.columns import Columns, make_example_vector
from gappletron.service.commits import Commits
from gappletron.service.endpoints import Endpoint
from gappletron.service.roles import Key, check_shadow, find_champions, fit_graph, reconcile, shadow_key

# Seconds for which estimates are kept: as many readers as there are cost one computation.
ESTIMATES_AGE = 1.0
# Seconds between two looks after the models.
EVERY = 5.0
# Seconds between two lines of the log about the same shadow.
COMPLAINTS = 60.0

# The scores of every row by class, where they came with the rows.
Scores = list[dict[Label, float]] | None

log = logging.getLogger("gappletron.service")
encode_json = msgspec.json.Encoder().encode


class HostedModel:
    """A model with its name, its shadows and its limits.

    Its public methods without ``async`` are the steps that requests ask for; :meth:`carry_out` makes those durable
    that change the model.

    :param name: in the addresses, and on the page.
    :param model: what :meth:`gappletron.Online.open` returned, or the model of a follower.
    :param shadows: models that follow the decisions of this one and learn from the same feedback. They must have the
        same graph, and take the same kind of x.
    :param max_waiting: so many receipts may wait for feedback; then decisions are refused. By default they are not:
        the oldest receipts expire.
    :param alpha: the intervals of the estimates hold with probability 1 - alpha.
    :param strict: refuse records whose columns are not those that the encoder declares; by default they are counted.
    :param threads: where its commits are written, which it shares with other models; by default in one of its own.
    :param follower: what reads the log of a model that another server may lead (:mod:`gappletron.service.standby`).
    """

    def __init__(
        self,
        name: str,
        model: Online,
        *,
        shadows: Iterable["HostedModel"] = (),
        max_waiting: int | None = None,
        alpha: float = 0.05,
        strict: bool = False,
        threads: Executor | None = None,
        follower: Follower | None = None,
    ) -> None:
        self.follower = follower
        # Why the log cannot be followed at present.
        self.following_problem: str | None = None
        self.name, self.model, self.max_waiting, self.alpha = name, model, max_waiting, alpha
        self.takes_records = model.encoder is not None
        self.shadows = list(shadows)
        self.champion: HostedModel | None = None
        # Whether requests for decisions go to the champion: it was promoted, and clients know this name.
        self.passes_on = False
        # Whether it has followed another and now decides, or has decided and now follows; and the last promotion.
        self.was_shadow = self.has_decided = False
        self.term = 0
        self.commits = Commits(model.commit, threads)
        self._steps = asyncio.Lock()
        self.activity, self.delays = Activity(), Delays()
        # Since the start: decisions, pieces of feedback, and rounds or feedback that a shadow could not follow.
        self.decisions = self.feedback = self.missed = 0
        self._estimates: tuple[float, dict[str, Any], list[dict[str, Any]]] | None = None
        self._estimating = asyncio.Lock()
        self._complained = -math.inf
        self.columns = Columns(model.encoder, is_strict=strict, name=name)
        for shadow in self.shadows:
            check_shadow(self.model, shadow.model, (self.name, shadow.name))
            shadow.champion = self

    def read_roles(self) -> None:
        """Read from the log whether the model was promoted, or another over it."""
        roles = [self.model.find_role(decides=decides) for decides in (True, False)]
        self.was_shadow, self.has_decided = (role is not None for role in roles)
        self.term = max((role[1] for role in roles if role is not None), default=0)

    def warm_up(self) -> None:
        """Ask for the machine code of batches and predictions before requests come; an error where the model has no
        monitor, whose estimates most pages show.
        """
        self.model.monitor.report(self.alpha)
        self.model.compile_batches()
        if self.champion is not None:
            self.model.compile_following()

    @property
    def lag(self) -> Lag | None:
        """How far this model is behind that of the server that leads; None where this server does."""
        return None if self.follower is None else self.follower.lag

    def adopt(self, follower: Follower) -> None:
        """Go on with another follower of the same model: what this server had in memory does not count any more."""
        self.follower, self.model = follower, follower.model
        self.commits, self._estimates = Commits(self.model.commit), None
        self.warm_up()

    async def carry_out(
        self, endpoint: Endpoint, request: Any, key: Key | None, who: str | None = None, *, is_long: bool
    ) -> Raw:
        """Return the answer of the step that a request asks for, or of the request that had the same key, when it is
        durable.

        A long step takes milliseconds. So there is one in each turn of the loop, and what else is ready has its turn
        before the next.

        :param who: has asked for a change, by the name of the token.
        """
        given: list[Any] = [request]
        if endpoint.is_change:
            given.append(who or (None if request.who is UNSET else request.who))
        if endpoint.prepare is not None:
            self._check_leading()
            given.append(await asyncio.to_thread(getattr(self, endpoint.prepare), request))
        hosted = self
        while True:
            hosted = hosted if endpoint.is_own else hosted.find_deciding()
            async with hosted._steps:
                if not endpoint.is_own and hosted.champion is not None:
                    continue  # another was promoted meanwhile
                model = hosted.model
                hosted._check_leading()
                try:
                    answer = hosted._do_once(partial(getattr(hosted, endpoint.handler), *given), key)
                except UserError as error:
                    if not isinstance(error, Unavailable):
                        # Another process may lead, and know more: then this is no answer.
                        await asyncio.to_thread(model.confirm_writer)
                    raise
                durable = hosted.commits.durable()
                if is_long:
                    await asyncio.sleep(0)  # its write begins, and answers that are stored go out, before the next step
            await asyncio.gather(durable, *(shadow._commit_if_possible() for shadow in hosted.shadows))
            return Raw(answer)

    def find_deciding(self) -> "HostedModel":
        """Return the model that decides for those who ask this one: itself, or one that was promoted over it."""
        if self.champion is None:
            return self
        if self.passes_on:
            return self.champion
        raise NotDeciding(
            f"the model {self.name!r} shadows {self.champion.name!r}, and learns from its decisions alone: send "
            f"this to {self.champion.name!r}"
        )

    def _recall(self, key: Key) -> bytes | None:
        """Return the answer under a key: one's own, or of a model that decided before."""
        found = (each.model.recall(*key) for each in (self, *self.shadows) if each is self or each.has_decided)
        return next((answer for answer in found if answer is not None), None)

    def _do_once(self, step: Callable[[], Struct], key: Key | None) -> bytes:
        """Return the answer of a step, or of the request that had the same key."""
        with self.model.hold():
            answer = None if key is None else self._recall(key)
            if answer is None:
                answer = encode_json(step())
                if key is not None:
                    self.model.remember(*key, answer)
        return answer

    def _check_leading(self) -> None:
        """Refuse a change where another server leads, or the store is out of reach: to try it again here would keep
        all other requests waiting.
        """
        follower = self.follower
        if follower is not None and (follower.is_lost or not follower.is_leading):
            raise NotLeading(
                f"this server follows the model {self.name!r} and changes nothing: send it to the one that leads, or "
                "again in a second, when this one may lead"
            )
        if self.commits.failure is not None and not self._can_store:
            raise Unavailable(self.commits.failure)

    # ----------------------------------------------------------------------------------- steps that change the model

    def act(self, request: schemas.OneRecord | schemas.OneVector) -> schemas.Decision:
        """Decide for one row."""
        return self._decide([request.x], self._read_scores(request))[0]

    def act_many(self, request: schemas.ManyRecords | schemas.ManyVectors) -> schemas.Decisions:
        """Decide for many rows."""
        return schemas.Decisions(self._decide(request.rows, self._read_scores(request)))

    def _decide(self, rows: Sequence[Any], scores: Scores) -> list[schemas.Decision]:
        waiting = self.model.waiting
        if self.max_waiting is not None and waiting + len(rows) > self.max_waiting:
            raise TooManyWaiting(
                f"{waiting:,} receipts wait for feedback, and at most {self.max_waiting:,} may: give feedback first, "
                "also where the label stayed unseen"
            )
        self.columns.check(rows)
        prepared = self._prepare_rows(rows)
        receipts = self.model.act_many(prepared, scores=scores)
        self.columns.count(rows)
        self.decisions += len(rows)
        self.activity.count(len(rows))
        for shadow in self.shadows:
            shadow._follow(prepared, receipts, scores)
        reveals = cache(self.model.graph.reveals)
        told = (each.to_decision() for each in receipts)
        return [schemas.Decision(*decision, reveals(decision[1])) for decision in told]

    def _read_scores(self, request: Any) -> Scores:
        """Return the scores of every row of a request, whose classes are texts there; None where there are none."""
        if request.scores is UNSET:
            return None
        return self._name_scores([request.scores] if isinstance(request.scores, dict) else request.scores)

    def _name_scores(self, given: list[dict[str, float]]) -> list[dict[Label, float]]:
        """Return scores by classes."""
        names = {each if isinstance(each, str) else json.dumps(each): each for each in self.model.graph.classes}
        return [{names.get(name, name): value for name, value in each.items()} for each in given]

    def _prepare_rows(self, rows: Sequence[Any]) -> Any:
        """Return the rows as :meth:`gappletron.Online.act_many` takes them."""
        if self.takes_records:
            return list(rows)
        matrix = _join_sparse(rows) if len(rows) > 1 and not self.shadows else None
        return [_as_arrays(row) for row in rows] if matrix is None else matrix

    def learn(self, request: schemas.Feedback) -> schemas.Learned:
        """Learn from the feedback of one decision."""
        return self.learn_many(schemas.ManyFeedbacks([request]))

    def learn_many(self, request: schemas.ManyFeedbacks) -> schemas.Learned:
        """Learn from all pieces of feedback, or from none."""
        pairs = [(each.id, UNSEEN if each.label is UNSET else each.label) for each in request.feedback]
        own = [(self._find_own(name), label) for name, label in pairs] if self.was_shadow else pairs
        decided = self.model.receipt(own[0][0]).time if own else None
        self.model.learn_many(own)
        self.feedback += len(pairs)
        if decided is not None:  # one of each request is enough to tell the delay
            self.delays.add(decided, time.time())
        for shadow in self.shadows:
            for name, label in pairs:
                shadow._repeat(name, partial(shadow._learn_own, label))
        return schemas.Learned(len(pairs))

    def forget(self, request: schemas.Forget) -> schemas.Forgotten:
        """Wait no more for the feedback of one decision."""
        return self.forget_many(schemas.ForgetMany([request.id]))

    def forget_many(self, request: schemas.ForgetMany) -> schemas.Forgotten:
        """Wait no more for the feedback of all these decisions, or of none."""
        # All are there, before one is forgotten.
        receipts = {name: self.model.receipt(self._find_own(name)) for name in request.ids}
        for receipt in receipts.values():
            self.model.forget(receipt)
        for shadow in self.shadows:
            for name in receipts:
                shadow._repeat(name, shadow.model.forget)
        return schemas.Forgotten(len(receipts))

    def _find_own(self, name: str) -> str:
        """Return the name of the model's own receipt for a decision, which may be one that it has followed."""
        if self.was_shadow:
            try:
                self.model.receipt(name)
            except SpentReceipt:
                return name
            except UnknownReceipt:
                own = self.model.recall(*shadow_key(name))
                return name if own is None else own.decode()
        return name

    def teach(self, request: schemas.TeachRecords | schemas.TeachVectors, who: str | None) -> schemas.Changed:
        """Learn rows whose labels are known; shadows that can be taught learn them as well."""
        rows = [_as_arrays(row.x) for row in request.rows]
        labels, observed = [row.label for row in request.rows], [row.propensity for row in request.rows]
        given = [row.scores for row in request.rows if row.scores is not UNSET]
        if given and len(given) < len(rows):
            raise UserError("some rows have scores and others have none: give them with every row, or with none")
        scores = self._name_scores(given) if given else None
        self.model.teach_many(rows, labels, observed, scores, who=who)
        for shadow in self.shadows:
            if shadow.model.learner.teachable:
                own = scores if shadow.model.learner.takes_scores else None
                shadow._do(partial(shadow.model.teach_many, rows, labels, observed, own, who=who))
        return self._tell("taught", who)

    def add_class(self, request: schemas.AddClass, who: str | None) -> schemas.Changed:
        """Add a class, to the shadows as well."""
        names = ("reveals", "revealed_by", "costs")
        given = {name: part for name in names if (part := getattr(request, name)) is not UNSET}
        self._set_graph(self.model.graph.with_class(request.name, **given), who)
        return self._tell("class added", who)

    def set_graph(self, request: schemas.SetGraph, who: str | None) -> schemas.Changed:
        """Change edges and costs, of the shadows as well."""
        if request.edges is UNSET and request.costs is UNSET:
            raise UserError('nothing of the graph is to change: give "edges" or "costs"')
        graph = self.model.graph
        if request.edges is not UNSET:
            costs = graph.costs if graph.has_costs else None
            graph = FeedbackGraph.from_edges(graph.classes, request.edges, graph.actions, costs=costs)
        if request.costs is not UNSET:
            graph = graph.with_costs(request.costs)
        self._set_graph(graph, who)
        return self._tell("graph changed", who)

    def _set_graph(self, graph: FeedbackGraph, who: str | None) -> None:
        for shadow in self.shadows:
            check_can_play(shadow.model.learner, fit_graph(graph, shadow.model))
        self.model.set_graph(graph, who=who)
        for shadow in self.shadows:
            shadow._do(partial(shadow.model.set_graph, fit_graph(graph, shadow.model), who=who))

    def set_limits(self, request: schemas.SetLimits, who: str | None) -> schemas.Changed:
        """Change the limits on exploration, of the shadows as well."""
        least = None if request.min_propensity is UNSET else request.min_propensity
        budget: Any = "keep" if request.budget is UNSET else request.budget
        if isinstance(budget, schemas.GivenBudget):
            budget = Budget(budget.limit, budget.per, None if budget.prices is None else dict(budget.prices))
        self.model.set_limits(min_propensity=least, budget=budget, who=who)
        for shadow in self.shadows:
            shadow._do(partial(shadow.model.set_limits, min_propensity=least, budget=budget, who=who))
        return self._tell("limited", who)

    def reset(self, request: schemas.Reset, who: str | None) -> schemas.Changed:
        """Let the learner forget what may be out of date."""
        self.model.reset(who=who)
        return self._tell("reset", who)

    def read_past(self, request: schemas.RollBack) -> Past:
        """Return what the model was at the time that a request asks for."""
        at, round = (None if part is UNSET else part for part in (request.event, request.round))
        return self.model.read_past(event=at, round=round)

    def roll_back(self, request: schemas.RollBack, who: str | None, past: Past) -> schemas.Changed:
        """Let the learner know what it knew then."""
        self.model.roll_back(past, who=who)
        return self._tell("rolled back", who)

    def prepare_promotion(self, request: schemas.Promote) -> None:
        """Ask for the machine code that the champion needs to follow."""
        if self.champion is not None:
            self.champion.model.compile_following()

    def promote(self, request: schemas.Promote, who: str | None, _: None) -> schemas.Changed:
        """Decide from now on; the champion and its other shadows follow."""
        champion = self.champion
        if champion is None:
            raise NotDeciding(f"the model {self.name!r} decides already: promote one of its shadows")
        if not self.is_storing:
            raise Unavailable(f"the model {self.name!r} cannot be promoted: {self.problem}")
        columns = Columns(self.model.encoder, is_strict=champion.columns.is_strict, name=self.name)
        followers = [champion, *(each for each in champion.shadows if each is not self)]
        term = 1 + max(each.term for each in (self, *followers))
        self.model.note_role(decides=True, other=champion.name, term=term, who=who)
        self.champion, self.shadows, self.passes_on, self.was_shadow = None, followers, False, True
        self.columns, self.max_waiting, self.term = columns, champion.max_waiting, term
        champion.passes_on = champion.has_decided = True
        for each in followers:
            each.champion, each.shadows = self, []
        champion.note_demotion(self.name, term, who)
        log.warning("the model %r decides in place of %r", self.name, champion.name)
        return self._tell("promoted", who)

    def note_demotion(self, by: str, term: int, who: str | None = None) -> None:
        """Log that another model decides in place of this one."""
        self._do(partial(self.model.note_role, decides=False, other=by, term=term, who=who))

    def _tell(self, change: str, who: str | None) -> schemas.Changed:
        return schemas.Changed(self.name, change, self.model.rounds, who)

    # ------------------------------------------------------------------------------------------------------ following

    def _do(self, change: Callable[[], object]) -> None:
        """Make a change that the champion has made."""
        with self._shield(), self.model.hold():
            change()

    def _follow(self, rows: Sequence[Any], receipts: Sequence[Receipt], scores: Scores) -> None:
        """Take the decisions of the champion for one's own; what goes wrong here is no concern of its clients.

        A learner that takes no scores follows without them.
        """
        model = self.model
        given = scores if scores is not None and model.learner.takes_scores else repeat(None, len(rows))
        with self._shield():
            self.columns.count(rows)
        for x, receipt, own_scores in zip(rows, receipts, given, strict=True):
            with self._shield(), model.hold():
                own = model.follow(x, receipt.action, receipt.probabilities, scores=own_scores)
                # Remembered, since feedback may come after a restart.
                model.remember(*shadow_key(receipt.id), own.id.encode())
                self.decisions += 1

    def _repeat(self, name: str, change: Callable[[str], object]) -> None:
        """Do with one's own receipt what the champion has done with the one of this name."""
        with self._shield(), self.model.hold():
            own = self.model.recall(*shadow_key(name))
            if own is not None:
                change(own.decode())
            elif self.has_decided:
                change(name)  # it may be one of its own decisions, of before another was promoted
            else:
                self.missed += 1

    def _learn_own(self, label: Any, receipt: str) -> None:
        self.model.learn(receipt, label)
        self.feedback += 1

    async def _commit_if_possible(self) -> None:
        with self._shield():
            await self.commits.durable()

    @contextlib.contextmanager
    def _shield(self) -> Iterator[None]:
        """Count what goes wrong inside, and log it now and then, but let nobody else hear of it."""
        try:
            yield
        except Exception as error:
            self.missed += 1
            if time.monotonic() - self._complained > COMPLAINTS:
                self._complained = time.monotonic()
                log.warning("the shadow %r could not follow (%d so far): %s", self.name, self.missed, error)

    # ---------------------------------------------------------------------------------------------------- looking at it

    def predict(self, request: schemas.OneRecord | schemas.OneVector) -> schemas.Prediction:
        """Return the class of a row, and the probability of each."""
        self.columns.check([request.x])
        scores = self._read_scores(request)
        x = _as_arrays(request.x)
        label, chances = self.model.predict_both(x, scores=None if scores is None else scores[0])
        return schemas.Prediction(label, self.model.graph.classes, chances.tolist())

    def explain(self, request: schemas.OneRecord | schemas.OneVector) -> schemas.Explanation:
        """Return what each part of a row adds to the score of the class that is decided."""
        self.columns.check([request.x])
        if len(encode_json(request.x)) > schemas.MOST_EXPLAINED:
            raise UserError(
                f"x has more than {schemas.MOST_EXPLAINED:,} bytes: ask for the explanation of shorter rows"
            )
        scores = self._read_scores(request)
        why = self.model.explain(_as_arrays(request.x), scores=None if scores is None else scores[0])
        return msgspec.convert(why.to_dict(), schemas.Explanation)

    def predict_many(self, request: schemas.ManyRecords | schemas.ManyVectors) -> schemas.Predictions:
        """Return the classes of many rows, with probabilities."""
        self.columns.check(request.rows)
        predicted = self._predict(request.rows, self._read_scores(request))
        found = [schemas.RowPrediction(label, row) for label, row in predicted]
        return schemas.Predictions(self.model.graph.classes, found)

    def _predict(self, rows: Sequence[Any], scores: Scores = None) -> Iterable[tuple[Label, list[float]]]:
        model, encoder = self.model, self.model.encoder
        X = self._check_vectors(rows) if encoder is None else encoder.vectors(list(rows))
        chances = model.predict_proba(X, scores).tolist()
        return zip(model.predict_many(X, scores=scores), chances, strict=True)

    def _check_vectors(self, rows: Sequence[schemas.Vector]) -> Vectors:
        """Return vectors, checked one by one."""
        checker = Checker(self.model.fixed_features or MOST_FEATURES)
        return Vectors.join([checker.vector(_as_arrays(row)) for row in rows])

    async def describe(self) -> schemas.ModelInfo:
        """Say what the model is, and how well it does."""
        model, graph = self.model, self.model.graph
        report, _ = await self.read_monitor()
        limited = model.limits_report
        reveals = [graph.reveals(action) for action in graph.actions]
        return schemas.ModelInfo(
            name=self.name,
            shadows=None if self.champion is None else self.champion.name,
            following=None if self.lag is None else schemas.Following(*self.lag),
            learner=model.learner.name,
            graph=schemas.GraphInfo(graph.name, graph.classes, graph.actions, reveals),
            features=model.features,
            encoder=None if model.encoder is None else model.encoder.to_dict(),
            columns=self.columns.to_dict() if self.columns.needed else None,
            example=self.columns.make_example() if self.takes_records else make_example_vector(model.features),
            rounds=model.rounds,
            waiting=model.waiting,
            limits=schemas.LimitsInfo(
                **model.limits.to_dict(),
                **model.pending_limits._asdict(),
                propensity=limited.propensity,
                spent=limited.spent,
                clock_resets=limited.clock_resets,
                max_waiting=self.max_waiting,
            ),
            problem=self.problem,
            versions={"gappletron": __version__, "python": platform.python_version(), "numpy": np.__version__},
            estimates=report,
        )

    async def list_changes(self) -> schemas.Changes:
        """Return the last changes in the log."""
        place = self.model.stored_as if self.follower is None else self.follower.stored_as
        found = await asyncio.to_thread(list_changes, *place)
        changes = [schemas.ChangeInfo(*change) for change in found.changes]
        return schemas.Changes(found.events, found.snapshots, changes)

    async def estimate(self) -> schemas.Estimates:
        """Return the monitor's report with its curve, for the page."""
        report, curve = await self.read_monitor()
        return schemas.Estimates(
            self.name,
            self.model.rounds,
            self.model.waiting,
            report,
            curve,
            self.activity.last(SECONDS),
            self.delays.describe(time.time()),
        )

    async def read_monitor(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the report and the curve, not older than a second.

        They are computed in a thread: the monitor is a copy, so that nothing waits.
        """
        async with self._estimating:
            known = self._estimates
            if known is None or time.monotonic() - known[0] > ESTIMATES_AGE:
                monitor = self.model.monitor
                report, curve = await asyncio.to_thread(lambda: (monitor.report(self.alpha).to_dict(), monitor.curve))
                known = self._estimates = time.monotonic(), report, curve
            return known[1], known[2]

    @property
    def problem(self) -> str | None:
        """What is wrong with storing what the model does, in one sentence: a commit that failed, or its store."""
        if self.lag is not None:
            return self.following_problem
        if self.commits.failure is not None:
            return self.commits.failure
        trouble = self.model.trouble  # once: a snapshot in the background may end it
        return None if trouble is None else trouble.sentence

    @property
    def is_storing(self) -> bool:
        """Whether decisions can be made durable at present, here or, where this server follows, elsewhere."""
        return self.lag is not None or (self.commits.failure is None and self._can_store)

    @property
    def _can_store(self) -> bool:
        trouble = self.model.trouble
        return trouble is None or not trouble.stops_writes

    # --------------------------------------------------------------------------------------------------------- upkeep

    async def tend(self) -> None:
        """Do what is due although no request comes: commit again what could not be stored, and let receipts expire
        that have waited too long. What cannot be done is left as the model's problem.
        """
        if self.lag is not None:
            return
        with contextlib.suppress(UserError, OSError):
            if self.commits.failure is not None:
                # Where a proxy sends nothing to a server that is not well, no request would try it again.
                await self.commits.durable()
            if self.model.pending_limits.pending_age is not None and self.model.waiting and self.is_storing:
                with self.model.hold():  # every call lets them expire, and logs it
                    pass
                await self.commits.durable()

    async def close(self) -> None:
        """Write what is left, and close the model."""
        try:
            await asyncio.to_thread(self.model.close if self.follower is None else self.follower.close)
        finally:
            self.commits.close()


def host_models(models: Mapping[str, Online], champions: Mapping[str, str], **options: Any) -> list[HostedModel]:
    """Return the models in their order, each with its shadows, which take what their champions take.

    :param champions: the names of the models that shadow others, and of these others.
    :param options: those of models that are no shadows.
    """
    present = find_champions(models, champions)
    for name, champion in present.items():
        missed = reconcile(models[champion], models[name])
        if missed:
            log.warning("the shadow %r has missed %d decisions or pieces of feedback of %r", name, missed, champion)
    hosted = {name: HostedModel(name, models[name], alpha=options["alpha"]) for name in present}
    for name, model in models.items():
        if name not in present:
            shadows = [hosted[each] for each, champion in present.items() if champion == name]
            hosted[name] = HostedModel(name, model, shadows=shadows, **options)
    for each in hosted.values():
        each.read_roles()
    _complete_roles(hosted, present, champions)
    return [hosted[name] for name in models]


def _complete_roles(
    hosted: Mapping[str, HostedModel], present: Mapping[str, str], champions: Mapping[str, str]
) -> None:
    """Let each model that follows another now, and has decided before, know it: a kill between the two commits of a
    promotion leaves it with the model that was promoted alone.
    """
    decided = {*champions.values(), *(name for name, each in hosted.items() if each.was_shadow)}
    for name, each in hosted.items():
        role = each.model.find_role(decides=True)
        if role is None or present.get(role[0]) != present.get(name, name):
            continue
        over, term = role
        decided.add(over)
        known = hosted[over].model.find_role(decides=False)
        if known is None or known[1] < term:
            hosted[over].note_demotion(name, term)
    for name in present:
        hosted[name].has_decided |= name in decided
        hosted[name].passes_on = hosted[name].has_decided


async def tell_when_compiled() -> None:
    """Log that requests are answered without machine code, where another process still compiles it; and its end."""
    missing, start = len(background.list_missing()), time.monotonic()
    if missing:
        seconds = SECONDS_TO_COMPILE * missing
        log.info("requests are answered at once; machine code is ready in about %d s, and answers are quicker", seconds)
        await asyncio.to_thread(load_tables)
        while background.list_missing():
            await asyncio.sleep(0.5)
        log.info("machine code is ready, after %.0f s", time.monotonic() - start)


async def look_after(models: Iterable[HostedModel], every: float = EVERY) -> None:
    """Tend the models again and again, and log their problems, until the task is cancelled."""
    logged: dict[str, str] = {}
    while True:
        for hosted in models:
            try:
                await hosted.tend()
                problem = hosted.problem
            except Exception as error:  # the next look must come all the same
                problem = f"it cannot be looked after ({type(error).__name__}: {error})"
            if problem is None:
                logged.pop(hosted.name, None)
            elif problem != logged.get(hosted.name):
                log.warning("the model %r: %s", hosted.name, problem)
                logged[hosted.name] = problem
        await asyncio.sleep(every)


def _as_arrays(x: schemas.Vector | schemas.Record) -> Any:
    """Return a row as the library takes it; arrays are what it is quickest with."""
    if type(x) is not schemas.Sparse:
        return x
    try:
        return np.array(x.indices, np.int64), np.array(x.values, np.float64)
    except OverflowError:  # an index beyond 64 bits: the library says what is wrong with it
        return x.indices, x.values


def _join_sparse(rows: Sequence[Any]) -> csr_array | None:
    """Return sparse rows as a matrix, which large batches are played from in half of the time.

    None where one is dense, or wrong: the library says what is wrong with a single row.
    """
    if not all(type(row) is schemas.Sparse and len(row.indices) == len(row.values) for row in rows):
        return None
    try:
        indices = np.array(list(chain.from_iterable(row.indices for row in rows)), np.int64)
    except OverflowError:
        return None
    if indices.size and indices.min() < 0:
        return None
    values = np.array(list(chain.from_iterable(row.values for row in rows)), np.float64)
    ends = np.cumsum([0, *(len(row.indices) for row in rows)], dtype=np.int64)
    return csr_array((values, indices, ends), shape=(len(rows), int(indices.max(initial=0)) + 1))
