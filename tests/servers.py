"""Servers and clients for the tests of the service: in this process, in a thread, and in a process of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import uvicorn

from gappletron import Encoder, FeedbackGraph, Online

ROOT = Path(__file__).resolve().parent.parent
FILTER = FeedbackGraph.filtering(["ham", "spam"])


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert self.headers["content-type"] == "application/json"
        return self.json["error"]


class Browser:
    """Sends requests to an application in this process."""

    def __init__(self, app) -> None:
        self.app = app

    async def send(self, method, path, body=b"", headers=()) -> Answer:
        sent = []
        given = {"host": "127.0.0.1:8080", "content-type": "application/json", **dict(headers)}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8080),
        }
        parts = list(body) if isinstance(body, list) else [body]

        async def receive():
            return {"type": "http.request", "body": parts.pop(0) if parts else b"", "more_body": bool(parts)}

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]))

    def __call__(self, method, path, body=b"", headers=()) -> Answer:
        return asyncio.run(self.send(method, path, body, headers))

    def post(self, path, content, key=None, **headers) -> Answer:
        given = headers if key is None else {"idempotency-key": key, **headers}
        return self("POST", path, json.dumps(content).encode(), given)

    def get(self, path, **headers) -> Answer:
        return self("GET", path, headers=headers)


def mail_model(folder, **options):
    return Online.open(folder, graph=FILTER, encoder=Encoder(text="message", features=2**12), **options)


def vector_model(folder, **options):
    return Online.open(folder, graph=FeedbackGraph.bandit([0, 1, 2]), features="grow", **options)


@contextlib.contextmanager
def running(app, **options):
    """The application on a port of this machine, in a thread; its address. Options are those of uvicorn."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, **{"ws": "none", "log_level": "critical", "lifespan": "off"} | options))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def served(*arguments, command="serve"):
    """A server in a process of its own, and its address."""
    return started([sys.executable, "-m", "gappletron", command, *map(str, arguments), "--port", "0"])


@contextlib.contextmanager
def started(command, is_killed=False):
    """A server that a command starts, which may be killed, and its address."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        lines = []
        try:
            for line in process.stderr:
                lines.append(line)
                if "the page is at" in line:
                    break
            else:
                raise AssertionError("".join(lines))
            yield line.split()[-1].rstrip("/"), process
        finally:
            process.send_signal(signal.SIGTERM)
            lines += process.stderr.readlines()
            process.wait(30)
    if is_killed:
        return
    assert process.returncode == 0, "".join(lines)
    assert "stopped: everything is stored" in lines[-1], "".join(lines)
