"""What a client may send before anyone looks at it: heads, bodies that do not come, connections."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from urllib.parse import urlsplit

import psutil
import pytest

from gappletron.service import protocol
from gappletron.service.protocol import MOST_HEAD, MOST_URL, LimitedProtocol
from servers import running

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


async def echo(scope, receive, send):
    """Answers with the body of a request, and the number of its headers."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    headers = [(b"content-length", b"%d" % len(body)), (b"x-headers", b"%d" % len(scope["headers"]))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def opened(connections=100):
    """A function that opens connections to a server with the limits."""
    with (
        running(echo, http=LimitedProtocol, limit_concurrency=connections + 1) as address,
        contextlib.ExitStack() as all_,
    ):
        place = urlsplit(address)

        def connect():
            return all_.enter_context(socket.create_connection((place.hostname, place.port), timeout=10))

        yield connect


def answer(connection) -> bytes:
    """All that the server sends until it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def status(text: bytes) -> int:
    """The status of an error, which is JSON with one sentence, as every error of the service."""
    head, _, body = text.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert list(json.loads(body)) == ["error"]
    return int(head.split()[1])


def send_for_ever(connection, part: bytes, most: int) -> int:
    """Send the same part again and again until the server refuses; how many bytes it took."""
    sent = 0
    with contextlib.suppress(ConnectionError, TimeoutError):
        while sent < most:
            connection.sendall(part)
            sent += len(part)
    return sent


@pytest.mark.parametrize("part", [b"a: " + b"b" * 65_000 + b"\r\n", b"c" * 65_536, b"a: b\r\n" * 10_000])
@pytest.mark.parametrize(
    "where", [b"", b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"Transfer-Encoding: chunked\r\n\r\n5;"]
)
def test_headers_without_end_take_no_memory(part, where):
    """Also those after a body (trailers), and what may stand beside the length of a chunk."""
    process = psutil.Process()
    with opened() as connect:
        connection = connect()
        connection.sendall(HEAD + where)
        before = process.memory_info().rss
        sent = send_for_ever(connection, part, 64_000_000)
        assert process.memory_info().rss - before < 30_000_000
        assert sent < 16_000_000  # what the buffers of the system hold


@pytest.mark.parametrize("step", [1, 1_000, 10**6])
def test_a_head_of_64_kib_is_the_largest(step):
    with opened() as connect:
        for size, expected in [(MOST_HEAD - 1, 200), (MOST_HEAD + 1, 431)]:
            connection = connect()
            begin, end = HEAD + b"Content-Length: 2\r\nConnection: close\r\nA: ", b"\r\n\r\n"
            whole = begin + b"b" * (size - len(begin) - len(end)) + end + b"hi"
            pause = len(whole) - 300 if step == 1 else 0  # byte by byte at the end alone
            connection.sendall(whole[:pause])
            with contextlib.suppress(ConnectionError):
                for place in range(pause, len(whole), step):
                    connection.sendall(whole[place : place + step])
            text = answer(connection)
            assert int(text.split()[1]) == expected
            assert expected == 200 or status(text) == 431


def test_many_requests_on_one_connection_have_a_head_each():
    """Their bytes do not add up, whether they come one by one or at once, and however bodies are cut."""
    one = HEAD + b"Content-Length: 100000\r\nA: " + b"b" * 30_000 + b"\r\n\r\n" + b"c" * 100_000
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nd\r\n" * 30_000 + b"0\r\nTrailer: e\r\n\r\n"
    last = HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n"
    with opened() as connect:
        connection = connect()
        connection.sendall(one * 5 + chunked * 2 + last)
        text = answer(connection)
    assert text.count(b"HTTP/1.1 200") == 8
    assert text.count(b"c") > 500_000
    assert text.count(b"d" * 30_000) == 2


@pytest.mark.parametrize("step", [100, 10**6])
def test_an_address_without_end_is_refused(step):
    with opened() as connect:
        for size, expected in [(MOST_URL, 200), (MOST_URL + 1, 414)]:
            connection = connect()
            whole = b"GET /" + b"a" * (size - 1) + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            with contextlib.suppress(ConnectionError):
                for place in range(0, len(whole), step):
                    connection.sendall(whole[place : place + step])
            assert int(answer(connection).split()[1]) == expected


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (b"", None),
        (b"GET / HT", 408),
        (b"\r\n", 408),
        (HEAD + b"A: b\r\n", 408),
        (HEAD + b"Content-Length: 5\r\n\r\nhel", 408),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", 408),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT", 408),
    ],
)
def test_what_does_not_come_in_time_is_refused(begin, expected, monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.3)
    with opened() as connect:
        connection = connect()
        connection.sendall(begin)
        start = time.monotonic()
        text = answer(connection)
        assert 0.2 < time.monotonic() - start < 5.0
    assert text == b"" if expected is None else status(text[text.rindex(b"HTTP/1.1") :]) == expected


def test_drops_do_not_keep_a_connection_open(monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.4)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.4)
    with opened() as connect:
        for begin in (HEAD, HEAD + b"Content-Length: 1000\r\n\r\n", b""):
            connection = connect()
            connection.sendall(begin)
            start = time.monotonic()
            with contextlib.suppress(ConnectionError):
                while time.monotonic() - start < 5.0:
                    connection.sendall(b"\r\n" if not begin else b"a")
                    time.sleep(0.05)
            assert time.monotonic() - start < 3.0


def test_a_request_in_time_is_not_refused_later(monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.3)
    with opened() as connect:
        connection = connect()
        for _ in range(3):
            connection.sendall(HEAD + b"Content-Le")
            time.sleep(0.1)
            connection.sendall(b"ngth: 4\r\n\r\nhe")
            time.sleep(0.1)
            connection.sendall(b"re")
            assert connection.recv(1000).endswith(b"here")
            time.sleep(0.5)  # no request is under way


def test_connections_are_limited():
    with opened(connections=5) as connect:
        request = HEAD + b"Content-Length: 2\r\n\r\nhi"
        kept = [connect() for _ in range(5)]
        for connection in kept:
            connection.sendall(request)
            assert connection.recv(1000).endswith(b"hi")
        text = answer(connect())
        assert status(text) == 503
        assert b"retry-after: 5" in text
        for connection in kept:  # those that are open go on
            connection.sendall(request)
            assert connection.recv(1000).endswith(b"hi")
        kept[0].close()
        until = time.monotonic() + 5.0
        while True:
            connection = connect()
            connection.sendall(request)
            with contextlib.suppress(ConnectionError):
                if connection.recv(1000).endswith(b"hi"):
                    break
            assert time.monotonic() < until


def test_what_is_no_request_is_refused_with_a_sentence():
    with opened() as connect:
        connection = connect()
        connection.sendall(b"hello\r\n\r\n")
        assert status(answer(connection)) == 400
