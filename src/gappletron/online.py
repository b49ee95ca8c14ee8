"""One round at a time, for real use: act now, learn when the feedback comes, save and go on later.

The kernels are the two halves of the round that :func:`gappletron.engine.advance` loops over, so a stream played either
way gives the same actions and the same weights, bit for bit.
"""

from __future__ import annotations

import enum
import json
import secrets
from collections import OrderedDict, deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gappletron import _files
from gappletron._dispatch import Piece, entry
from gappletron._validate import Label, UserError, whole
from gappletron.engine import Desk, Turn, decide, generator, greedy_class, update
from gappletron.graphs import FeedbackGraph
from gappletron.learners import check_can_play, named
from gappletron.learners.learner import Learner, Round
from gappletron.numerics import LARGEST_VALUE, UNSEEN_LABEL, Row
from gappletron.spelling import rebuilt, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from gappletron.numerics import Floats

__all__ = ["UNSEEN", "Online", "Receipt"]

FORMAT, VERSION = "gappletron.Online", 1


class Unseen(enum.Enum):
    """The type of :data:`UNSEEN`."""

    UNSEEN = "UNSEEN"

    def __repr__(self) -> str:
        return "UNSEEN"


UNSEEN = Unseen.UNSEEN
"""In place of a label: the round is over, and the graph hid the label."""


class Receipt:
    """An action that was taken, and all that learning from it later will need.

    >>> from gappletron import FeedbackGraph, Online
    >>> model = Online("gapsmh", FeedbackGraph.apple_tasting(), features=4, seed=1)
    >>> receipt = model.act(([0, 3], [1.0, 0.5]))
    >>> receipt.action, receipt.greedy, receipt.probability, receipt.reveals
    ('spam', 'ham', 0.5, ())
    >>> receipt.propensity("ham")
    0.5
    """

    __slots__ = ("_graph", "_probabilities", "_scores", "_turn", "_x", "id", "serial")

    id: str
    """Names the receipt across processes and files."""

    def __init__(
        self,
        model_id: str,
        serial: int,
        graph: FeedbackGraph,
        x: Row,
        scores: Floats,
        probabilities: Floats,
        turn: Turn,
    ) -> None:
        self.id = f"{model_id}-{serial}"
        self.serial = serial
        self._graph, self._x, self._scores, self._probabilities, self._turn = graph, x, scores, probabilities, turn

    @property
    def probabilities(self) -> Floats:
        """The probability of every action of the graph; not to be written to, since learning will need it."""
        view = self._probabilities.view()
        view.flags.writeable = False
        return view

    @property
    def action(self) -> Label:
        """What to do: a class, or an extra action such as a query."""
        return self._graph.actions[self._turn.action]

    @property
    def greedy(self) -> Label:
        """The class that the learner would bet on, y*."""
        return self._graph.classes[self._turn.greedy]

    @property
    def probability(self) -> float:
        """The probability with which the action was drawn."""
        return float(self._probabilities[self._turn.action])

    @property
    def reveals(self) -> tuple[Label, ...]:
        """The labels that the action shows: learn one of these, or UNSEEN where the label is another."""
        return self._graph.reveals(self.action)

    def propensity(self, label: Label) -> float:
        """P_t(label observed): the probability that the action drawn shows this label, if it is the true one."""
        return float(self._probabilities @ self._graph.visible[:, self._graph.class_index(label)])

    def __repr__(self) -> str:
        return f"<Receipt {self.id}: {self.action!r} with probability {self.probability:.3g}>"


class Online:
    """A learner in front of a real stream.

    :param learner: a learner, or the name of one.
    :param graph: which action shows which label; its class names are the labels.
    :param features: the number of features; indices run from 0 to features - 1.
    :param seed: of the learner's randomness.
    :param pending: how many receipts may wait for feedback; beyond that the oldest expire.

    >>> from gappletron import FeedbackGraph, Online, UNSEEN
    >>> model = Online("gapsmh", FeedbackGraph.apple_tasting(), features=3, seed=0)
    >>> for x, label in [([1.0, 0, 1], "ham"), ([1.0, 1, 0], "spam")] * 50:
    ...     receipt = model.act(x)
    ...     model.learn(receipt, label if label in receipt.reveals else UNSEEN)
    >>> model.predict([1.0, 0, 1]), model.predict([1.0, 1, 0])
    ('ham', 'spam')

    Feedback may come later, out of order, by receipt or by its id; an action that is never followed by `learn` simply
    had no feedback. The gradient is then taken at the scores of prediction time and applied to the weights of today. An
    instance is not to be used from several threads at once.
    """

    def __init__(
        self, learner: Learner | str, graph: FeedbackGraph, features: int, *, seed: int = 0, pending: int = 10_000
    ) -> None:
        if isinstance(learner, str):
            learner = named(learner)
        if not isinstance(learner, Learner):
            raise UserError(f"{learner!r} is not a learner: give one, or the name of one")
        if not isinstance(graph, FeedbackGraph):
            raise UserError(
                f"{graph!r} is not a FeedbackGraph: make one, for example FeedbackGraph.bandit(['a', 'b', 'c'])"
            )
        check_can_play(learner, graph)
        self.learner, self.graph = learner, graph
        self.features = whole(features, "features", least=1, most=2**31 - 1)
        self.pending_limit = whole(pending, "pending", least=1)
        self.rounds = 0
        self._id = secrets.token_hex(6)
        self._rng = generator(whole(seed, "the seed"))
        self._pending: OrderedDict[int, Receipt] = OrderedDict()
        self._expired: deque[int] = deque(maxlen=self.pending_limit)
        self._state = learner.start(graph, self.features)
        self._arrays = graph.arrays
        self._bind()

    def __repr__(self) -> str:
        return (
            f"<Online {self.learner.name} on {self.graph}: {self.rounds} rounds, {len(self._pending)} waiting, "
            f"{self.features} features>"
        )

    def _bind(self) -> None:
        """Compile now rather than in the first round, and keep the machine code: in use every microsecond counts."""
        x = Row(np.zeros(0, np.int32), np.zeros(0), 0, 0)
        desk = Desk(np.zeros(self.graph.n_classes), np.zeros(self.graph.n_actions))
        played = Round(desk.scores, desk.probabilities, 0, 0, UNSEEN_LABEL)
        self._check = entry(checked_row, np.zeros(0, np.int64), x.values, self.features, x.indices)
        self._decide = entry(decide, self.learner, self._state, self._arrays, x, desk, 0.5)
        self._update = entry(update, self.learner, self._state, self._arrays, x, played)
        self._greedy = entry(greedy_class, self.learner, self._state, x, desk.scores)

    # ---------------------------------------------------------------------------------------------------------- playing

    def act(self, x: Any) -> Receipt:
        """Draw an action for x.

        `x` is ``(indices, values)`` (the fastest), a dense vector of length `features`, a one-row scipy sparse matrix,
        or a mapping from index to value. Values of a repeated index are added up.
        """
        row = self._row(x)
        desk = Desk(np.empty(self.graph.n_classes), np.empty(self.graph.n_actions))
        turn = self._decide(self.learner, self._state, self._arrays, row, desk, self._rng.random())
        receipt = Receipt(self._id, self.rounds, self.graph, row, desk.scores, desk.probabilities, turn)
        self._pending[self.rounds] = receipt
        self.rounds += 1
        if len(self._pending) > self.pending_limit:
            self._expired.append(self._pending.popitem(last=False)[0])
        return receipt

    def learn(self, receipt: Receipt | str, label: Label | Unseen) -> None:
        """Take in the feedback of one action: the label, or UNSEEN where the round is over and the graph hid it."""
        waiting = self._waiting(receipt)
        turn = waiting._turn
        if label is UNSEEN:
            position = UNSEEN_LABEL
            if self._arrays.revealing[turn.action]:
                raise UserError(
                    f"the action {waiting.action!r} reveals every label, so there is one to learn: give it, or "
                    "leave the receipt alone if nobody told"
                )
        else:
            position = self.graph.class_index(label)
            if not self._arrays.visible[turn.action, position]:
                raise UserError(
                    f"the action {waiting.action!r} does not reveal the label {label!r}, so learning from it "
                    "would be biased: pass UNSEEN"
                )
        played = Round(waiting._scores, waiting._probabilities, turn.greedy, turn.action, position)
        self._update(self.learner, self._state, self._arrays, waiting._x, played)
        del self._pending[waiting.serial]

    def predict(self, x: Any) -> Label:
        """The greedy class for x; draws nothing and changes nothing."""
        scores = np.empty(self.graph.n_classes)
        return self.graph.classes[self._greedy(self.learner, self._state, self._row(x), scores)]

    @property
    def weights(self) -> Floats:
        """W as a matrix of features x classes."""
        return self.learner.weights(self._state)

    @property
    def pending(self) -> tuple[Receipt, ...]:
        """The receipts that still wait for feedback, oldest first."""
        return tuple(self._pending.values())

    def _waiting(self, receipt: Receipt | str) -> Receipt:
        name = receipt.id if isinstance(receipt, Receipt) else receipt
        if not isinstance(name, str):
            raise UserError(f"{receipt!r} is not a receipt: give what act() returned, or its id")
        model, _, number = name.rpartition("-")
        if (
            model != self._id
            or not number.isascii()
            or not number.isdigit()
            or len(number) > 18
            or int(number) >= self.rounds
        ):
            raise UserError(
                f"the receipt {name!r} is not from this model: learn from the receipts that its own act() returned"
            )
        serial = int(number)
        if serial in self._pending:
            return self._pending[serial]
        if serial in self._expired:
            raise UserError(
                f"the receipt {name!r} has expired, since more than {self.pending_limit} others were waiting: give "
                "the feedback sooner, or make the model with a larger pending="
            )
        raise UserError(f"the receipt {name!r} was already learned from (or expired long ago): feedback counts once")

    def _row(self, x: Any) -> Row:
        """x as a sparse row of its own arrays, with strictly increasing indices."""
        given_indices, given_values = sparse_parts(x, self.features)
        indices, numbers = _array(given_indices), _array(given_values)
        if numbers.size and numbers.dtype.kind not in "biuf":
            raise UserError(f"x has values of type {numbers.dtype}: give numbers")
        with np.errstate(over="ignore"):  # a long double beyond the range becomes inf and is refused as such
            values = np.array(numbers, dtype=np.float64)
        if indices.ndim != 1 or indices.shape != values.shape:
            raise UserError(
                f"x has {indices.shape} indices and {values.shape} values: give two flat sequences of one length"
            )
        if indices.size and indices.dtype.kind not in "iu":
            raise UserError(f"x has indices of type {indices.dtype}: they must be whole numbers")
        wide = indices.astype(np.int64)
        narrow = np.empty(wide.size, np.int32)
        problem, position = self._check(wide, values, self.features, narrow)
        if problem == UNSORTED:
            unique, inverse = np.unique(wide, return_inverse=True)
            return self._row((unique, np.bincount(inverse, weights=values)))
        if problem == OUTSIDE:
            raise UserError(
                f"x has the index {indices[position]}, and the model's {self.features} features run from 0 to "
                f"{self.features - 1}: hash or drop what is outside"
            )
        if problem == TOO_LARGE:
            raise UserError(
                f"x has the value {values[position]} at index {wide[position]}: features must be finite, and at "
                f"most {LARGEST_VALUE:g} in size"
            )
        return Row(narrow, values, 0, narrow.size)

    # ---------------------------------------------------------------------------------------------------- save and load

    def save(self, path: str | Path) -> None:
        """Write the whole model: weights, accumulators, random state, waiting receipts.

        The file is a NumPy archive with a JSON header: nothing in it can run code. It replaces an older one at once or
        not at all. A model that was saved and loaded at any round goes on bit for bit.
        """
        waiting = list(self._pending.values())
        header = {
            "format": FORMAT,
            "version": VERSION,
            "learner": spelled(self.learner),
            "features": self.features,
            "graph": {
                "classes": self.graph.classes,
                "actions": self.graph.actions,
                "name": self.graph.name,
                "dominating_set": self.graph.dominating_set,
            },
            "id": self._id,
            "rounds": self.rounds,
            "random": self._rng.bit_generator.state,
            "pending_limit": self.pending_limit,
            "expired": list(self._expired),
            "pending": [[r.serial, *r._turn[:2], float(r._turn.rate), r._x.stop] for r in waiting],
        }
        arrays: dict[str, Any] = {f"state{name}": array for name, array in _leaves(self._state)}
        arrays |= {
            "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
            "visible": self.graph.visible,
            "indices": _joined([r._x.indices for r in waiting], np.int32),
            "values": _joined([r._x.values for r in waiting], np.float64),
            "scores": _joined([r._scores for r in waiting], np.float64),
            "probabilities": _joined([r._probabilities for r in waiting], np.float64),
        }
        with _files.replacing(path) as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | Path, *, pieces: Iterable[type[Piece]] = ()) -> Online:
        """Read what :meth:`save` wrote; `pieces` are the classes of your own that the learner is made of.

        >>> import tempfile, pathlib
        >>> from gappletron import FeedbackGraph, Online
        >>> model = Online("gapsmh", FeedbackGraph.bandit(3), features=2)
        >>> receipt = model.act([0.5, 1.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder) / "model.npz")
        ...     again = Online.load(pathlib.Path(folder) / "model.npz")
        >>> again.learn(receipt.id, receipt.action)
        >>> again.rounds
        1
        """
        damaged = f"{str(path)!r} is damaged or not a saved model: use a file that Online.save wrote"
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
                if not isinstance(archive, np.lib.npyio.NpzFile) or "header" not in archive.files:
                    raise UserError(damaged)
                header = json.loads(bytes(archive["header"]))
                arrays = {name: archive[name] for name in archive.files}
                if (
                    archive.zip is None or archive.zip.testzip() is not None
                ):  # reading arrays may stop before their sums
                    raise UserError(damaged)
        except OSError as error:
            raise UserError(
                f"cannot read {str(path)!r} ({error.strerror or error}): give a file that Online.save wrote"
            ) from None
        except UserError:
            raise
        except (
            Exception
        ) as error:  # zipfile, its decompressors, NumPy and JSON have a dozen errors for bytes gone wrong
            raise UserError(damaged) from error
        if not isinstance(header, dict) or header.get("format") != FORMAT or type(header.get("version")) is not int:
            raise UserError(damaged)
        if header["version"] < 1:
            raise UserError(damaged)
        if header["version"] > VERSION:
            raise UserError(
                f"{str(path)!r} was written by a newer gappletron (format {header['version']}, this one reads up "
                f"to {VERSION}): upgrade gappletron"
            )
        try:
            return cls._rebuilt(header, arrays, tuple(pieces))
        except UserError as error:
            raise UserError(f"{str(path)!r}: {error}") from None
        except (
            ValueError,
            KeyError,
            TypeError,
            IndexError,
            AttributeError,
            OverflowError,
            RecursionError,
            MemoryError,
        ):
            raise UserError(damaged) from None

    @classmethod
    def _rebuilt(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], pieces: tuple[type[Piece], ...]
    ) -> Online:
        about = header["graph"]
        graph = FeedbackGraph(
            arrays["visible"],
            about["classes"],
            about["actions"],
            name=about["name"],
            dominating_set=about["dominating_set"],
        )
        model = cls(rebuilt(header["learner"], pieces), graph, header["features"], pending=header["pending_limit"])
        for name, array in _leaves(model._state):
            saved = arrays[f"state{name}"]
            if saved.shape != array.shape or saved.dtype != array.dtype:
                raise UserError(
                    f"its array {name} does not fit the learner: the file is damaged, or a piece has changed since"
                )
            array[...] = saved
        if not isinstance(header["id"], str):
            raise UserError("its id is not a text: the file is damaged")
        model._id, model.rounds = header["id"], whole(header["rounds"], "the rounds")
        model._rng.bit_generator.state = header["random"]
        model._expired.extend(whole(serial, "a serial") for serial in header["expired"])
        model._pending.update((receipt.serial, receipt) for receipt in _receipts(header["pending"], arrays, model))
        return model


def _receipts(rows: list[Any], arrays: dict[str, NDArray[Any]], model: Online) -> Iterator[Receipt]:
    """The waiting receipts of a file, checked: compiled code will trust them."""
    K, N = model.graph.n_classes, model.graph.n_actions
    damaged = UserError("a waiting receipt does not fit the model: the file is damaged")
    sizes = [whole(row[-1], "a size") for row in rows]
    wanted = {
        "indices": (sum(sizes), np.int32),
        "values": (sum(sizes), np.float64),
        "scores": (len(rows) * K, np.float64),
        "probabilities": (len(rows) * N, np.float64),
    }
    if len(rows) > model.pending_limit or any(
        arrays[name].shape != (size,) or arrays[name].dtype != dtype for name, (size, dtype) in wanted.items()
    ):
        raise damaged
    start, least = 0, 0
    for row, (serial, action, greedy, rate, size) in enumerate(rows):
        indices, values = (arrays[name][start : start + size].copy() for name in ("indices", "values"))
        if (
            model._check(indices.astype(np.int64), values, model.features, indices)[0] != FINE
            or type(rate) is not float
        ):
            raise damaged
        turn = Turn(whole(action, "an action", most=N - 1), whole(greedy, "a greedy class", most=K - 1), rate)
        yield Receipt(
            model._id,
            whole(serial, "a serial", least=least, most=model.rounds - 1),
            model.graph,
            Row(indices, values, 0, size),
            arrays["scores"][row * K : (row + 1) * K].copy(),
            arrays["probabilities"][row * N : (row + 1) * N].copy(),
            turn,
        )
        start, least = start + size, serial + 1


def _leaves(state: Any, name: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a state that change, each with its path; what is read-only was derived from the graph, and is
    again.
    """
    if isinstance(state, tuple):
        for field, value in zip(state._fields, state, strict=True):  # type: ignore[attr-defined]
            yield from _leaves(value, f"{name}.{field}")
    elif isinstance(state, np.ndarray):
        if state.flags.writeable:
            yield name, state
    else:
        raise UserError(
            f"the learner's state holds {name[1:]} = {state!r}: a state must be named tuples of arrays to be saved"
        )


def _joined(parts: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *parts])


# ---------------------------------------------------------------------------------------------------------------- input

FINE, UNSORTED, OUTSIDE, TOO_LARGE = range(4)


def checked_row(indices: NDArray[np.int64], values: Floats, features: int, out: NDArray[np.int32]) -> tuple[int, int]:
    """Copy the indices where all is well; else what is wrong, and where."""
    unsorted = False
    for p in range(indices.size):
        if indices[p] < 0 or indices[p] >= features:
            return OUTSIDE, p
        if not abs(values[p]) <= LARGEST_VALUE:  # so NaN is caught as well
            return TOO_LARGE, p
        if p > 0 and indices[p] <= indices[p - 1]:
            unsorted = True
        out[p] = indices[p]
    return (UNSORTED if unsorted else FINE), 0


def sparse_parts(x: Any, features: int) -> tuple[Any, Any]:
    """(indices, values) of whatever a user may call a feature vector."""
    if isinstance(x, tuple) and len(x) == 2:
        return x
    if hasattr(x, "tocsr"):
        if x.shape not in ((1, features), (features,)):
            raise UserError(f"x has the shape {x.shape}: give one row of {features} features")
        row = x.tocoo()
        return row.coords[-1] if hasattr(row, "coords") else row.col, row.data
    if isinstance(x, Mapping):  # after the sparse forms, of which one is a dict
        return list(x.keys()), list(x.values())
    dense = _array(x)
    if dense.shape not in ((features,), (1, features)):
        raise UserError(f"x has the shape {dense.shape}: give {features} numbers, or a pair (indices, values)")
    if dense.dtype.kind not in "biuf":
        raise UserError(f"x has entries of type {dense.dtype}: give numbers")
    dense = dense.reshape(-1)
    (indices,) = np.nonzero(dense)
    return indices, dense[indices]


def _array(given: Any) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise UserError(
            "x cannot be made into an array: give a pair (indices, values) of flat sequences, or a vector of numbers"
        ) from None
