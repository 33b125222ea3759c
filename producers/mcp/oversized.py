"""Reads a message; one that is larger than a request may be is read to its end, not kept, and refused by its id.

An answer before the end would close the connection under a client that still sends, which takes it for an outage and
tries again for ever.
"""

from afterturn_client.oversized import ENDS, Oversized, identify_message
from starlette.requests import Request


async def read_message(request: Request, most_bytes: int) -> bytes | Oversized:
    """Return a request's body, or where it has more than `most_bytes` its id and method. Raises TooLarge, TooSlow."""
    pieces, size, beginning, end = list[bytes](), 0, b"", b""
    async for chunk in request.stream():
        size += len(chunk)
        if size > most_bytes - ENDS:
            end = (end + chunk)[-ENDS:]
        if size <= most_bytes:
            pieces.append(chunk)
        else:
            beginning = beginning or b"".join((*pieces, chunk[:ENDS]))[:ENDS]
            pieces.clear()
    return b"".join(pieces) if size <= most_bytes else identify_message(beginning, end)
