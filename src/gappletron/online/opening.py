"""From a store to its model: the newest snapshot, and the events since then made again.

For a new store, from the arguments of a model, which are stored beside it: opened again, it must be given the same.
"""

import bisect
import contextlib
import copy
import dataclasses
import functools
import itertools
import json
import math
import platform
import time
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, NamedTuple

import numba
import numpy as np

from gappletron.base.checks import whole
from gappletron.base.errors import Damaged, UserError
from gappletron.base.text import LETTERS_SHOWN, make_printable, shorten
from gappletron.base.version import __version__
from gappletron.data.records.encoder import Encoder
from gappletron.graphs.graph import FeedbackGraph
from gappletron.kernel.compiling import list_classes, without_collection
from gappletron.kernel.numerics import is_distribution
from gappletron.kernel.pieces import Piece
from gappletron.kernel.spelling import encode_piece
from gappletron.kernel.types import Floats, Vector
from gappletron.learners.registry import find_learner
from gappletron.online import events, transitions
from gappletron.online.contents import FORMAT, Contents
from gappletron.online.database import Missing, Place, name_place
from gappletron.online.journal import Journal, Policy
from gappletron.online.receipts import WaitingLimits
from gappletron.online.replay import UnusualError, replay_together, split_events
from gappletron.online.store import CURE, Store
from gappletron.play.archive import encode_graph
from gappletron.play.limits import Limits
from gappletron.play.monitor_state import NoWatch
from gappletron.play.options import Options
from gappletron.play.player import Player
from gappletron.play.turns import ACTION, HEAD

# The versions on which the last bits of a number may depend.
VERSIONS = {
    "gappletron": __version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "numba": numba.__version__,
    "machine": platform.machine(),
}


def open_contents(
    place: Place,
    name: str,
    policy: Policy,
    given: dict[str, Any],
    start: Contents | None,
    pieces: tuple[type[Piece], ...],
) -> Contents:
    """Return the model of a store, with a journal that logs from now on.

    :param given: the arguments of the model, by name; for a stored one they must be those that it was made with, or has
        now, but for the options that may change.
    :param start: a model to begin with, in place of a new one.
    """
    is_new = not is_stored(place, name)
    if is_new and start is None and "graph" not in given:
        raise Missing(
            f"there is no model {name!r} in {name_place(place)!r} yet, and a new one needs a graph: give one, for "
            "example graph=FeedbackGraph.filtering(['ham', 'spam'])"
        )
    if not is_new and start is not None:
        raise UserError(f"{name_place(place)!r} holds a model {name!r} already: omit start, or use another name")
    begin = start or (Contents.make(**({"monitor": True} | given)) if is_new else None)
    store = Store(place, name, policy.durability)
    try:
        if begin is not None and store.settings is None:
            contents = begin
            _store_new(store, begin, given if start is None else _describe_start(begin))
            begin_logging(contents, Journal(store, policy), {})
        else:
            contents = recover(store, pieces, store.snapshots())
            begin_logging(contents, Journal(store, policy), find_changes(store, contents, given))
    except BaseException:
        store.close()
        raise
    return contents


def is_stored(place: Place, name: str) -> bool:
    """Return whether a place holds a model of this name."""
    try:
        Store(place, name).close()
    except Missing:
        return False
    return True


def _store_new(store: Store, contents: Contents, given: dict[str, Any]) -> None:
    """Store a new model, and the arguments that it was made with."""
    made: dict[str, Any] = {"learner": "auto", "features": "grow", "encoder": None}
    made |= {field.name: field.default for field in dataclasses.fields(Options)} | {"monitor": True} | given
    fixed = {name: value for name, value in made.items() if name not in Options.may_change()}
    store.drop_snapshots()  # of a start that was interrupted
    store.put_snapshot(0, FORMAT, *contents.describe())
    store.put_settings({"options": describe_arguments(fixed)})
    store.database.checkpoint()


def _describe_start(start: Contents) -> dict[str, Any]:
    """Return the arguments with which a model to begin with could have been made, as far as they are known."""
    player = start.player
    made = {"learner": player.learner, "graph": player.graph, "features": player.engine.features}
    return made | {"encoder": start.encoder, "monitor": not isinstance(player.watch, NoWatch)}


def find_changes(store: Store, contents: Contents, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the arguments given for a stored model that may change; the others must be those that it has."""
    assert store.settings is not None
    made, player = store.settings["options"], contents.player
    now = describe_arguments({"graph": player.graph, "features": player.fixed_features or "grow"})
    changes = {option: given[option] for option in Options.may_change() if option in given}
    fixed = {option: value for option, value in given.items() if option not in changes}
    check_arguments(store.name, made, made | now, fixed)
    return changes


def begin_logging(contents: Contents, journal: Journal, changes: dict[str, Any]) -> None:
    """Log that the model was opened, with these options changed. The session is new, so its name is logged first."""
    contents.journal = journal
    receipts, player, now = contents.receipts, contents.player, time.time()
    waiting = {name: value for name, value in changes.items() if name in WaitingLimits._fields}
    receipts.limits = WaitingLimits.check(*receipts.limits._replace(**waiting))
    journal.add_change(events.Opened(now, receipts.session.name, player.rounds, VERSIONS, list(receipts.limits)))
    transitions.expire_overdue(contents, now)  # the limits may have changed
    limits = player.limits.changed(changes.get("min_propensity"), changes.get("budget", "keep"))
    if {limits, player.limits} != {Limits()}:  # those that hold are in the log, also where they do not change
        transitions.change(contents, events.Limited(now, limits.to_dict()))
    journal.publish()
    journal.commit()


# ------------------------------------------------------------------------------------------------ arguments of a model


def describe_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model as JSON has them; what has no such form is told by its text."""
    return json.loads(json.dumps({name: _describe(name, value) for name, value in arguments.items()}, default=repr))


def _describe(name: str, value: Any) -> Any:
    """Return one argument as a plain value, if it has such a form."""
    if name == "learner":
        learner = find_learner(value)
        return {"name": learner.name, **encode_piece(learner)}
    match value:
        case FeedbackGraph():
            return encode_graph(value)
        case Encoder():
            return value.to_dict()
        case Piece():
            return encode_piece(value)
        case np.generic():
            return value.item()
    return value


def check_arguments(where: str, made: Mapping[str, Any], now: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse arguments that are neither those that a model was made with nor those that it has now."""
    for name, value in describe_arguments(given).items():
        if name not in made:
            raise UserError(f"{name} was given, and nothing is known of it in {where!r}: omit it")
        if value not in (made[name], now[name]):
            difference = _show_difference(made[name], value)
            raise UserError(
                f"the model in {where!r} was made with another {name} ({difference}): omit it, or use another name"
            )


def _show_difference(old: Any, new: Any) -> str:
    """Return in what two values of an argument differ, in short.

    >>> _show_difference({"text": ["message"], "features": 64}, {"text": ["subject"], "features": 64})
    "text ['message'], not ['subject']"
    >>> _show_difference(0, 1)
    '0, not 1'
    """
    path = []
    while isinstance(old, dict) and isinstance(new, dict):
        # The first parts of a graph say more of it than what follows from them.
        part = next(part for part in (*FIRST, *old, *new) if old.get(part) != new.get(part))
        path.append(part)
        old, new = old.get(part), new.get(part)
    where = ".".join(path)
    if where in MATRICES:
        return f"other {where}"
    shown = [shorten(make_printable(repr(value)), LETTERS_SHOWN) for value in (old, new)]
    return f"{where} {', not '.join(shown)}".lstrip()


FIRST = ("name", "piece", "classes", "actions", "edges", "costs")
# Parts of a graph that are too large to be shown.
MATRICES = ("edges", "costs")


# --------------------------------------------------------------------------------------------------------------- replay


def read_model(
    place: str | PathLike[str], name: str, first: str, stop: int | None, pieces: tuple[type[Piece], ...]
) -> Contents:
    """Return a copy of the stored model, which stays as it is: see :meth:`gappletron.Online.from_store`."""
    if first not in ("last", "first"):
        raise UserError(f"replay={first!r} is not known: choose 'last' or 'first'")
    with contextlib.closing(Store(place, name)) as store:
        found = store.snapshots()
        found = found[:1] if first == "first" else [at for at in found if stop is None or at <= stop]
        return recover(store, pieces, found, stop)


def recover(store: Store, pieces: tuple[type[Piece], ...], snapshots: list[int], stop: int | None = None) -> Contents:
    """Return a stored model: the newest of these snapshots that is whole, and what was logged since then."""
    problem = UserError(f"the store {store.name!r} has no snapshot left: restore a backup")
    for at in reversed(snapshots):
        try:
            model = store.read_snapshot(at, FORMAT, functools.partial(Contents.build, pieces))
            model.receipts.resume_session()
            with without_collection():  # of the objects of an event none is garbage to be searched for
                undone = store.read_changes("rolled back", at, store.count if stop is None else stop)
                changed = replay(model, store, store.events(at, stop), {event.event for event in undone})
        except UserError as error:  # then the one before it, and more of the log, lead to the same state
            problem = error
            continue
        if changed:
            warnings.warn(
                f"{changed:,} decisions in the store {store.name!r} have other probabilities when they are computed "
                "again, as after a change of versions or of the machine: those of the log were kept",
                stacklevel=4,
            )
        model.receipts.start_session(model.player.rounds)
        return model
    raise problem


class Past(NamedTuple):
    """What a model was before event number `event`: where :meth:`gappletron.Online.roll_back` leads to."""

    event: int
    player: Player


def read_past(place: Place, name: str, event: int | None, round: int | None, pieces: tuple[type[Piece], ...]) -> Past:
    """Return what a stored model was before an event, or before the decision of a round."""
    if (event is None) is (round is None):
        raise UserError("it is not said how far to roll back: give either event= or round=")
    with contextlib.closing(Store(place, name)) as store:
        if event is not None:
            at = whole(event, "event", most=store.count)
        else:
            found = store.find_decision(whole(round, "round"))
            if found is None:
                raise UserError(f"the log of {store.name!r} has no decision number {round}: give another round=")
            at = found
        return Past(at, _recover_player(store, at, pieces))


def _recover_player(store: Store, at: int, pieces: tuple[type[Piece], ...]) -> Player:
    """Return the player of a stored model as it was before event number `at`."""
    snapshots = [each for each in store.snapshots() if each <= at]
    if not snapshots:
        raise UserError(
            f"what {store.name!r} held before event {at:,} was removed (store retain): go back less far, to event "
            f"{min(store.snapshots(), default=0):,} or later"
        )
    return recover(store, pieces, snapshots, at).player


def read_pasts(model: Contents, store: Store, logged: Iterable[tuple[int, events.Event]]) -> dict[int, Player]:
    """Return the players to which these events roll back, by the number of the event before which they were so.

    It takes as long as opening a model does, and needs no lock.
    """
    pieces = list_classes(model.player.learner)
    ends = {event.event for place, event in logged if isinstance(event, events.RolledBack) and event.event <= place}
    return {end: _recover_player(store, end, pieces) for end in ends}


def replay(
    model: Contents,
    store: Store,
    logged: Iterable[tuple[int, events.Event]],
    wanted: Collection[int] = (),
    known: Mapping[int, Player] | None = None,
) -> int:
    """Make again what was logged, which are events with their numbers; return how many decisions have other
    probabilities now, as after a change of versions.

    :param wanted: numbers of events before which a copy is made, since later events roll back to there.
    :param known: what :func:`read_pasts` returned; what is missing there is made from the log.
    """
    past, graphs = Pasts(store, list_classes(model.player.learner)), Graphs(store, model.player.graph)
    past.update(known or {})
    ends, changed = sorted(wanted), 0
    for _, part in itertools.groupby(logged, lambda each: bisect.bisect(ends, each[0])):
        first = next(part)
        if first[0] in wanted:
            past[first[0]] = copy.copy(model.player)
        rest = itertools.chain([first], part)  # noqa: B031 - it is read once
        changed += _replay_part(model, store, rest, graphs, past)
    return changed


def _replay_part(
    model: Contents, store: Store, logged: Iterable[tuple[int, events.Event]], graphs: "Graphs", past: "Pasts"
) -> int:
    changed = 0
    for first, block in split_events(logged):
        with contextlib.suppress(UnusualError):
            changed += replay_together(model, block, graphs)
            continue
        for place, event in enumerate(block, first):
            with expect_fit(store, place):
                if isinstance(event, events.RolledBack) and not 0 <= event.event <= place:
                    raise Damaged
                changed += _replay_event(model, event, graphs, past)
    return changed


@contextlib.contextmanager
def expect_fit(store: Store, place: int) -> Iterator[None]:
    """Tell of an event that does not fit those before it, such as one whose receipt or graph is missing."""
    try:
        yield
    except UserError:
        raise
    except (Damaged, LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise UserError(f"event {place} of the store {store.name!r} does not fit those before it: {CURE}") from None


class Graphs(dict[int, FeedbackGraph]):
    """The graphs of a store by their versions, read when they are first asked for; one that is equal to `own` is it."""

    def __init__(self, store: Store, own: FeedbackGraph | None = None) -> None:
        self.store, self.own = store, own

    def __missing__(self, version: int) -> FeedbackGraph:
        graph, own = self.store.read_graph(version), self.own
        is_own = own is not None and (graph, graph.name, graph.completed) == (own, own.name, own.completed)
        self[version] = own if own is not None and is_own else graph
        return self[version]


class Pasts(dict[int, Player]):
    """The players to which a log rolls back, by the number of the event before which they were so; those that are not
    known are made from the log.
    """

    def __init__(self, store: Store, pieces: tuple[type[Piece], ...]) -> None:
        self.store, self.pieces = store, pieces

    def __missing__(self, at: int) -> Player:
        return _recover_player(self.store, at, self.pieces)


def _replay_event(model: Contents, event: events.Event, graphs: Graphs, past: Pasts) -> bool:
    """Make one change again; return whether a decision came out differently."""
    pending = model.receipts.pending
    match event:
        case events.Decided():
            return _replay_decision(model, event, graphs[event.graph])
        case events.Fed(serial, time, events.FORGOTTEN_LABEL):
            transitions.forget(model, pending[serial], time)
        case events.Fed(serial, time, events.EXPIRED_LABEL):
            transitions.expire(model, pending[serial], time)
        case events.Fed(serial, time, label):
            transitions.learn(model, pending[serial], label, time)
        case events.Dropped():
            check_row(model.player, None)
        case events.RolledBack(_, at):
            transitions.apply(model, event, graphs, past[at])
        case _:
            if isinstance(event, events.Taught):
                check_given(model.player, events.NONE if event.scores is None else np.array(event.scores))
            transitions.apply(model, event, graphs)
    return False


def _replay_decision(model: Contents, event: events.Decided, graph: FeedbackGraph) -> bool:
    """Play a round again. Its action and probabilities are those of the log: they were acknowledged."""
    chances, K, N = event.probabilities, graph.n_classes, graph.n_actions
    fits = chances.shape == (N,) and 0 <= event.action < N and 0 <= event.greedy < K  # compiled code will trust it
    fits = fits and 0.0 <= event.time < math.inf
    if event.round != model.player.rounds or not fits or not is_distribution(chances) or chances[event.action] <= 0.0:
        raise Damaged
    vector = check_row(model.player, event.features)
    followed = (event.action, chances) if event.followed else None
    given = check_given(model.player, event.scores)
    record = transitions.decide(model, vector, graph, event.time, followed, given).turn.record
    drawn = record[HEAD : HEAD + N]
    differs = int(record[ACTION]) != event.action or not np.array_equal(drawn, chances)
    if differs:
        record[ACTION], drawn[:] = event.action, chances
    return differs


def check_row(player: Player, features: events.Features | None, which: str = "this part of the log") -> Vector:
    """Return the row of an event, checked; a UserError where it was dropped."""
    if features is None:
        raise UserError(f"the features of {which} were dropped, so it cannot be replayed: begin later (--first)")
    return player.check(tuple(features))


def check_given(player: Player, scores: Floats) -> Floats | None:
    """Return the scores of an event, None where there are none; :class:`Damaged` where they do not fit the player."""
    if scores.size == 0:
        return None
    fits = player.learner.takes_scores and scores.shape == (player.graph.n_classes,)
    if not fits or not (np.abs(scores) <= 1.0).all():  # compiled code will trust them
        raise Damaged
    return scores
