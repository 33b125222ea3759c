"""Plugins that the perimeter is tried on: over HTTP, in threads, and what they were sent."""

import json
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import structlog
from structlog.testing import capture_logs

from producers.contract_kit.flat_plugin import Body, FlatHandler, FlatStore
from tests.producers.contract_kit.judging import served


@dataclass
class RecordedCalls:
    """The calls that a plugin got, in order: method, path, body."""

    calls: list[tuple[str, str, Any]] = field(default_factory=list)

    @property
    def ways(self) -> list[str]:
        return [f"{method} {path}" for method, path, _ in self.calls if path != "/v1/health"]

    def bodies(self, method: str, ending: str) -> list[Any]:
        return [body for way, path, body in self.calls if way == method and path.endswith(ending)]


@contextmanager
def recorded(store: FlatStore, handler: type[FlatHandler] = FlatHandler) -> Iterator[tuple[str, RecordedCalls]]:
    """Serve a plugin; lend its URL and what it is sent."""
    sent = RecordedCalls()

    class Recording(handler):  # type: ignore[misc, valid-type]
        def read_body(self) -> bytes:
            raw: bytes = super().read_body()
            sent.calls.append((self.command, self.path, json.loads(raw) if raw else None))
            return raw

    with served(Recording, store) as url:
        yield url, sent


@dataclass
class Script:
    """A plugin that answers as it is told, over and over: status, headers, body; the last answer stays."""

    answers: list[tuple[int, dict[str, str], bytes]]
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def next(self) -> tuple[int, dict[str, str], bytes]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    """Collect the log of this process, whatever level an earlier command set."""
    before = structlog.get_config()
    structlog.reset_defaults()
    try:
        with capture_logs() as lines:
            yield lines
    finally:
        structlog.configure(**before)


def answering(status: int, body: Body | bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return status, headers, raw


@contextmanager
def scripted(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, Script]]:
    """Serve a plugin that answers so; lend its URL and what it saw."""
    script = Script(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            script.seen.append((self.command, self.path, dict(self.headers), raw))
            status, headers, body = script.next()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_PATCH = do_DELETE = do_POST = respond  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", script
        finally:
            server.shutdown()
            thread.join()
