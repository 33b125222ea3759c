"""Waits until the stages have processed a bank, and checks that none of them failed."""

import asyncio
import time
from collections.abc import Iterable

from afterturn_client import AsyncAfterturn

POLL_INTERVAL_S = 0.05
#: How long one call waits for its position, in milliseconds.
WAIT_MS = 5000
#: Longest time without progress, in seconds.
PATIENCE_S = 600.0


class StageNotSettled(Exception):
    """A stage has stopped or failed, or a turn was refused, so figures would be meaningless."""


async def wait_until_settled(
    memory: AsyncAfterturn, bank: str, position: int, turns: Iterable[tuple[str, str]]
) -> None:
    """Wait until no stage has work left, then check each of `turns` (session, turn) for dead stages.

    A dead stage must not be mistaken for poor recall. Raises StageNotSettled.
    """
    left, deadline = 0, time.monotonic() + PATIENCE_S
    while not (fresh := await memory.freshness(bank=bank, position=position, wait_ms=WAIT_MS)).met or fresh.pending:
        if fresh.pending != left:
            left, deadline = fresh.pending, time.monotonic() + PATIENCE_S
        if time.monotonic() > deadline:
            raise StageNotSettled(f"bank {bank}: nothing was done in {PATIENCE_S:.0f} s")
        await asyncio.sleep(POLL_INTERVAL_S)
    for session, turn in turns:
        status = await memory.turn_status(session, turn, bank=bank)
        dead = [stage for stage, how in status.stages.items() if how.status == "dead"]
        if dead:
            raise StageNotSettled(f"bank {bank}: dead stages: {', '.join(dead)}")
