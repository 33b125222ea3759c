"""As much HTTP/1.1 as a Memory Gateway's client speaks: one request a connection, its length told beforehand."""

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One request: its path, its body, and all of it as it came."""

    path: str
    body: bytes = field(repr=False)
    raw: bytes = field(repr=False)


async def read_call(reader: asyncio.StreamReader) -> RawRequest | None:
    """Return the request of a connection, or None when it ended before it was whole."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_parse_content_length(head))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        return None
    words = head.split(b" ", 2)
    return RawRequest(words[1].decode("ascii", "replace"), body, head + body)


def encode_answer(status: HTTPStatus, body: bytes, *headers: str) -> bytes:
    """Return a whole JSON answer after which the connection ends; further headers are `Name: value`."""
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _parse_content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0
