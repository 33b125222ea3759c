"""The part of HTTP/1.1 that a Memory Gateway's client uses: one request per connection, with Content-Length."""

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request: its path, its body, and all its bytes."""

    path: str
    body: bytes = field(repr=False)
    raw: bytes = field(repr=False)


async def read_call(reader: asyncio.StreamReader) -> RawRequest | None:
    """Return the request of a connection, None when it ended before the request was complete."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_parse_content_length(head))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        return None
    words = head.split(b" ", 2)
    return RawRequest(words[1].decode("ascii", "replace"), body, head + body)


def encode_answer(status: HTTPStatus, body: bytes, *headers: str) -> bytes:
    """Return a complete JSON answer that closes the connection; further headers have the form `Name: value`."""
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
