"""Attacks without a valid key: on the HTTP server itself, and on the check of keys."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator

from deploy.api.http_server import reserve_connections
from deploy.lab.bench.attacks.attack import RequiredEnding, attack
from deploy.lab.bench.attacks.attacker import BANK, CHUNK, Attacker
from store.tenancy.tokens import new_token

MIB = 1024 * 1024
FILLER = b"a" * CHUNK
#: How long an endless head is sent, in seconds: longer than the server's limit (10 s).
HEAD_S = 14.0
#: Silent connections, and callers of another address that come meanwhile.
SILENT, NEWCOMERS = 4500, 7
#: Calls of a flood, number of lanes, and pause between two calls of a lane in seconds.
FLOOD, FLOOD_LANES, FLOOD_PAUSE_S = 3000, 16, 0.02


def _fill_chunks(start: bytes, size: int, end: bytes) -> Iterator[bytes]:
    yield start
    for _ in range(size // CHUNK):
        yield FILLER
    yield end


def _encode_head(attacker: Attacker, line: str, *headers: str) -> bytes:
    host = attacker.stack.api.partition("//")[2]
    return "\r\n".join([line, f"Host: {host}", *headers, "", ""]).encode()


async def _send_chunks(attacker: Attacker, chunks: Iterable[bytes], seconds: float, pause_s: float = 0.0) -> None:
    async with attacker.connection() as connection:
        attacker.ended(await connection.exchange(chunks, seconds, pause_s=pause_s))


@attack(
    "silent_connections",
    "4,500 connections that say nothing, beside newcomers",
    RequiredEnding.BE_CUT_OFF,
    seconds=12.0,
)
async def _hold_silent_connections(attacker: Attacker) -> None:
    """Open connections that say nothing, while newcomers of another address ask whether the service lives."""
    reserve_connections(SILENT)
    silent = asyncio.gather(*(_send_chunks(attacker, (), HEAD_S) for _ in range(SILENT)))
    for _ in range(NEWCOMERS):
        await asyncio.sleep(1.0)
        await attacker.newcomer()
    await silent


@attack("tokens_and_document", "2,000 well-formed tokens of no key beside a document of 1 MiB")
async def _flood_with_document(attacker: Attacker) -> None:
    """Try tokens of no key while a document of 1 MiB is stored and processed."""
    said = "\n".join(f"Note {n}: Ana met Boris in Porto about plan {n}." for n in range(20_000))
    document = {"bank": BANK, "content": said[:MIB]}
    flood = attacker.keep_at(FLOOD_LANES, lambda: _try_token(attacker), most=2000)
    await asyncio.gather(flood, attacker.call("POST", "/api/v1/docs", document))


@attack("large_header", "one header of 24 MiB, no key", RequiredEnding.BE_CUT_OFF)
async def _send_large_header(attacker: Attacker) -> None:
    start = _encode_head(attacker, "GET /api/v1/banks HTTP/1.1")[:-2] + b"X-Large: "
    await attacker.keep_at(2, lambda: _send_chunks(attacker, _fill_chunks(start, 24 * MIB, b"\r\n\r\n"), 20.0), most=8)


@attack("large_url", "a URL of 8 MiB, no key", RequiredEnding.BE_CUT_OFF)
async def _send_large_url(attacker: Attacker) -> None:
    end = b" HTTP/1.1\r\n" + _encode_head(attacker, "")[2:]
    start = b"GET /api/v1/banks?after="
    await attacker.keep_at(2, lambda: _send_chunks(attacker, _fill_chunks(start, 8 * MIB, end), 20.0), most=16)


@attack("many_headers", "100,000 headers in one request, no key", RequiredEnding.BE_CUT_OFF)
async def _send_many_headers(attacker: Attacker) -> None:
    start = _encode_head(attacker, "GET /api/v1/banks HTTP/1.1")[:-2]
    headers = (b"".join(b"X-%d-%d: a\r\n" % (n, m) for m in range(1000)) for n in range(100))
    await _send_chunks(attacker, (start, *headers, b"\r\n"), 20.0)


async def _flood_with_tokens(attacker: Attacker, new_token: Callable[[], str]) -> None:
    async def call() -> None:
        await attacker.call("GET", "/api/v1/banks", key=new_token())
        await asyncio.sleep(FLOOD_PAUSE_S)

    await attacker.keep_at(FLOOD_LANES, call, most=FLOOD)


@attack("half_heads", "128 heads that never end, a quarter of them a line a second", RequiredEnding.BE_CUT_OFF)
async def _send_half_heads(attacker: Attacker) -> None:
    """Send heads that never end; a quarter of them send a line per second, to defeat time-outs between two bytes."""
    half = _encode_head(attacker, "GET /api/v1/banks HTTP/1.1")[:-2]
    trickled = (half, *(b"X-%d: a\r\n" % n for n in range(60)))
    silent = (_send_chunks(attacker, (half,), HEAD_S) for _ in range(96))
    await asyncio.gather(*silent, *(_send_chunks(attacker, trickled, HEAD_S, pause_s=1.0) for _ in range(32)))


@attack("slow_bodies", "96 bodies of 64 KiB at two bytes a second", RequiredEnding.BE_CUT_OFF)
async def _send_slow_bodies(attacker: Attacker) -> None:
    """Declare a body with a valid key, and send a byte of it every half second."""
    headers = (f"Authorization: Bearer {attacker.key}", "Content-Type: application/json", "Content-Length: 65536")
    head = _encode_head(attacker, "POST /api/v1/turns HTTP/1.1", *headers)
    chunks = (head, *(b" " for _ in range(200)))
    await asyncio.gather(*(_send_chunks(attacker, chunks, 40.0, pause_s=0.5) for _ in range(96)))


@attack("malformed_tokens", "3,000 calls with malformed tokens", RequiredEnding.BE_REFUSED)
async def _send_malformed_tokens(attacker: Attacker) -> None:
    await _flood_with_tokens(attacker, lambda: f"at_{secrets.token_urlsafe(40)}")


@attack("unknown_tokens", "3,000 calls with well-formed tokens of no key", RequiredEnding.BE_REFUSED)
async def _send_unknown_tokens(attacker: Attacker) -> None:
    await _flood_with_tokens(attacker, lambda: new_token("at_"))


async def _try_token(attacker: Attacker) -> None:
    await attacker.call("GET", "/api/v1/banks", key=new_token("at_"))
