"""Which model decides and which follow it in its shadow: the names of receipts, promotions, and what a kill has torn.

Each model has a store of its own, so what one has stored and the other has not is compared when they are started. The
log of the champion is what counts: it is what clients were answered from.
"""

import bisect
import contextlib
import logging
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from gappletron import UNSEEN, FeedbackGraph, Online
from gappletron.base.errors import SpentReceipt, UserError
from gappletron.online import events
from gappletron.online.opening import Graphs
from gappletron.online.store import BLOCK, Store

# So many of the champion's last events are looked through for what a shadow lacks.
MOST_MISSED = 100_000
# What a shadow repeats.
Missing: TypeAlias = events.Decided | events.Fed | events.Added | events.GraphChanged

log = logging.getLogger("gappletron.service")


# The end of keys under which a shadow remembers its own receipts.
SHADOW = " /shadow"


class Key(NamedTuple):
    """An idempotency key: a name for the request, and what tells its content from another's."""

    name: str
    fingerprint: bytes


def shadow_key(receipt: str) -> Key:
    """Return the key under which a shadow remembers its own receipt for a decision of the champion."""
    return Key(receipt + SHADOW, b"")


def check_shadow(champion: Online, shadow: Online, names: tuple[str, str]) -> None:
    """Raise UserError if a model cannot follow the decisions of another; `names` are those of both."""
    same = shadow.graph.actions == champion.graph.actions and shadow.graph.classes == champion.graph.classes
    if not same or not np.array_equal(shadow.graph.visible, champion.graph.visible):
        raise UserError(
            f"the model {names[1]!r} cannot shadow {names[0]!r}, since their graphs differ: make it with the "
            "same classes, actions and edges"
        )
    if (shadow.encoder is None) != (champion.encoder is None):
        raise UserError(
            f"the model {names[1]!r} cannot shadow {names[0]!r}, since one takes records and the other "
            "vectors: make both with an encoder, or both without"
        )


def find_champions(models: Mapping[str, Online], champions: Mapping[str, str]) -> dict[str, str]:
    """Return which model shadows which, where promotions that the logs tell of count for more than what is given."""
    found = dict(champions)
    for champion in dict.fromkeys(champions.values()):
        group = [champion, *(name for name, each in champions.items() if each == champion)]
        terms = {champion: 0}
        for name in group:
            role = models[name].find_role(decides=True)
            if role is not None and role[0] in group:
                terms[name] = role[1]
        decides = max(terms, key=lambda name: terms[name])
        if decides != champion:
            log.warning("the model %r decides in place of %r, since it was promoted", decides, champion)
            del found[decides]
            found |= {name: decides for name in group if name != decides}
    return found


def reconcile(champion: Online, shadow: Online) -> int:
    """Let a shadow catch up with what its champion has stored and it has not, as after a kill; return how many
    decisions and pieces of feedback it has missed for good.

    Decisions that the champion has not stored were never answered: the shadow forgets its receipts for them.
    """
    first, lost = shadow.rounds, 0
    with contextlib.closing(Store(*champion.stored_as)) as store:
        own, missing = _find_missing(store, shadow)
        opened = {event.first: event.name for event in store.read_changes("opened", 0, store.count)}
        starts, graphs = sorted(opened), Graphs(store, champion.graph)
        for event in missing:
            try:
                if isinstance(event, events.Added | events.GraphChanged):
                    shadow.set_graph(fit_graph(graphs[event.graph], shadow))
                    continue
                name = f"{opened[starts[bisect.bisect(starts, event.round) - 1]]}-{event.round}"
                if isinstance(event, events.Fed):
                    own_name = _find_own(store, shadow, name)
                    if own_name is not None:
                        _repeat(shadow, own_name, event, champion.graph)
                elif champion.encoder == shadow.encoder:
                    _follow(shadow, name, event, graphs[event.graph])
                else:
                    lost += 1  # its features are those of another encoder
            except SpentReceipt:  # it has stored this feedback
                pass
            except UserError:  # such as features that were dropped; check_shadow says what is wrong with a graph
                lost += isinstance(event, events.Decided | events.Fed)
    if own is not None:
        for receipt in shadow.pending:
            if own < receipt.serial < first:
                shadow.forget(receipt)
    shadow.commit()
    return lost


def fit_graph(graph: FeedbackGraph, shadow: Online) -> FeedbackGraph:
    """Return a champion's graph for a shadow, without costs where its learner minimises mistakes."""
    return graph.with_costs(None) if graph.has_costs and not shadow.learner.uses_costs else graph


def _find_missing(store: Store, shadow: Online) -> tuple[int | None, list[Missing]]:
    """Return the decisions, the feedback and the graphs of a champion's log since the last decision that a shadow has
    followed, or since the champion was promoted; and before them the round of that decision in the shadow, None where
    there is none.
    """
    missing: list[Missing] = []
    beginning = max(store.beginning, store.count - MOST_MISSED)
    for stop in range(store.count, beginning, -BLOCK):
        for block in store.read_blocks(max(beginning, stop - BLOCK), stop):
            for _, event in reversed(block):
                if isinstance(event, events.Promoted):
                    return None, missing[::-1]
                if isinstance(event, events.Decided) and not event.followed:
                    own = shadow.recall(*shadow_key(f"{event.session}-{event.round}"))
                    if own is not None:
                        return int(own.decode().rpartition("-")[2]), missing[::-1]
                if isinstance(event, Missing):
                    missing.append(event)
    return None, []  # it has never followed


def _follow(shadow: Online, name: str, event: events.Decided, graph: FeedbackGraph) -> None:
    """Follow a decision of the log, whose receipt has this name."""
    if event.features is None:
        raise UserError("the features of the decision were dropped")
    # As probabilities, of which such scores are made again.
    scores = (1.0 + event.scores) / 2.0 if event.scores.size and shadow.learner.takes_scores else None
    with shadow.hold():
        own = shadow.follow(tuple(event.features), graph.actions[event.action], event.probabilities, scores=scores)
        shadow.remember(*shadow_key(name), own.id.encode())


def _find_own(store: Store, shadow: Online, name: str) -> str | None:
    """Return the name of a shadow's own receipt for one of its champion, which may have followed then: the shadow, or a
    third model that both have followed.
    """
    own = shadow.recall(*shadow_key(name))
    if own is None:
        key = store.find_key(name.encode())
        if key is None:
            return None
        name = key.removesuffix(SHADOW)
        own = shadow.recall(*shadow_key(name))
    return name if own is None else own.decode()


def _repeat(shadow: Online, own: str, event: events.Fed, graph: FeedbackGraph) -> None:
    """Give a shadow the feedback of the log, if its own receipt waits."""
    if event.label == events.FORGOTTEN_LABEL:
        shadow.forget(own)
    elif event.label != events.EXPIRED_LABEL:
        shadow.learn(own, UNSEEN if event.label < 0 else graph.classes[event.label])
