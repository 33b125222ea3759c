"""Polls the stages: turns per second and the estimated time until each is done."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError

from deploy.notices import Say
from store.errors import ResourceBusy
from store.ledger.ledger import PUBLIC_STATUSES

T = TypeVar("T")

#: Period over which the speed is averaged, in seconds.
WINDOW_S = 20.0
#: Largest share of the time that counting may take; with many rows it takes long.
SMOOTHING_SHARE = 0.2

ENDED = tuple(status for status in PUBLIC_STATUSES if status not in {"pending", "running"})


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a stage: turns per second, and seconds until it is done (None: unknown)."""

    per_s: float
    eta_s: float | None


class Speeds:
    """Computes speeds from successive counts; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def after(self, turns: Mapping[str, Mapping[str, int]], rows: Mapping[str, Mapping[str, int]]) -> dict[str, Speed]:
        """Return the speed of every stage; `turns` counts ended turns by stage and status, `rows` undone ones."""
        now = self._clock()
        ended = {stage: sum(counts[status] for status in ENDED) for stage, counts in turns.items()}
        self._seen.append((now, ended))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW_S:  # noqa: PLR2004 - a speed needs two looks
            self._seen.popleft()
        then, before = self._seen[0]
        passed = now - then
        speeds = {}
        for stage, done in ended.items():
            undone = rows[stage]["pending"] + rows[stage]["running"]
            gained = max(0, done - before.get(stage, 0))
            speeds[stage] = _estimate_speed(gained / passed if passed else 0.0, undone)
        return speeds


async def poll_forever(look: Callable[[], Awaitable[T]], every: timedelta, say: Say) -> AsyncGenerator[T]:
    """Yield the counts forever; report once while the service or its database does not answer, and keep polling."""
    away = False
    while True:
        began = time.monotonic()
        try:
            seen = await look()
        except (SQLAlchemyError, OSError, ResourceBusy) as error:
            if not away:
                say(f"the stack does not answer ({type(error).__name__}); retrying")
            away = True
        else:
            away = False
            yield seen
        took = time.monotonic() - began
        await asyncio.sleep(max(every.total_seconds() - took, took / SMOOTHING_SHARE - took))


def _estimate_speed(per_s: float, undone: int) -> Speed:
    if not undone:
        return Speed(per_s, 0.0)
    return Speed(per_s, undone / per_s if per_s else None)
