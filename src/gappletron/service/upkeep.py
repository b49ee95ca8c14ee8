"""What a server does when no request comes: receipts expire, what could not be stored is tried again, and problems of
the journals are written to the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from gappletron.base.errors import UserError
from gappletron.service.hosted import Hosted

__all__ = ["look_after"]

EVERY = 5.0
"""Seconds between two looks at the models."""

log = logging.getLogger("gappletron.service")


async def look_after(models: Sequence[Hosted], every: float = EVERY) -> None:
    """Look at the models again and again, until the task is cancelled."""
    said: dict[str, str | None] = {}
    while True:
        for hosted in models:
            try:
                problem = await _problem_of(hosted)
            except Exception as error:  # the next look must come all the same
                problem = f"it cannot be looked after ({type(error).__name__}: {error})"
            if problem is not None and problem != said.get(hosted.name):
                log.warning("the model %r: %s", hosted.name, problem)
            said[hosted.name] = problem
        await asyncio.sleep(every)


async def _problem_of(hosted: Hosted) -> str | None:
    """Do what is due for a model; what is wrong with it afterwards."""
    with contextlib.suppress(UserError, OSError):  # what is left of it is the problem that is told next
        if hosted.commits.failure is not None:
            # Where a proxy sends nothing to a server that is not well, no request would try it again.
            await hosted.commits.durable()
        await hosted.expire()
    return hosted.problem
