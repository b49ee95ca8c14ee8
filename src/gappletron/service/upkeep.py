"""What a server does when no request comes: receipts expire, and problems of the journals are written to the log."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from gappletron._validate import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
                await hosted.expire()
            except (UserError, OSError) as error:  # requests tell of it, too
                log.warning("receipts of %r could not expire: %s", hosted.name, error)
            problem = hosted.problem
            if problem is not None and problem != said.get(hosted.name):
                log.warning("the model %r: %s", hosted.name, problem)
            said[hosted.name] = problem
        await asyncio.sleep(every)
