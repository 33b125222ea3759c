"""What one request may take: a body in its size and time, an answer in its time, a place among those of its address."""

import asyncio
from collections.abc import Callable, Sequence
from ipaddress import ip_network
from typing import Any

import pytest
from starlette.types import Message

from producers.errors import Overloaded, TooLarge, TooSlow
from producers.http.limits import (
    FREE_REFUSALS,
    LATE_S,
    PIECE,
    WINDOW_S,
    RequestBody,
    ResponseSender,
    Unfinished,
    UnknownCallers,
    compute_time_limit,
    read_client_address,
)
from producers.settings import ApiSettings
from tests.patience import PATIENCE_S
from tests.tables import each_row

SMALL = ApiSettings(max_request_bytes=4096)
#: For bodies that never come whole: one that does may take longer on a busy machine.
BRIEF = ApiSettings(body_seconds=0.1, max_request_bytes=4096)
PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def of(client: str | None, *forwarded: str) -> dict[str, Any]:
    """Return the scope of a request from an address, and what proxies said of it."""
    headers = [(b"x-forwarded-for", one.encode()) for one in forwarded]
    return {"type": "http", "client": client and (client, "1"), "headers": headers}


def coming(*bodies: bytes, end: bool = True) -> Callable[[], Any]:
    """Return what hands out these parts of a body, and then nothing, for ever."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": True} for body in bodies]
    if end:
        messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    return receive


async def read(body: RequestBody) -> bytes:
    found: bytes = b""
    while True:
        message = await body()
        found += message["body"]
        if not message["more_body"]:
            return found


async def test_a_body_is_handed_on_as_it_comes() -> None:
    assert await read(RequestBody(coming(b"a" * 4000, b"b" * 96), SMALL)) == b"a" * 4000 + b"b" * 96


async def test_a_body_past_its_limit_is_refused_whatever_it_declared() -> None:
    with pytest.raises(TooLarge):
        await read(RequestBody(coming(b"a" * 4000, b"b" * 97), SMALL))


async def test_a_body_that_stops_coming_is_given_up_and_the_limit_is_named() -> None:
    with pytest.raises(TooSlow, match=r"0\.1 s \(api\.body_seconds\).*65536 bytes"):
        async with asyncio.timeout(PATIENCE_S):
            await read(RequestBody(coming(b"a", end=False), BRIEF))


async def test_a_body_that_keeps_coming_is_given_up_as_well_when_it_is_too_slow() -> None:
    async def trickle() -> Message:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"a", "more_body": True}

    with pytest.raises(TooSlow):
        async with asyncio.timeout(PATIENCE_S):
            await read(RequestBody(trickle, BRIEF))


async def test_once_a_body_is_whole_the_clients_leaving_may_be_waited_for() -> None:
    left = asyncio.Event()
    messages = coming(b"a")

    async def receive() -> Message:
        if left.is_set():
            return {"type": "http.disconnect"}
        return dict(await messages())

    body = RequestBody(receive, BRIEF)
    await read(body)
    await asyncio.sleep(2 * BRIEF.body_seconds)
    left.set()
    assert await body() == {"type": "http.disconnect"}


def test_each_so_many_bytes_have_a_second_more() -> None:
    settings = ApiSettings()
    assert [compute_time_limit(settings, size) for size in (0, 65_536, 2_097_152)] == [30.0, 31.0, 62.0]


async def sent(answer: bytes) -> tuple[list[int], bytes]:
    """Send an answer; return the sizes of its pieces, and all of them together."""
    pieces: list[Message] = []

    async def send(message: Message) -> None:
        pieces.append(message)

    await ResponseSender(send, ApiSettings())({"type": "http.response.body", "body": answer})
    assert [one.get("more_body", False) for one in pieces] == [True] * (len(pieces) - 1) + [False]
    return [len(one["body"]) for one in pieces], b"".join(one["body"] for one in pieces)


@each_row("size, pieces", [(0, [0]), (PIECE, [PIECE]), (PIECE + 1, [PIECE, 1]), (3 * PIECE, [PIECE, PIECE, PIECE])])
async def test_a_long_answer_leaves_in_pieces_and_a_short_one_in_one(size: int, pieces: list[int]) -> None:
    answer = bytes(n % 251 for n in range(size))
    assert await sent(answer) == (pieces, answer)


async def test_a_long_answer_that_is_not_taken_is_given_up() -> None:
    async def stuck(_message: Message) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TooSlow):
        async with asyncio.timeout(PATIENCE_S):
            fast = ApiSettings(body_seconds=0.1, min_body_bytes_per_second=1_000_000_000)
            await ResponseSender(stuck, fast)({"type": "http.response.body", "body": b"a" * (PIECE + 1)})


def test_an_address_has_so_many_unfinished_requests_and_each_that_ends_makes_room() -> None:
    unfinished, one, other = Unfinished(2, ()), of("192.0.2.1"), of("192.0.2.2")
    too_many = pytest.raises(Overloaded, match=r"2 \(api\.max_unfinished_per_address\)")
    with unfinished.one_more(one):
        with unfinished.one_more(one), unfinished.one_more(other), too_many, unfinished.one_more(one):
            raise AssertionError
        with unfinished.one_more(one):
            pass
    assert not unfinished._of


async def test_an_address_that_offers_one_unknown_key_after_the_other_is_answered_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = list[float]()

    async def sleep(seconds: float) -> None:
        late.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    unknown = UnknownCallers(())
    for _ in range(FREE_REFUSALS):
        await unknown.hold_back(of("192.0.2.1"))
    await unknown.hold_back(of("192.0.2.2"))
    assert late == []
    await unknown.hold_back(of("192.0.2.1"))
    assert late == [LATE_S]
    unknown._begun -= WINDOW_S
    await unknown.hold_back(of("192.0.2.1"))
    assert late == [LATE_S]


@each_row(
    "scope, trusted, address",
    [
        (of("192.0.2.1"), (), "192.0.2.1"),
        (of("192.0.2.1", "198.51.100.7"), (), "192.0.2.1"),
        (of("192.0.2.1", "198.51.100.7"), PROXIES, "192.0.2.1"),
        (of("10.0.0.1", "198.51.100.7"), PROXIES, "198.51.100.7"),
        (of("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.9.9.9"), PROXIES, "198.51.100.7"),
        (of("10.0.0.1", "203.0.113.9", "198.51.100.7:4711"), PROXIES, "198.51.100.7"),
        (of("10.0.0.1", "nonsense"), PROXIES, "10.0.0.1"),
        (of("10.0.0.1", "203.0.113.9, nonsense, 10.2.0.1"), PROXIES, "10.2.0.1"),
        (of("10.0.0.1"), PROXIES, "10.0.0.1"),
        (of("::ffff:10.0.0.1", "[2001:db8::1]:443"), PROXIES, "2001:db8::/64"),
        (of("fd00::1", "198.51.100.7"), PROXIES, "198.51.100.7"),
        (of("2001:db8:1:2:3::4"), (), "2001:db8:1:2::/64"),
        (of(None), PROXIES, ""),
    ],
)
def test_a_request_is_of_the_address_before_the_last_trusted_proxy(
    scope: dict[str, Any], trusted: Sequence[Any], address: str
) -> None:
    assert read_client_address(scope, trusted) == address
