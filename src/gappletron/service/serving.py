"""The server process: a socket, uvicorn, signals, and the way to a graceful stop."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
import uvloop
from prometheus_client import disable_created_metrics
from starlette.types import ASGIApp

from gappletron.base.errors import UserError
from gappletron.service.protocol import LimitedProtocol

log = logging.getLogger("gappletron.serve")

# Seconds that requests may still take after the signal to stop.
PATIENCE = 30


class _Server(uvicorn.Server):
    """Calls a function when requests can come, and leaves signals to :func:`serve`: uvicorn raises them again."""

    ready: Callable[[], Any]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready()

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


def serve(
    app: ASGIApp, listening: socket.socket, max_connections: int, ready: Callable[[], Any], log_level: str = "warning"
) -> None:
    """Serve until SIGTERM or SIGINT: then accept nothing more, finish what was begun, and let the application close.

    :param max_connections: so many may be open; more are refused.
    :param ready: is called when requests can come.
    :param log_level: that of the log of uvicorn, at least a warning.
    """
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        log_level=log_level if log_level == "error" else "warning",
        server_header=False,
        limit_concurrency=max_connections + 1,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=PATIENCE,
    )
    server = _Server(config)
    server.ready = ready

    def stop() -> None:
        if not server.should_exit:
            log.info("stopping: requests that have begun are finished, for at most %d seconds, then stored", PATIENCE)
        server.should_exit = True

    async def main() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        await server.serve([listening])

    disable_created_metrics()  # type: ignore[no-untyped-call]
    # Nearly nothing that requests leave behind is in a cycle, and a million waiting receipts take long to look through.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    uvloop.run(main())
