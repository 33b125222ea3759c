"""Servers on loopback that record what they are sent and answer as a test says."""

import asyncio
import atexit
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from tests.patience import PATIENCE_S, until
from tests.serving import serve_in_thread

Answer = Callable[["Seen"], Response]


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    raw_path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class Loopback:
    """A running server: `url`, what it has `seen`, and the `answer` a test may replace at any time."""

    url: str = ""
    answer: Answer = field(default=lambda _seen: JSONResponse({"ok": True}))
    seen: list[Seen] = field(default_factory=list)

    def reset(self) -> None:
        """Forget what was seen and answer as in the beginning."""
        self.seen = []
        self.answer = lambda _seen: JSONResponse({"ok": True})

    async def handle(self, request: Request) -> Response:
        seen = Seen(
            request.method,
            request.url.path,
            request.scope["raw_path"].decode(),
            dict(request.query_params),
            dict(request.headers),
            await request.body(),
        )
        self.seen.append(seen)
        return self.answer(seen)

    def answers(self, *replies: Response) -> None:
        """Answer with these in turn, the last one for ever."""
        queue = list(replies)
        self.answer = lambda _seen: queue.pop(0) if len(queue) > 1 else queue[0]


@contextmanager
def loopback(port: int = 0) -> Iterator[Loopback]:
    """Run a server in a thread for as long as the block lasts; port 0 is a free one."""
    state = Loopback()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # No route: a proxy is asked for whole addresses, which some of uvicorn's parsers hand on as the path.
        response = await state.handle(Request(scope, receive))
        await response(scope, receive, send)

    with serve_in_thread(app, port) as state.url:
        yield state


@contextmanager
def silence() -> Iterator[Callable[..., None]]:
    """Lend a fault for a server: whoever asks gets no answer before the block is over."""
    over, asked = threading.Event(), list[bytes]()

    def nothing_said(*_: object) -> None:
        asked.append(b"")
        over.wait(PATIENCE_S)

    with _patience_until(asked):
        try:
            yield nothing_said
        finally:
            over.set()


TLS_HANDSHAKE = b"\x16"


def _read_request(connection: socket.socket) -> bytes:
    """Return a request's bytes: its head and as much body as it names; the first bytes of what is no HTTP."""
    request = b""
    while True:
        head, ended, body = request.partition(b"\r\n\r\n")
        named = re.search(rb"(?i)content-length: (\d+)", head)
        if request.startswith(TLS_HANDSHAKE) or (ended and len(body) >= (int(named[1]) if named else 0)):
            return request
        piece = connection.recv(65536)
        if not piece:
            return request
        request += piece


@contextmanager
def raw_server(reply: bytes, *, linger_s: float = 0.0) -> Iterator[tuple[str, list[bytes]]]:
    """Read one request a connection, write `reply`, wait `linger_s`, cut the connection."""
    received: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            received.append(_read_request(connection))
            connection.sendall(reply)
            stop.wait(linger_s)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", received
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE_S)


@contextmanager
def silent_server() -> Iterator[tuple[str, list[bytes]]]:
    """Run a server that answers nobody, and whose callers have patience until their request has arrived."""
    with raw_server(b"", linger_s=PATIENCE_S) as (url, received), _patience_until(received):
        yield url, received


@contextmanager
def _patience_until(received: Sequence[bytes]) -> Iterator[None]:
    """Have who awaits an answer give up when one more request has arrived, however long that takes.

    So it is certain that a call had left when its time ran out. A client that blocks has its own patience.
    """
    with pytest.MonkeyPatch.context() as patch:
        patience = SimpleNamespace(timeout=partial(_until_one_more, received))
        patch.setattr("afterturn_client.transport.asyncio", patience)
        yield


@asynccontextmanager
async def _until_one_more(received: Sequence[bytes], _timeout_s: float) -> AsyncIterator[None]:
    before = len(received)

    async def end() -> None:
        await until(lambda: len(received) > before, "a request has arrived")
        patience.reschedule(0.0)

    async with asyncio.timeout(None) as patience:
        ending = asyncio.create_task(end())
        try:
            yield
        finally:
            ending.cancel()


def closed_port() -> str:
    """Return a URL on which nobody listens, nor can begin to as long as this process lives."""
    return f"http://127.0.0.1:{_bound().getsockname()[1]}"


@cache
def _bound() -> socket.socket:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    atexit.register(bound.close)
    return bound


def without_proxies(patch: pytest.MonkeyPatch) -> None:
    """Leave no proxy in the environment."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        patch.delenv(name, raising=False)
        patch.delenv(name.upper(), raising=False)


def everything_in(error: BaseException) -> str:
    """Return all that a log could show of an exception: text, repr, arguments, fields and theirs, the whole chain."""
    pieces: list[str] = []
    queue: list[BaseException | None] = [error]
    known: set[int] = set()
    while queue:
        one = queue.pop()
        if one is None or id(one) in known:
            continue
        known.add(id(one))
        pieces += [str(one), repr(one), repr(one.args), repr(vars(one)), *getattr(one, "__notes__", [])]
        pieces += [repr(vars(value)) for value in vars(one).values() if hasattr(value, "__dict__")]
        queue += [one.__cause__, one.__context__]
    return "\n".join(pieces)
