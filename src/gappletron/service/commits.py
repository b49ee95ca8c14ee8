"""Many requests, one fsync: requests that end while the disk is busy share its next write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Commits:
    """Waits in the event loop until what was done so far is durable.

    One thread calls `commit`, which blocks. Requests that come in meanwhile wait for the next call together, so their
    number does not change the number of calls.

    >>> async def three_requests():
    ...     calls = []
    ...     commits = Commits(lambda: calls.append("fsync"))
    ...     await asyncio.gather(*(commits.durable() for _ in range(3)))
    ...     commits.close()
    ...     return calls
    >>> asyncio.run(three_requests())
    ['fsync']
    """

    def __init__(self, commit: Callable[[], object]) -> None:
        self._commit = commit
        self._thread = ThreadPoolExecutor(1, "commit")
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self.failure: str | None = None
        """The sentence of the last commit, if it failed."""
        self.count, self.seconds = 0, 0.0
        """Commits so far, and the time that they took together."""

    def durable(self) -> asyncio.Future[None]:
        """Return what ends when everything that was done before this call is durable, or with what `commit` raises.

        The next commit begins when the loop comes round.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self._task is None:
            self._task = asyncio.create_task(self._serve())
        return waiter

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiters:
            waiters, self._waiters = self._waiters, []
            begin = time.perf_counter()
            commit = loop.run_in_executor(self._thread, self._commit)
            await asyncio.wait([commit])
            error = commit.exception()
            self.failure = None if error is None else str(error)
            for waiter in waiters:
                if waiter.done():
                    continue
                if error is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(error)
            self.count += 1
            self.seconds += time.perf_counter() - begin
        self._task = None

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()
