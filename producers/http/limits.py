"""Limits of a request: size and time of its body, time of its answer, concurrency and unknown keys of its address.

Times are totals, so that one byte now and then keeps nothing open. The head of a request is the HTTP server's to limit.
"""

import asyncio
import ipaddress
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from starlette.types import Message, Receive, Scope, Send

from producers import metrics
from producers.errors import Overloaded, TooLarge, TooSlow
from producers.settings import ApiSettings

#: A longer answer is passed to the server in pieces of this size; the next when the client has read most of the last.
PIECE = 65_536
#: After how long a client with too many unfinished requests may come again, in seconds.
RETRY_AFTER_S = 1
#: Answers of 401 that an address gets at once in each window of WINDOW_S seconds; later ones come LATE_S seconds late.
FREE_REFUSALS, WINDOW_S, LATE_S = 32, 1.0, 1.0
#: Bits of an IPv6 address that identify a client, who usually has a whole network of addresses.
IPV6_PREFIX = 64

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


#: Where messages are read to their end, where events of a snapshot come in, and how many times the limit of a request
#: both may have.
MCP_PATH, SNAPSHOT_EVENTS, TIMES_READ = "/mcp", re.compile(r"/api/v1/operator/snapshots/[^/]+/events/?"), 16


class RequestBody:
    """The receiver of a request's body. Raises TooLarge beyond its size limit, TooSlow beyond its time limit."""

    def __init__(self, receive: Receive, settings: ApiSettings, limit: int | None = None) -> None:
        """Begin the body's time limit now; it may have `limit` bytes, usually max_request_bytes."""
        self._receive = receive
        self._limit = settings.max_request_bytes if limit is None else limit
        self._settings = settings
        self._begun = asyncio.get_running_loop().time()
        self._bytes = 0
        self._whole = False

    async def __call__(self) -> Message:
        """Return the next message. After the complete body, it only waits for the client to disconnect."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._begun + compute_time_limit(self._settings, self._bytes)):
                message = await self._receive()
        except TimeoutError:
            raise too_slow(self._settings) from None
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._limit:
            raise too_large(self._limit)
        self._whole = not message.get("more_body", False)
        return message


class ResponseSender:
    """The sender of an answer. Raises TooSlow when the client does not read a long one in its time."""

    def __init__(self, send: Send, settings: ApiSettings) -> None:
        self._send = send
        self._settings = settings

    async def __call__(self, message: Message) -> None:
        """Send a message; a body longer than PIECE in pieces."""
        body = message.get("body", b"")
        if len(body) <= PIECE:
            await self._send(message)
            return
        try:
            async with asyncio.timeout(compute_time_limit(self._settings, len(body))):
                for start in range(0, len(body), PIECE):
                    more = message.get("more_body", False) or start + PIECE < len(body)
                    await self._send({**message, "body": body[start : start + PIECE], "more_body": more})
        except TimeoutError:
            raise TooSlow("the client did not take the answer in its time") from None


class Unfinished:
    """Counts the unfinished requests of each address."""

    def __init__(self, limit: int, trusted: Sequence[Network]) -> None:
        """Allow `limit` unfinished requests of an address; proxies in `trusted` name the client's address."""
        self._limit = limit
        self._trusted = trusted
        self._of: Counter[str] = Counter()

    @contextmanager
    def one_more(self, scope: Scope) -> Iterator[None]:
        """Count a request during the block. Raises Overloaded where its address has too many."""
        address = read_client_address(scope, self._trusted)
        if self._of[address] >= self._limit:
            metrics.SHED.labels("address").inc()
            raise Overloaded(
                f"too many unfinished requests from this address: {self._limit} (api.max_unfinished_per_address); "
                "behind a proxy, name it in api.trusted_proxies",
                RETRY_AFTER_S,
            )
        self._of[address] += 1
        try:
            yield
        finally:
            self._of[address] -= 1
            if not self._of[address]:
                del self._of[address]


class UnknownCallers:
    """Delays answers to an address that offers one unknown key after the other: each costs a query."""

    def __init__(self, trusted: Sequence[Network]) -> None:
        """Count by the client's address, which proxies in `trusted` name."""
        self._trusted = trusted
        self._of: Counter[str] = Counter()
        self._begun = 0.0

    async def hold_back(self, scope: Scope) -> None:
        """Count an answer of 401; wait before it is sent if its address got too many."""
        now, address = asyncio.get_running_loop().time(), read_client_address(scope, self._trusted)
        if now - self._begun >= WINDOW_S:
            self._of.clear()
            self._begun = now
        self._of[address] += 1
        if self._of[address] > FREE_REFUSALS:
            await asyncio.sleep(LATE_S)


def find_limit(path: str, settings: ApiSettings) -> int:
    """Return the most bytes that are read of a body sent to a path.

    A message to MCP beyond max_request_bytes is read to its end, so that it is refused as its tool's answer. Events of
    a snapshot are longer than the requests that they came by, and those of a backfill came by none.
    """
    longer = path.rstrip("/") == MCP_PATH or SNAPSHOT_EVENTS.fullmatch(path) is not None
    return settings.max_request_bytes * (TIMES_READ if longer else 1)


def compute_time_limit(settings: ApiSettings, size: int) -> float:
    """Return the seconds that a body of this many bytes may take in all."""
    return settings.body_seconds + size / settings.min_body_bytes_per_second


def read_client_address(scope: Scope, trusted: Sequence[Network]) -> str:
    """Return the client's address: the connection's, or the one that a trusted proxy there names."""
    client = scope.get("client")
    name: str = client[0] if client else ""
    if not trusted and ":" not in name:
        return name
    address = _parse_address(name)
    if address is None:
        return name
    for hop in reversed(_forwarded_for(scope)):
        if not any(address in network for network in trusted):
            break
        before = _parse_address(hop)
        if before is None:
            break
        address = before
    return _name_client(address)


def name_peer(name: str, trusted: Sequence[Network]) -> str | None:
    """Return the address by which a connection's other end is counted; None for a trusted proxy."""
    address = _parse_address(name)
    if address is None:
        return name
    return None if any(address in network for network in trusted) else _name_client(address)


def _name_client(address: Address) -> str:
    if isinstance(address, IPv6Address):
        return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))
    return str(address)


def too_large(limit: int) -> TooLarge:
    """Return the error of a body that is longer than `limit` bytes."""
    return TooLarge("the request", "max_request_bytes", limit)


def too_slow(settings: ApiSettings) -> TooSlow:
    """Return the error of a body that takes too long."""
    return TooSlow(
        f"the body did not arrive in its time: {settings.body_seconds:g} s (api.body_seconds) and 1 s more for each "
        f"{settings.min_body_bytes_per_second} bytes (api.min_body_bytes_per_second)"
    )


def _forwarded_for(scope: Scope) -> list[str]:
    """Return who the request came by, the last proxy's word last."""
    values = (value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for")
    return [hop.strip() for value in values for hop in value.split(",")]


def _parse_address(name: str) -> Address | None:
    """Return an address as proxies write it: bare, in brackets, or with a port."""
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
