"""The server process: a socket, uvicorn, signals, and the way to a graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop
from prometheus_client import disable_created_metrics

from gappletron.base.errors import UserError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PATIENCE = 30
"""Seconds that requests may still take after the signal to stop."""


class _Server(uvicorn.Server):
    """Stops when it is told to, and leaves signals to :func:`serve`: uvicorn raises them again after the stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 is one that is free.

    >>> with bind_socket("127.0.0.1", 0) as found:
    ...     found.getsockname()[1] > 0
    True
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"the server cannot listen on {host!r}, port {port} ({error}): choose another --host or --port"
        ) from None
    found.set_inheritable(True)
    return found


def serve(app: ASGIApp, listening: socket.socket, ready: Callable[[], Any]) -> None:
    """Serve until SIGTERM or SIGINT: then accept nothing more, finish what was begun, and let the application close.

    :param ready: is called when requests can come.
    """
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=PATIENCE,
    )
    server = _Server(config)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            server.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        serving = asyncio.create_task(server.serve([listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            ready()
        await serving

    disable_created_metrics()  # type: ignore[no-untyped-call]
    # Nearly nothing that requests leave behind is in a cycle, and a million waiting receipts take long to look through.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
