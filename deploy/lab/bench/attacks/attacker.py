"""The attacker: a tenant with keys, calls over HTTP, raw connections, and counts of how the calls ended."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import orjson
from sqlalchemy.ext.asyncio import AsyncEngine

from deploy.local.stack import Stack
from store import identity

#: Other loopback addresses than the victim's, if the system has several, so that limits by address distinguish them.
ADDRESS, BYSTANDERS_ADDRESS = ("127.0.0.2", "127.0.0.3") if sys.platform == "linux" else ("127.0.0.1", "127.0.0.1")
BANK = "attack"
#: Time-out of a call, in seconds.
PATIENCE_S = 30.0
#: Longest wait until the stages have processed a turn, in seconds.
WORK_S = 60.0
CLOSED, ABORTED, NO_ANSWER, NOT_WORKED_OFF = "closed", "aborted", "no answer", "not worked off"
CHUNK = 65_536
#: How long a newcomer waits for its answer, in seconds.
NEWCOMER_S = 5.0


@dataclass(slots=True)
class Attacker:
    """The attacking tenant; `until` is the end of its attack (`time.monotonic`)."""

    stack: Stack
    #: Connections to the stack's database as its owner, for attacks that bypass the service.
    owner: AsyncEngine
    host: str
    key: str = field(repr=False)
    read_only_key: str = field(repr=False)
    client: httpx.AsyncClient
    #: Client of a second tenant without load of its own; its refused calls are counted.
    bystander_client: httpx.AsyncClient
    endings: Counter[str] = field(default_factory=Counter)
    bystander_refused: int = 0
    until: float = 0.0
    #: Units that `prepare` made.
    units: list[str] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    @property
    def host_id(self) -> UUID:
        """The id of the tenant."""
        return identity.host_id(self.host)

    @property
    def over(self) -> bool:
        """Whether the time of the attack is over."""
        return time.monotonic() >= self.until

    def number(self) -> int:
        """Return an unused number, for a name."""
        return next(self._numbers)

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, counted: bool = True
    ) -> httpx.Response | None:
        """Make a call, count how it ended and return the answer; None without one. `body` may be JSON as bytes."""
        content = body if isinstance(body, bytes | None) else orjson.dumps(body)
        headers = {"authorization": f"Bearer {key or self.key}", "content-type": "application/json"}
        answer = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await self.client.request(method, path, content=content, headers=headers)
            ending = classify_ending(answer.status_code, answer.content)
        except (TimeoutError, httpx.TimeoutException):
            ending = NO_ANSWER
        except httpx.HTTPError:
            ending = ABORTED
        if counted:
            self.ended(ending)
        return answer

    async def turn(self, *texts: str, session: str | None = None, **more: Any) -> httpx.Response | None:
        """Send a turn with these messages."""
        return await self.call("POST", "/api/v1/turns", {"bank": BANK, **self.turn_of(*texts, session=session), **more})

    def turn_of(self, *texts: str, session: str | None = None) -> dict[str, Any]:
        """Return the body of a turn with these messages, without its bank."""
        number = self.number()
        messages = [{"role": "user", "content": text} for text in texts]
        return {"session_id": session or f"s{number}", "turn_id": f"t{number}", "messages": messages}

    async def recall(
        self, query: str, *, key: str | None = None, counted: bool = True, **more: Any
    ) -> httpx.Response | None:
        """Send a recall."""
        return await self.call(
            "POST", "/api/v1/recall", {"bank": BANK, "query": query, **more}, key=key, counted=counted
        )

    async def worked_off(self, answer: httpx.Response | None) -> None:
        """Wait until every stage has processed the accepted turn; count NOT_WORKED_OFF when that takes too long."""
        if answer is None or not answer.is_success:
            return
        path = f"/api/v1/freshness?bank={BANK}&position={answer.json()['position']}&wait_ms=1000"
        until = time.monotonic() + WORK_S
        while time.monotonic() < until:
            seen = await self.call("GET", path, counted=False)
            if seen is not None and seen.is_success and seen.json()["met"]:
                return
        self.ended(NOT_WORKED_OFF)

    async def keep_at(self, lanes: int, action: Callable[[], Awaitable[object]], most: int = 1_000_000) -> None:
        """Repeat an action in parallel lanes until the attack is over, at most `most` times in all."""
        left = iter(range(most))

        async def lane() -> None:
            while not self.over and next(left, None) is not None:
                await action()

        await asyncio.gather(*(lane() for _ in range(lanes)))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["Connection"]:
        """Yield a raw connection to the API."""
        place = urlsplit(self.stack.api)
        reader, writer = await asyncio.open_connection(place.hostname, place.port, local_addr=(ADDRESS, 0))
        connection = Connection(reader, writer, place.netloc)
        try:
            yield connection
        finally:
            writer.transport.abort()

    def ended(self, ending: str) -> None:
        """Count how a call ended."""
        self.endings[ending] += 1

    async def newcomer(self) -> None:
        """Have the bystander ask over a connection of its own whether the service lives; count it if it does not."""
        transport = httpx.AsyncHTTPTransport(local_address=BYSTANDERS_ADDRESS)
        async with httpx.AsyncClient(transport=transport, timeout=NEWCOMER_S, trust_env=False) as client:
            try:
                answered = (await client.get(f"{self.stack.api}/health/live")).is_success
            except httpx.HTTPError:
                answered = False
        self.bystander_refused += not answered

    async def bystander(self, method: str, path: str, body: Any) -> None:
        """Make a call as the bystander tenant, and count it if it is refused."""
        answer = await self.bystander_client.request(method, path, json=body)
        self.bystander_refused += not answer.is_success


@dataclass(slots=True)
class Connection:
    """A connection on which arbitrary bytes can be sent."""

    _reader: asyncio.StreamReader = field(repr=False)
    _writer: asyncio.StreamWriter = field(repr=False)
    #: Value of the Host header.
    netloc: str

    async def exchange(self, chunks: Iterable[bytes], seconds: float, *, pause_s: float = 0.0) -> str:
        """Send the chunks with a pause after each, until all are sent or the call ended; return how it ended.

        The ending is status and error code, CLOSED, ABORTED, or NO_ANSWER when no answer came within `seconds`.
        """
        sending = asyncio.create_task(self._send(chunks, pause_s))
        try:
            async with asyncio.timeout(seconds):
                head = await self._reader.readuntil(b"\r\n\r\n")
                return classify_ending(
                    int(head.split(b" ", 2)[1]), await self._reader.readexactly(_parse_content_length(head))
                )
        except TimeoutError:
            return NO_ANSWER
        except asyncio.IncompleteReadError:
            return CLOSED
        except ConnectionError:
            return ABORTED
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, chunks: Iterable[bytes], pause_s: float) -> None:
        with suppress(ConnectionError):
            for chunk in chunks:
                self._writer.write(chunk)
                await self._writer.drain()
                await asyncio.sleep(pause_s)


def classify_ending(status: int, body: bytes) -> str:
    """Return the status of an answer as text, followed by the error code if it has one."""
    if status < 400:  # noqa: PLR2004 - the first that is an error
        return str(status)
    try:
        return f"{status} {orjson.loads(body)['error']['code']}"
    except (ValueError, LookupError, TypeError):
        return str(status)


def _parse_content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
