"""What comes from outside, checked: rows and records as vectors, and labels as positions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from gappletron.base.checks import Label
from gappletron.base.errors import SpentReceipt, UserError
from gappletron.data.stream import MOST_FEATURES
from gappletron.data.vectors import Vectors, sparse_parts
from gappletron.kernel.numerics import UNSEEN_LABEL
from gappletron.kernel.types import Vector
from gappletron.online.receipts import UNSEEN, Receipt, Unseen
from gappletron.online.saved import Contents
from gappletron.play.turns import ACTION

T = TypeVar("T")

TOGETHER = 32
"""So many rows are played together; below that, holding signals back takes longer."""


def check_row(model: Contents, x: Any) -> Vector:
    """Return a row or a record as a checked vector."""
    return model.player.check(x) if model.encoder is None else model.encoder.vector(x)


def check_row_to_predict(model: Contents, x: Any) -> Vector:
    """Return a row or a record as a checked vector; a growing model takes indices that it will never have."""
    if model.player.feature_limit is None:
        return check_row(model, x)
    return model.player.checker.vector(tuple(sparse_parts(x, None)), MOST_FEATURES)


def check_rows(model: Contents, X: Any) -> list[Vector] | Vectors:
    """Return many rows as checked vectors: few as single ones, many together. An error names the row.

    :param X: rows, a sparse matrix, or with an encoder a table.
    """
    is_table = hasattr(X, "tocsr") or (model.encoder is not None and hasattr(X, "columns"))
    rows: Any = X if is_table else list(X)
    if model.encoder is not None and (is_table or len(rows) >= TOGETHER):
        encoded = _encode(model, rows)
        return encoded if encoded.squared.size >= TOGETHER else encoded.each()
    if not is_table:
        if len(rows) == 1:
            return [check_row(model, rows[0])]
        vectors = [_name_row(place, check_row, model, x) for place, x in enumerate(rows)]
    else:
        rows = rows.tocsr()
        together = model.player.check_many(rows) if rows.shape[0] >= TOGETHER else None
        if together is not None:
            return together
        pairs = itertools.pairwise(rows.indptr.tolist())
        vectors = [
            _name_row(place, model.player.check, (rows.indices[a:b], rows.data[a:b]))
            for place, (a, b) in enumerate(pairs)
        ]
    return vectors if len(vectors) < TOGETHER else Vectors.join(vectors)


def encode_rows(model: Contents, X: Any) -> Any:
    """Return a batch of records as checked vectors; other batches as they are."""
    return X if model.encoder is None or isinstance(X, Vectors) else model.encoder.vectors(X)


def check_label(model: Contents, receipt: Receipt, label: Label | Unseen) -> int:
    """Return the position of a label that the action of a receipt reveals, or that of none."""
    turn, own = receipt.turn, model.player.graph
    graph, action = turn.graph, int(turn.record.item(ACTION))
    if label is UNSEEN:
        # A class that was added since the action is one that the action did not reveal.
        if graph.arrays.revealing.item(action) and graph.n_classes == own.n_classes:
            raise UserError(
                f"the action {receipt.action!r} reveals every label, so there is one to learn: give it, or forget the "
                "receipt if the label will never be known"
            )
        return UNSEEN_LABEL
    position = own.class_index(label)
    if position >= graph.n_classes:
        raise UserError(
            f"the class {label!r} was added after the action of receipt {receipt.id!r}, which does not reveal it: pass "
            'UNSEEN (over HTTP, "unseen": true)'
        )
    if not graph.visible.item(action, position):
        raise UserError(
            f"the action {receipt.action!r} does not reveal the label {label!r}, so learning from it would be biased: "
            'pass UNSEEN (over HTTP, "unseen": true)'
        )
    return position


def check_feedback(
    model: Contents, feedback: Iterable[tuple[Receipt | str, Label | Unseen]]
) -> list[tuple[Receipt, int]]:
    """Return the receipts of much feedback with the positions of their labels; each may stand there once."""
    found: dict[int, tuple[Receipt, int]] = {}
    for given, label in feedback:
        receipt = model.receipts.find(given, model.player)
        if receipt.serial in found:
            raise SpentReceipt(f"the receipt {receipt.id!r} stands twice in the feedback: feedback counts once")
        found[receipt.serial] = receipt, check_label(model, receipt, label)
    return list(found.values())


def _encode(model: Contents, records: Any) -> Vectors:
    """Return many records as checked vectors; an error names the record."""
    assert model.encoder is not None
    try:
        return model.encoder.vectors(records)
    except UserError:
        if isinstance(records, list):
            for place, record in enumerate(records):
                _name_row(place, model.encoder.vector, record)
        raise


def _name_row(place: int, check: Callable[..., T], *arguments: Any) -> T:
    """Return what a check of one row of many returns; its error says which row it is."""
    try:
        return check(*arguments)
    except UserError as error:
        raise error.at(f"row {place}") from None
