"""Answers under idempotency keys: a request that is repeated gets the same answer, and nothing happens twice."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gappletron.base.errors import KeyReused, UserError

MOST_ANSWERS, MOST_BYTES = 100_000, 2**26
"""How many answers are kept, and how much memory they may take; beyond that the oldest are dropped."""
MOST_KEY, MOST_FINGERPRINT = 255, 64
"""Bytes in a key and in a fingerprint."""


class Answers:
    """The last answers by their keys.

    >>> answers = Answers()
    >>> answers.put("key 1", b"fingerprint", b"the answer")
    >>> answers.find("key 1", b"fingerprint"), answers.find("key 2", b"fingerprint")
    (b'the answer', None)
    """

    def __init__(self) -> None:
        self._found: OrderedDict[str, tuple[bytes, bytes]] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._found)

    def __copy__(self) -> Answers:
        copied = Answers()
        copied._found, copied.nbytes = self._found.copy(), self.nbytes
        return copied

    def find(self, key: str, fingerprint: bytes) -> bytes | None:
        """The answer to the request with this key and fingerprint; None where there is none."""
        _check(key, fingerprint)
        known, answer = self._found.get(key, (fingerprint, None))
        if known != fingerprint:
            raise KeyReused(
                "this idempotency key was used for another request: use a new key for each request, and the same key "
                "only to repeat it"
            )
        return answer

    def put(self, key: str, fingerprint: bytes, answer: bytes) -> None:
        """Keep an answer; the oldest are dropped where there are too many."""
        _check(key, fingerprint)
        if not isinstance(answer, bytes):
            raise UserError(f"an answer must be bytes, not {type(answer).__name__}: encode it first")
        if key in self._found:
            self.nbytes -= _size(key, self._found.pop(key))
        self._found[key] = (fingerprint, answer)
        self.nbytes += _size(key, (fingerprint, answer))
        while len(self._found) > MOST_ANSWERS or (self.nbytes > MOST_BYTES and len(self._found) > 1):
            self.nbytes -= _size(*self._found.popitem(last=False))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The answers for a file."""
        rows = [(key.encode(), *found) for key, found in self._found.items()]
        sizes = np.array([[len(part) for part in row] for row in rows], np.int64).reshape(len(rows), 3)
        return {
            "answers.sizes": sizes,
            "answers.bytes": np.frombuffer(b"".join(part for row in rows for part in row), np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Answers:
        """Return the answers of a file, checked."""
        answers = cls()
        sizes, data = arrays["answers.sizes"], arrays["answers.bytes"]
        is_right = sizes.dtype == np.int64 and sizes.shape[1:] == (3,) and data.dtype == np.uint8
        if not is_right or len(sizes) > MOST_ANSWERS or (sizes < 0).any() or int(sizes.sum()) != data.size:
            raise UserError("the answers under idempotency keys are damaged")
        source = io.BytesIO(data.tobytes())
        for row in sizes.tolist():
            key, fingerprint, answer = (source.read(size) for size in row)
            answers.put(key.decode(), fingerprint, answer)
        return answers


def _check(key: Any, fingerprint: Any) -> None:
    if not isinstance(key, str) or not 0 < len(key.encode(errors="replace")) <= MOST_KEY or not key.isprintable():
        raise UserError(
            f"an idempotency key must be a printable text of 1 to {MOST_KEY} bytes: use a random one, such as a UUID"
        )
    if not isinstance(fingerprint, bytes) or len(fingerprint) > MOST_FINGERPRINT:
        raise UserError(f"a fingerprint must be at most {MOST_FINGERPRINT} bytes: give a hash of the request")


def _size(key: str, found: tuple[bytes, bytes]) -> int:
    return len(key) + len(found[0]) + len(found[1]) + 200  # what Python needs for the objects
