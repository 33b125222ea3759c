"""The head of an answer leaves with its body, and never waits for one."""

import asyncio
from typing import cast

from deploy.together import Together

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


class Wire:
    """The real transport: what left, piece by piece."""

    def __init__(self) -> None:
        self.left: list[bytes] = []
        self.closed_after: int | None = None

    def write(self, data: bytes) -> None:
        self.left.append(data)

    def close(self) -> None:
        self.closed_after = len(self.left)

    def is_closing(self) -> bool:
        return self.closed_after is not None


def on(wire: Wire) -> Together:
    return Together(cast("asyncio.Transport", wire), asyncio.get_running_loop())


async def test_head_and_body_leave_in_one_piece_and_each_answer_by_itself() -> None:
    wire = Wire()
    transport = on(wire)
    for body in (b"body", b"HTTP/1.1 is what this body tells of"):
        transport.write(HEAD)
        transport.write(body)
    await asyncio.sleep(0)
    assert wire.left == [HEAD + b"body", HEAD + b"HTTP/1.1 is what this body tells of"]


async def test_a_head_without_a_body_leaves_at_the_next_turn() -> None:
    wire = Wire()
    transport = on(wire)
    transport.write(HEAD)
    assert wire.left == []
    await asyncio.sleep(0)
    assert wire.left == [HEAD]
    transport.write(b"later")
    assert wire.left == [HEAD, b"later"]


async def test_what_is_held_back_leaves_before_the_connection_is_closed() -> None:
    wire = Wire()
    transport = on(wire)
    transport.write(HEAD)
    transport.close()
    assert wire.left == [HEAD]
    assert wire.closed_after == 1
    assert transport.is_closing()
