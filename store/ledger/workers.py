"""Registered worker processes, by their heartbeats; marks one for draining."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import case, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from store.database import Database
from store.schema import CLAIM, WORKER

#: How often a process says that it is there, in seconds.
BEAT_S = 2.0
#: A process that was silent for so long is taken for gone, in seconds.
SILENT_S = 15.0

# What a process that was killed left behind is cleared away by the next one that begins.
_WORKER, _CLAIM = WORKER.c, CLAIM.c
_NOW = func.now()
_GONE = delete(WORKER).where(_WORKER.seen_at < _NOW - timedelta(days=1)).cte("gone")
BEGIN = insert(WORKER).on_conflict_do_nothing(index_elements=["worker"]).add_cte(_GONE)
_CLAIMS = select(func.count()).select_from(CLAIM).where(_CLAIM.worker == _WORKER.worker, _CLAIM.lease_until > _NOW)
LIST = select(
    _WORKER.worker,
    _WORKER.version,
    _WORKER.stages,
    _WORKER.started_at,
    _WORKER.seen_at,
    case((_WORKER.seen_at < _NOW - timedelta(seconds=SILENT_S), "gone"), else_=_WORKER.state).label("state"),
    _CLAIMS.scalar_subquery().label("claims"),
).order_by(_WORKER.started_at, _WORKER.worker)


@dataclass(frozen=True, slots=True)
class WorkerListed:
    """A worker process: its name (machine, process id, a random part), version, stages, and since when.

    `state` is working, draining, drained, or gone where it was silent for `SILENT_S`; `claims`: streams it holds.
    """

    worker: str
    version: str
    stages: Sequence[str]
    started_at: datetime
    seen_at: datetime
    state: str
    claims: int


class WorkerRegistry:
    """Writes and reads worker processes, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, worker: str, version: str, stages: Sequence[str]) -> None:
        """Say that a process begins."""
        async with self._database.operator() as connection:
            await connection.execute(BEGIN, {"worker": worker, "version": version, "stages": list(stages)})

    async def beat(self, worker: str, state: str | None = None) -> str:
        """Say that a process is there, and how it stands now; returns how it is meant to stand."""
        async with self._database.operator() as connection:
            beat = {"seen_at": func.now()} | ({"state": state} if state else {})
            told = update(WORKER).where(_WORKER.worker == worker).values(beat).returning(_WORKER.state)
            found = await connection.scalar(told)
        return str(found or "working")

    async def end(self, worker: str) -> None:
        """Say that a process ends."""
        async with self._database.operator() as connection:
            await connection.execute(delete(WORKER).where(_WORKER.worker == worker))

    async def drain(self, workers: Sequence[str], *, everyone: bool = False) -> list[str]:
        """Have these processes, or all, take no more work; returns those that were working."""
        heard = func.now() - timedelta(seconds=SILENT_S)
        drained = update(WORKER).where(_WORKER.state == "working", _WORKER.seen_at >= heard)
        if not everyone:
            drained = drained.where(_WORKER.worker.in_(workers))
        async with self._database.operator() as connection:
            found = await connection.scalars(drained.values(state="draining").returning(_WORKER.worker))
            return [str(worker) for worker in found]

    async def list(self) -> list[WorkerListed]:
        """List the processes, oldest first."""
        async with self._database.operator() as connection:
            return [WorkerListed(*row) for row in await connection.execute(LIST)]
