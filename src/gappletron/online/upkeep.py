"""What keeps a store well: checks, retention, and going on when something was lost.

Nothing here is needed to run a model. An SQLite file must not be open elsewhere where something is removed from it.
"""

import contextlib
from os import PathLike
from typing import NamedTuple

from gappletron.base.errors import UserError
from gappletron.kernel.pieces import Piece
from gappletron.online.contents import FORMAT
from gappletron.online.database import NAME, name_place
from gappletron.online.decisions import read_decisions
from gappletron.online.model import Online
from gappletron.online.opening import recover
from gappletron.online.store import Store


class Checked(NamedTuple):
    """What a check has read: so many rounds, the first event that is kept, the one from which on all was done again,
    and that of the last snapshot.
    """

    rounds: int
    beginning: int
    first: int
    snapshot: int


def check(place: str | PathLike[str], *, name: str = NAME, pieces: tuple[type[Piece], ...] = ()) -> Checked:
    """Read everything that is stored of a model, and do all of it again; a UserError tells of damage.

    SQLite's own check of its pages comes first, then the checksums of all rows and snapshots. At last the state that
    the log leads to from the first snapshot is compared with that of the last one, bit for bit; where features were
    removed, from the first snapshot since then. Another process may have it open.
    """
    with contextlib.closing(Store(place, name)) as store:
        damage = store.database.find_damage()
        if damage is not None:
            raise UserError(f"in {store.name!r} {damage}: restore a backup")
        store.check_rest()
        beginning, stop, first = store.beginning, store.count, store.find_first()
        snapshots = [at for at in store.snapshots() if at <= stop]
        for at in snapshots:
            _check_snapshot(store, at)
        rounds = sum(batch.num_rows for batch in read_decisions(place, name=name))
        whole, short = (Online._from_contents(recover(store, pieces, each, stop)) for each in ([first], snapshots))
    different = whole.differences(short)
    if different:
        raise UserError(
            f"the log in {name_place(place)!r} leads to another state than its last snapshot, in {different[0]}, as "
            "after a change of versions or of the machine: where neither changed, report it"
        )
    return Checked(rounds, beginning, first, max(snapshots, default=0))


def _check_snapshot(store: Store, at: int) -> None:
    try:
        store.read_snapshot(at, FORMAT, lambda *_: None)
    except UserError:
        if at in store.snapshots():  # else the process that has it open has removed it meanwhile
            raise UserError(
                f"the snapshot after {at:,} events in {store.name!r} is damaged: the model can be opened with the "
                "other snapshots and the log; to have this one too, restore a backup"
            ) from None


class Limit(NamedTuple):
    """How much is kept: the last so many rounds, or what is younger than so many seconds.

    >>> Limit.parse("30d", now=2_600_000.0), Limit.parse("5000", now=0.0)
    (Limit(column='time', value=8000.0), Limit(column='round', value=5000))
    """

    column: str
    value: float

    @classmethod
    def parse(cls, text: str, now: float) -> "Limit":
        """Return the limit of a text: ``30d``, ``12h``, or a number of rounds."""
        for ending, seconds in (("d", 86_400.0), ("h", 3_600.0)):
            if text.endswith(ending) and text[:-1].isdecimal():
                return cls("time", now - int(text[:-1]) * seconds)
        if not text.isdecimal():
            raise UserError(f"{text!r} is neither an age nor a number of rounds: write 30d, 12h or 100000")
        return cls("round", int(text))


def retain(
    place: str | PathLike[str],
    *,
    name: str = NAME,
    features: Limit | None = None,
    decisions: Limit | None = None,
    answers: Limit | None = None,
) -> dict[str, int]:
    """Remove features, decisions and answers that are older than these limits; return how many there were.

    What the last two snapshots need stays, and what a roll-back after them needs.
    """
    Store(place, name).close()  # there must be one: opened to write, it would be made
    with contextlib.closing(Store(place, name, "disk")) as store:
        removed = {}
        ((rounds,),) = store.read("SELECT COALESCE(max(round), -1) + 1 FROM acts WHERE model = ?")

        def find_seq(limit: Limit) -> int:
            return store.find_seq(limit.column, limit.value if limit.column == "time" else rounds - limit.value)

        if features is not None:
            removed["features"] = store.drop_features(find_seq(features))
        if decisions is not None:
            removed["decisions"] = store.drop_decisions(find_seq(decisions))
        if answers is not None:
            if answers.column != "time":
                raise UserError("answers have no rounds: give an age, as in 7d")
            removed["answers"] = store.drop_answers(answers.value)
        return removed
