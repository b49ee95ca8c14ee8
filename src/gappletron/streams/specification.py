"""Reading the numbers of a stream's name, such as ``K=9,d=120`` in ``synthetic:K=9,d=120``."""

from __future__ import annotations

from typing import Any

from gappletron._validate import UserError, listing, unknown

__all__ = ["settings"]


def settings(spec: str, kind: str, keys: dict[str, str], example: str, needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """The numbers of a specification, by the names of the arguments that they are for.

    Whole floats become ints, so that 1e6 is a fine number of rounds; whether a number fits is for the stream to say.

    >>> settings("K=6,T=1e6", "synthetic", {"K": "classes", "T": "rounds"}, "K=9,T=100000")
    {'classes': 6, 'rounds': 1000000}
    """
    given: dict[str, Any] = {}
    for item in spec.split(",") if spec.strip() else ():
        key, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise UserError(
                f"{item.strip()!r} in the {kind} stream {spec!r} is not key=number: write for example {kind}:{example}"
            )
        if key not in keys:
            raise unknown(key, f"setting of a {kind} stream", tuple(keys))
        if keys[key] in given:
            raise UserError(f"{key} is given twice in the {kind} stream {spec!r}: give it once")
        refusal = f"{key}={text!r} in a {kind} stream is not a number: write for example {kind}:{example}"
        given[keys[key]] = _number(text, refusal)
    missing = [key for key in needed if keys[key] not in given]
    if missing:
        raise UserError(f"the {kind} stream {spec!r} lacks {listing(missing)}: write for example {kind}:{example}")
    return given


def _number(text: str, refusal: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        raise UserError(refusal) from None
    return int(value) if value.is_integer() else value
