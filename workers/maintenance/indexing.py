"""The one task that only the database's owner can run: indexes over vectors, where a bank has grown to need one."""

from datetime import timedelta

from store.derived.vector_indexes import VectorIndexes
from store.maintenance import MORE, PrunedBatch
from workers.maintenance.tasks import Task


def index_task(indexes: VectorIndexes) -> Task:
    """Build beside everything else what is missing or outgrown; a batch is some seconds of it."""

    async def step(place: str | None) -> PrunedBatch:
        del place
        return PrunedBatch(0, MORE if await indexes.build_some() else None)

    async def count() -> int:
        return len(await indexes.needed())

    return Task("vector_indexes", timedelta(minutes=1), step, count)
