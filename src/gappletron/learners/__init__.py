"""The learners, one family a file, and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gappletron._validate import unknown
from gappletron.learners import gappletron

if TYPE_CHECKING:
    from gappletron.learners.learner import Learner

__all__ = ["named", "names"]

REGISTERED: dict[str, Learner] = {name: gappletron.Gappletron(loss()) for loss, name in gappletron.NAMES.items()}


def names() -> list[str]:
    """The names that :func:`named` knows.

    >>> names()
    ['gapsmh', 'gaphin', 'gaplog', 'gaplog2']
    """
    return list(REGISTERED)


def named(name: str) -> Learner:
    """The learner of this name, with default parameters.

    >>> named("gaphin")
    Gappletron(loss=Hinge(kappa=0.5), optimizer=AdaptiveOGD(scale=1.0), exploration=TopUp(gamma=1.0))
    """
    if name not in REGISTERED:
        raise unknown(name, "learner", names())
    return REGISTERED[name]
