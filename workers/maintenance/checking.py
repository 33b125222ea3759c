"""Samples recall's accuracy in large banks against an exact search, for the metrics."""

import random
from datetime import timedelta

from store.database import Database
from store.maintenance import PrunedBatch
from store.recall.accuracy_check import StoredBank, compare_searches, find_stored_banks
from store.recall.settings import RecallSettings
from workers.maintenance.tasks import Task
from workers.metrics import RECALL_COMPARED, RECALL_FOUND

#: Units of one bank that serve as questions each time: an exact search of a large bank is costly.
UNITS = 3


def recall_check_task(database: Database, settings: RecallSettings) -> Task:
    """Return the task that compares recall with an exact search in one random large bank, for the metrics."""

    async def large() -> list[StoredBank]:
        return [bank for bank in await find_stored_banks(database) if bank.units > settings.exact_units]

    async def step(place: str | None) -> PrunedBatch:
        del place
        for bank in random.sample(banks := await large(), min(1, len(banks))):
            for check in await compare_searches(database, bank, UNITS, settings):
                RECALL_COMPARED.labels(check.filter).inc(check.there)
                RECALL_FOUND.labels(check.filter).inc(check.found)
        return PrunedBatch(0, None)

    async def count() -> int:
        return len(await large())

    return Task("recall_check", timedelta(hours=1), step, count)
