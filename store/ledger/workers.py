"""Registered worker processes, by their heartbeats; marks one for draining."""

from collections.abc import Sequence
from datetime import timedelta

from afterturn_client.contract.embeddings import WorkerModel
from afterturn_client.contract.operators import Worker
from sqlalchemy import case, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from store.database import Database
from store.schema import CLAIM, WORKER

#: Seconds between two heartbeats of a process.
BEAT_S = 2.0
#: Seconds without a heartbeat after which a process counts as gone.
SILENT_S = 15.0

# The row that a killed process left is deleted by the next process that starts.
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
MODELS = (
    select(_WORKER.worker, _WORKER.model, _WORKER.generation)
    .where(_WORKER.seen_at >= _NOW - timedelta(seconds=SILENT_S))
    .order_by(_WORKER.started_at, _WORKER.worker)
)


class WorkerRegistry:
    """Registers, drains and lists worker processes, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self, worker: str, version: str, stages: Sequence[str], model: tuple[str, int] | None = None
    ) -> None:
        """Register a process that starts; `model`: name and generation of the model that its settings name."""
        name, generation = model or (None, None)
        about = {"worker": worker, "version": version, "stages": list(stages), "model": name, "generation": generation}
        async with self._database.operator() as connection:
            await connection.execute(BEGIN, about)

    async def beat(self, worker: str, state: str | None = None) -> str:
        """Write a process's heartbeat and its state; return the state that it shall have."""
        async with self._database.operator() as connection:
            beat = {"seen_at": func.now()} | ({"state": state} if state else {})
            statement = update(WORKER).where(_WORKER.worker == worker).values(beat).returning(_WORKER.state)
            found = await connection.scalar(statement)
        return str(found or "working")

    async def end(self, worker: str) -> None:
        """Remove a process that ends."""
        async with self._database.operator() as connection:
            await connection.execute(delete(WORKER).where(_WORKER.worker == worker))

    async def drain(self, workers: Sequence[str], *, everyone: bool = False) -> list[str]:
        """Mark these processes, or all, for draining: they claim no more work; return those that were working."""
        heard = func.now() - timedelta(seconds=SILENT_S)
        drained = update(WORKER).where(_WORKER.state == "working", _WORKER.seen_at >= heard)
        if not everyone:
            drained = drained.where(_WORKER.worker.in_(workers))
        async with self._database.operator() as connection:
            found = await connection.scalars(drained.values(state="draining").returning(_WORKER.worker))
            return [str(worker) for worker in found]

    async def list_models(self) -> Sequence[WorkerModel]:
        """Return the sentence model of each living process, oldest first."""
        async with self._database.operator() as connection:
            return [WorkerModel(**row) for row in (await connection.execute(MODELS)).mappings()]

    async def list(self) -> list[Worker]:
        """Return the processes, oldest first."""
        async with self._database.operator() as connection:
            return [Worker(**row) for row in (await connection.execute(LIST)).mappings()]
