"""A Dask cluster that the user already has, as an executor of ``concurrent.futures``."""

from __future__ import annotations

import contextlib
import logging
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from gappletron._dispatch import source_hash
from gappletron._validate import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

__all__ = ["dask_executor"]

SECONDS_TO_CONNECT = 15
SECONDS_FOR_WORKERS = 120


@contextlib.contextmanager
def dask_executor(address: str, told: Callable[[str], None]) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """An executor on the cluster whose scheduler listens at `address`, and how many runs may be handed out right now.

    That is two for each thread of a worker, so that none waits for the network; it follows workers that come and go.
    Dask gives the runs of a worker that died to another. `told` gets a line where there is something to wait for.
    """
    try:
        from distributed import Client, KilledWorker
        from distributed.comm import CommClosedError
    except ImportError:
        raise UserError("a Dask cluster needs Dask here as well: pip install 'gappletron[dask]'") from None
    told(f"connecting to {address}")
    try:
        client = Client(address, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise UserError(
            f"there is no Dask scheduler at {address!r} ({error}): start one with `dask scheduler`, and give the "
            "address that it prints, such as tcp://127.0.0.1:8786"
        ) from None
    with _muted("distributed"), contextlib.closing(client):  # Dask logs forty lines for a lost connection; ours is one
        if not client.nthreads():
            told("waiting for the first worker")
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
                told("no worker is left: waiting for one")
            return 2 * threads

        try:
            yield client.get_executor(), in_flight
        except (CancelledError, KilledWorker, CommClosedError) as error:
            raise UserError(
                f"the Dask cluster at {address!r} went away ({type(error).__name__}): the runs stored so far are "
                "kept; start it again and repeat the command"
            ) from error


@contextlib.contextmanager
def _muted(name: str) -> Iterator[None]:
    """Only critical messages of this logger inside the block; its level is restored however the block ends."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _check_sources(client: Any) -> None:
    """Refuse workers that would play something else, or cannot play at all, before the first run."""
    try:
        found = client.run(source_hash)
    except Exception as error:  # whatever went wrong on a worker is raised here
        raise UserError(
            f"a Dask worker cannot load gappletron ({error}): install the same version on every worker, and "
            "start them anew"
        ) from error
    for worker, sources in found.items():
        if sources != source_hash():
            raise UserError(
                f"the Dask worker at {worker} has other sources of gappletron than this process: install the same "
                "version on every worker, and start them anew"
            )
