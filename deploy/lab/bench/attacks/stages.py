"""The stages of another tenant: how long a small turn of its takes through them, while an attack is made."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import httpx

from deploy.lab.bench.timing import compute_p95_ms

#: The bank of these turns, the pause between two, and the longest wait for one, in seconds.
BANK, PAUSE_S, LONGEST_S = "beside", 0.5, 60.0
#: How long the service waits within one question whether a turn is through, in milliseconds.
WAIT_MS = 5000
MESSAGES = [
    {"role": "user", "content": "Ana met Boris in Porto on 5 May. I like green tea."},
    {"role": "assistant", "content": "Noted."},
]


@dataclass(slots=True)
class StageTimes:
    """The seconds that turns took through their stages, LONGEST_S for one that did not get through."""

    seconds: list[float] = field(default_factory=list)

    def p95_s(self) -> float:
        """Return their 95th percentile; 0 where no turn was sent."""
        return compute_p95_ms(self.seconds) / 1000 if self.seconds else 0.0


@asynccontextmanager
async def watch_stages(client: httpx.AsyncClient) -> AsyncGenerator[StageTimes]:
    """Send a small turn, wait until it is through all stages, and again, while the block runs; the last one ends."""
    times, ending = StageTimes(), asyncio.Event()
    sending = asyncio.create_task(_send_turns(client, times, ending))
    try:
        yield times
    finally:
        ending.set()
        await sending


async def _send_turns(client: httpx.AsyncClient, times: StageTimes, ending: asyncio.Event) -> None:
    run = time.time_ns()
    for number in count():
        began = time.monotonic()
        await _work_through(client, f"{run}-{number}", began + LONGEST_S)
        times.seconds.append(min(time.monotonic() - began, LONGEST_S))
        try:
            await asyncio.wait_for(ending.wait(), PAUSE_S)
        except TimeoutError:
            continue
        return


async def _work_through(client: httpx.AsyncClient, name: str, until: float) -> None:
    turn = {"bank": BANK, "session_id": name, "turn_id": "1", "messages": MESSAGES}
    position: int | None = None
    while time.monotonic() < until:
        try:
            if position is None:
                taken = await client.post("/api/v1/turns", json=turn)
                position = taken.json()["position"] if taken.is_success else None
            else:
                path = f"/api/v1/freshness?bank={BANK}&position={position}&wait_ms={WAIT_MS}"
                seen = await client.get(path)
                if seen.is_success and seen.json()["met"]:
                    return
                continue
        except httpx.HTTPError:
            pass
        if position is None:
            await asyncio.sleep(PAUSE_S)
