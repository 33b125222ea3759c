"""Waits until the stages are through with a bank, and sees to it that none of them has failed."""

import asyncio
import time
from collections.abc import Iterable

from afterturn_client import AsyncAfterturn

POLL_INTERVAL_S = 0.05
#: A call waits for its position so long at most.
WAIT_MS = 5000
#: A pipeline that stands still is not waited for.
PATIENCE_S = 600.0


class StageNotSettled(Exception):
    """Some stage of some turn did not end well: figures would mean nothing."""


async def wait_until_settled(
    memory: AsyncAfterturn, bank: str, position: int, turns: Iterable[tuple[str, str]]
) -> None:
    """Wait until no stage has work left; `turns` (session and turn) are looked at one by one.

    A dead stage must not read as poor recall. Raises StageNotSettled.
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
