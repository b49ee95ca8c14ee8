"""Several servers for one model in PostgreSQL: one leads, and the others follow its log, answer predictions, and take
over when it is gone.

Which server leads is decided by the lock of the database, and what one writes that has lost it is refused by the key of
`commits` (:mod:`gappletron.online.postgres`). So every server runs the same loop, :meth:`Standby.look`, whatever it is
at present; nothing but the time of a takeover depends on when it runs.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from gappletron.base.errors import UserError
from gappletron.online.follower import Follower
from gappletron.service.models import HostedModel

# Seconds between two looks at the log and at the leader.
EVERY = 0.1
# Seconds without a leader after which a standby takes over: one that has lost its connection, as after a restart of
# PostgreSQL, is back before.
GRACE = 0.7
# A replica that has not read the log for so many seconds has a problem.
LONGEST_SILENCE = 5.0

log = logging.getLogger("gappletron.service")


class Standby:
    """Keeps one model of this server up with its log, or leads.

    :param hosted: a model that was hosted with the follower that `make` returned.
    :param make: returns a follower, with which to begin anew where this one was replaced as the leader.
    :param take_over: makes a follower the writer of the log; None for a replica, which never is.
    """

    def __init__(
        self, hosted: HostedModel, make: Callable[[], Follower], take_over: Callable[[Follower], None] | None
    ) -> None:
        self.hosted, self._make, self._take_over = hosted, make, take_over
        # Since when no server has led, as far as this one has seen.
        self._alone_since: float | None = float("-inf")

    async def run(self) -> None:
        """Look again and again, until the task is cancelled."""
        while True:
            try:
                await self.look()
                problem = None
            except Exception as error:  # the next look must come all the same
                problem = str(error) or type(error).__name__
            self._note(problem)
            await asyncio.sleep(EVERY)

    def _note(self, problem: str | None) -> None:
        """Tell of a problem where it lasts."""
        hosted, lag = self.hosted, self.hosted.lag
        if problem is None or lag is None or lag.seconds < LONGEST_SILENCE:
            hosted.following_problem = None
        else:
            hosted.following_problem = f"the log cannot be followed for {lag.seconds:.0f} seconds: {problem}"

    async def look(self) -> None:
        """Follow what was logged; take over where nobody leads; follow again where another server leads now."""
        follower, name = self.hosted.follower, self.hosted.name
        assert follower is not None
        if follower.is_lost:
            if follower.is_leading:
                log.warning("the model %r: another server leads now, so this one follows it", name)
            self.hosted.adopt(await asyncio.to_thread(self._make))
            with contextlib.suppress(UserError):
                await asyncio.to_thread(follower.close)
        elif not follower.is_leading:
            while await asyncio.to_thread(follower.catch_up):
                pass
            if self._take_over is not None and await self._is_alone(follower):
                await asyncio.to_thread(self._take_over, follower)
                log.warning("the model %r: this server leads now, from round %d on", name, follower.model.rounds)
                self._alone_since = None

    async def _is_alone(self, follower: Follower) -> bool:
        """Return whether nobody has led for long enough."""
        now = time.monotonic()
        if await asyncio.to_thread(lambda: follower.is_led):
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        return self._alone_since is not None and now - self._alone_since >= GRACE
