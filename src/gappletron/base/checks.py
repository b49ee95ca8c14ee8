"""The checks at the border: every mistake a user can make ends in one sentence that says the cure.

Nothing in here knows what a graph, a stream or a learner is; the functions turn loose input into plain numbers, arrays
and labels, or raise :class:`UserError`.
"""

import math
import numbers
import operator
import os
import reprlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from gappletron.base.errors import UserError
from gappletron.base.text import describe

# What a class or an action may be called: it must survive a JSON file and compare without surprises.
Label: TypeAlias = str | int | bool | None


def number(
    value: object,
    name: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float = math.inf,
    finite: bool = True,
) -> float:
    """Return `value` as a float within the limits, or raise a UserError that names it.

    >>> number("3", "gamma")
    Traceback (most recent call last):
        ...
    gappletron.UserError: gamma must be a number, not '3'
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):  # NumPy's numbers are Real, its bool is not
        raise UserError(f"{name} must be a number, not {value!r}")
    try:
        result = float(value)
    except OverflowError:
        raise UserError(f"{name} must fit in a double, not {str(value)[:20]}...") from None
    if math.isnan(result) or (finite and math.isinf(result)):
        raise UserError(f"{name} must be {'finite' if finite else 'a number'}, not {result}")
    if above is not None and not result > above:
        raise UserError(f"{name} must be above {above:g}, not {result:g}")
    if least is not None and result < least:
        raise UserError(f"{name} must be at least {least:g}, not {result:g}")
    if result > most:
        raise UserError(f"{name} must be at most {most:g}, not {result:g}")
    return result


def whole(value: object, name: str, *, least: int = 0, most: int = 2**62) -> int:
    """Return `value` as an int within the limits, or raise a UserError that names it.

    >>> import numpy as np
    >>> whole(np.int32(7), "repeats", least=1)
    7
    """
    if isinstance(value, bool):
        raise UserError(f"{name} must be a whole number, not {value!r}")
    try:
        result = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UserError(f"{name} must be a whole number, not {value!r}") from None
    if result < least:
        raise UserError(f"{name} must be at least {least}, not {result if result > -(2**64) else 'so far below'}")
    if result > most:
        raise UserError(f"{name} must be at most {most}, not {result if result < 2**64 else 'so much more'}")
    return result


def label(value: Any, name: str) -> Label:
    """Return `value`, with a NumPy scalar unboxed, if it can name a class or an action.

    >>> import numpy as np
    >>> label(np.str_("ham"), "class"), label(np.int64(3), "class")
    ('ham', 3)
    >>> label(3.5, "class")
    Traceback (most recent call last):
        ...
    gappletron.UserError: class 3.5 is a float: names may be str, int, bool or None
    """
    numpy = sys.modules.get("numpy")  # a NumPy scalar exists only where NumPy was imported, which takes its time
    plain = value.item() if numpy is not None and isinstance(value, numpy.generic) else value
    if plain is None or type(plain) in (str, int, bool):
        return plain
    shown = describe(value) if hasattr(value, "shape") else reprlib.repr(value)
    raise UserError(f"{name} {shown} is a {type(plain).__name__}: names may be str, int, bool or None")


def labels(values: Iterable[Any], name: str) -> tuple[Label, ...]:
    """Return distinct labels, in the order given; labels that compare equal (1 and True) are refused.

    >>> labels([0, False], "class")
    Traceback (most recent call last):
        ...
    gappletron.UserError: the names 0 and False compare equal: every class needs a name of its own
    """
    result = tuple(label(value, name) for value in values)
    seen: dict[Label, Label] = {}
    for item in result:
        if item in seen:
            raise UserError(
                f"the names {seen[item]!r} and {item!r} compare equal: every {name} needs a name of its own"
            )
        seen[item] = item
    return result


# Bytes that are allocated without asking the system: the question takes longer than many short runs can spare.
ALWAYS_FITS = 2**24


def check_memory(n_bytes: int, what: str, cure: str) -> None:
    """Check that an allocation fits in the memory that is free, before it is made."""
    if n_bytes < ALWAYS_FITS:
        return
    free = free_memory()
    if n_bytes > free:
        raise UserError(
            f"{what} would take {n_bytes / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} are free: {cure}"
        )


def free_memory() -> int:
    """Return the bytes that can be had without swapping, or all of the machine's where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**36
