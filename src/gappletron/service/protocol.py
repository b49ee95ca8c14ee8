"""HTTP on one connection: uvicorn's protocol, with limits on what a client may send before anyone looks at it.

httptools keeps a line of a head or of a trailer until its end comes. Nothing in it or in uvicorn says how long a head
may be, how long a client may take, or how many connections may be open.
"""

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gappletron.service.schemas import RETRY_AFTER, Failure

# Bytes of the head of a request, which is its first line and its headers, and of the address in it.
MOST_HEAD, MOST_URL = 65_536, 8_192
# Seconds in which the head of a request, and after it the body, must have come.
HEAD_SECONDS, BODY_SECONDS = 20.0, 60.0

SENTENCES = {
    400: "this cannot be read as a request of HTTP/1.1: correct what sends it",
    408: f"the request did not come in time: send its head within {HEAD_SECONDS:g} seconds, and its body within "
    f"{BODY_SECONDS:g}",
    414: f"the address has more than {MOST_URL:,} bytes, and none of this service is so long: see /docs",
    431: f"the first line and the headers have more than {MOST_HEAD:,} bytes: send fewer or shorter headers",
    503: "too many connections are open: use those that are open again, close others, or raise --max-connections",
}


class LimitedProtocol(HttpToolsProtocol):
    """Refuses what is too long or does not come in time, and connections from number `limit_concurrency` on.

    uvicorn's own meaning of this option is that a request is refused once the connection is there.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._is_in_body = False
        # Bytes of the head so far; of a body, bytes since the last that were part of its content.
        self._unread = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._seconds: float | None = None
        self._status = 400

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self.connections.discard(self)  # at once: others are refused by their number
            self._refuse(503)
        else:
            self._set_deadline(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        self._set_deadline(None)

    def data_received(self, data: bytes) -> None:
        """Read what has come, and no more of it than a head may have until the parser has passed it on."""
        while data and not self.transport.is_closing():
            part, data = data[: MOST_HEAD - self._unread], data[MOST_HEAD - self._unread :]
            self._unread += len(part)
            super().data_received(part)
            if self._unread >= MOST_HEAD:
                self._refuse(431)
        if not self.transport.is_closing():
            seconds = BODY_SECONDS if self._is_in_body else HEAD_SECONDS if self._unread else None
            if seconds != self._seconds:  # hardly ever: most requests come whole
                self._set_deadline(seconds)

    # ---------------------------------------------------------------------------------------- what the parser has found

    def on_message_begin(self) -> None:
        """Begin a head, which may come after a body in the same part."""
        super().on_message_begin()
        self._unread = max(self._unread, 1)

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        super().on_url(url)
        if len(self.url) > MOST_URL:
            self._status = 414
            raise ValueError("the address is too long")  # stops the parser, which calls send_400_response

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those after a body are read by nobody."""
        if not self._is_in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the body."""
        self._is_in_body, self._unread = True, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request: the next one has its own time."""
        self._is_in_body, self._unread = False, 0
        self._set_deadline(None)
        super().on_message_complete()

    # --------------------------------------------------------------------------------------------------------- refusing

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser does not take."""
        self._refuse(self._status)

    def _set_deadline(self, seconds: float | None) -> None:
        """Refuse the request in so many seconds; None: it may take as long as it likes."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._seconds = seconds
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self._refuse, 408)

    def _refuse(self, status: int) -> None:
        """Close the connection; say why where no other answer is under way, and to a client that has sent something."""
        cycle = self.cycle
        if self._is_in_body:
            is_free = not cycle.response_started and not self.pipeline
        else:
            is_free = (cycle is None or cycle.response_complete) and (self._unread > 0 or status == 503)
        if is_free and not self.transport.is_closing():
            body = msgspec.json.encode(Failure(SENTENCES[status]))
            retry = b"retry-after: %b\r\n" % RETRY_AFTER[status].encode() if status in RETRY_AFTER else b""
            length = b"content-length: %d\r\n" % len(body)
            head = STATUS_LINE[status] + b"content-type: application/json\r\nconnection: close\r\n" + retry + length
            self.transport.write(head + b"\r\n" + body)
        self.transport.close()
