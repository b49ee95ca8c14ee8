"""Many requests, one fsync: requests that end while the disk is busy share its next write."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor


class Commits:
    """Waits in the event loop until what was done so far is durable.

    One thread calls `commit`, which blocks. Requests that come in meanwhile wait for the next call together, so their
    number does not change the number of calls.

    :param threads: where `commit` is called; by default in a thread of its own.

    >>> async def three_requests():
    ...     calls = []
    ...     commits = Commits(lambda: calls.append("fsync"))
    ...     await asyncio.gather(*(commits.durable() for _ in range(3)))
    ...     commits.close()
    ...     return calls
    >>> asyncio.run(three_requests())
    ['fsync']
    """

    def __init__(self, commit: Callable[[], object], threads: Executor | None = None) -> None:
        self._commit = commit
        self._threads = threads or ThreadPoolExecutor(1, "commit")
        self._is_shared = threads is not None
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        # The sentence of the last commit, if it failed.
        self.failure: str | None = None
        # Commits so far, and the time that they took together.
        self.count, self.seconds = 0, 0.0

    def durable(self) -> asyncio.Future[None]:
        """Return what ends when everything that was done before this call is durable, or with what `commit` raises.

        The next commit begins when the loop comes round.
        """
        if self._next is None or self._next.done():  # done: cancelled before it began
            self._next = asyncio.create_task(self._run(self._running))
        return asyncio.shield(self._next)  # a request that is cancelled leaves it to the others

    async def _run(self, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        begin = time.perf_counter()
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._commit)
            self.failure = None
        except Exception as error:
            self.failure = str(error)
            raise
        finally:
            self.count += 1
            self.seconds += time.perf_counter() - begin

    def close(self) -> None:
        """End the thread, if it is its own."""
        if not self._is_shared:
            self._threads.shutdown()
