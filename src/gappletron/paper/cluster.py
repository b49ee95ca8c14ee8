"""An executor of ``concurrent.futures`` on an existing Dask cluster."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor
from typing import Any

from gappletron.base.errors import UserError
from gappletron.kernel.compiling import source_hash

SECONDS_TO_CONNECT = 15
SECONDS_FOR_WORKERS = 120


@contextlib.contextmanager
def open_dask_executor(address: str, notify: Callable[[str], None]) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """Yield an executor on the cluster of a scheduler, and a function that returns how many runs to submit.

    That is two per worker thread, so that no thread waits for the network. It follows workers that join and leave, and
    Dask moves the runs of a lost worker to another. `notify` is called with a line when there is something to wait for.
    """
    try:
        from distributed import Client, KilledWorker
        from distributed.comm import CommClosedError
    except ImportError:
        raise UserError("a Dask cluster needs Dask, which is not installed here: pip install distributed") from None
    notify(f"connecting to {address}")
    try:
        client = Client(address, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise UserError(
            f"there is no Dask scheduler at {address!r} ({error}): start one with `dask scheduler` and use the "
            "address that it prints, such as tcp://127.0.0.1:8786"
        ) from None
    logger = logging.getLogger("distributed")
    with contextlib.closing(client), contextlib.ExitStack() as stack:
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)  # Dask logs forty lines for a lost connection
        if not client.nthreads():
            notify("waiting for the first worker")
        try:
            client.wait_for_workers(1, timeout=SECONDS_FOR_WORKERS)
        except TimeoutError:
            raise UserError(
                f"the Dask scheduler at {address!r} has no worker: start one with `dask worker {address}`"
            ) from None
        _check_sources(client)

        def in_flight() -> int:
            threads = sum(client.nthreads().values())
            if not threads:
                notify("no worker is left, waiting for one")
            return 2 * threads

        try:
            yield client.get_executor(), in_flight
        except (CancelledError, KilledWorker, CommClosedError) as error:
            raise UserError(
                f"lost the connection to the Dask cluster at {address!r} ({type(error).__name__}): the runs stored "
                "so far are kept; restart the cluster and run the command again"
            ) from error


def _check_sources(client: Any) -> None:
    """Check before the first run that every worker can import the package and has the same sources."""
    try:
        found = client.run(source_hash)
    except Exception as error:  # any error on a worker is raised here
        raise UserError(
            f"a Dask worker cannot import gappletron ({error}): install the same version on every worker and restart "
            "them"
        ) from error
    for worker, sources in found.items():
        if sources != source_hash():
            raise UserError(
                f"the Dask worker at {worker} has other sources of gappletron than this process: install the same "
                "version on every worker and restart them"
            )
