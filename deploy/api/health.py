"""Health of the API: failing and degraded checks."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from afterturn_client.contract.health import Readiness
from sqlalchemy import text

from deploy.observability.disk_space import describe_shortage
from deploy.observability.health_rules import LedgerSample, find_health_issues
from deploy.observability.metrics import LedgerCounts
from deploy.settings import HealthSettings
from producers.notifications import Notifier
from store.database import Database
from store.memory.turn_writes import SIGNATURE

#: A part that does not answer within this many seconds does not answer.
PATIENCE_S = 2.0

# In a schema of another version this function has other parameters.
INSTALLED = text("select to_regprocedure(:signature) is not null")
ALIVE = text("select 1")

#: Returns what is wrong with a part, or None.
HealthProbe = Callable[[], Awaitable[str | None]]


class ApiHealth:
    """The readiness check of the API: database, broker, models, disk space and ledger."""

    def __init__(
        self,
        database: Database,
        notifier: Notifier,
        counts: LedgerCounts,
        models: Mapping[str, Callable[[], str]],
        settings: HealthSettings,
        *,
        data: Path,
        missing_model: Callable[[], str] = str,
    ) -> None:
        """Check these parts; each of `models` returns why it cannot answer, or ''; `data` is the data folder.

        `missing_model` returns why the sentence model can never be loaded as the process is installed, or ''.
        """
        self._database = database
        self._notifier = notifier
        self._counts = counts
        self._models = models
        self._settings = settings
        self._data = data
        self._missing_model = missing_model

    async def ready(self) -> Readiness:
        """Return what fails and what is degraded.

        The database, and a sentence model that is not installed, make the API fail; the other parts degrade it.
        """
        if wrong := await _probe_in_time(self._database_wrong):
            return Readiness.of(failing={"database": wrong})
        if missing := self._missing_model():
            return Readiness.of(failing={"embedding": missing})
        degraded = [f"broker: {wrong}"] if (wrong := await _probe_in_time(self._broker_wrong)) else []
        degraded += [f"{name}: {wrong}" for name, model in self._models.items() if (wrong := model())]
        if short := await asyncio.to_thread(describe_shortage, self._data, self._settings):
            degraded.append(short)
        return Readiness.of(degraded=[*degraded, *await self._wrong_work()])

    async def _database_wrong(self) -> str | None:
        async with self._database.call() as connection:
            installed = (await connection.execute(INSTALLED, {"signature": SIGNATURE})).scalar()
        async with self._database.operator() as connection:
            await connection.execute(ALIVE)
        return None if installed else "the schema is missing or of another version"

    async def _broker_wrong(self) -> str | None:
        if not (fault := await self._notifier.find_fault()):
            return None
        return f"takes no notifications ({fault}); workers find new work by their sweeps"

    async def _wrong_work(self) -> list[str]:
        seen = LedgerSample()

        async def look() -> str | None:
            nonlocal seen
            seen = await self._counts.read()
            return None if seen.counts else "cannot be read"

        if wrong := await _probe_in_time(look):
            return [f"ledger: {wrong}"]
        return [issue.reason for issue in find_health_issues(seen, self._settings)]


async def _probe_in_time(look: HealthProbe) -> str | None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await look()
    except TimeoutError:
        return "does not answer in time"
    except Exception as error:  # noqa: BLE001 - the kind of a part's error is the answer
        return type(error).__name__
