"""Stores vectors that a recall embedded, so that no worker embeds the text again.

Best effort, and no answer waits for it: there is one write at a time and no queue. Vectors that arrive during a write
are dropped, and workers embed those texts.
"""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray

from store.database import Database
from store.derived.unit_vectors import Unembedded, insert_vectors
from store.recall.tail import UnembeddedText

log = structlog.get_logger(__name__)


class VectorWriteback:
    """A writer of the fresh tail's vectors; create, use and close it on one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._task: asyncio.Task[None] | None = None

    def keep(
        self,
        host: UUID,
        bank: UUID,
        generation: int,
        tail: Sequence[UnembeddedText],
        vectors: Mapping[UUID, NDArray[np.float32]],
    ) -> None:
        """Begin to store the vectors of these units unless a write is running; return at once and never raise."""
        if tail and (self._task is None or self._task.done()):
            units = [Unembedded(bank, fresh.unit_id, fresh.content, fresh.version) for fresh in tail]
            rows = np.stack([vectors[fresh.unit_id] for fresh in tail])
            work = self._write(host, generation, units, rows)
            self._task = asyncio.get_running_loop().create_task(work, name="keep the fresh tail")

    async def close(self) -> None:
        """Wait for the running write, if any."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _write(
        self, host: UUID, generation: int, units: Sequence[Unembedded], vectors: NDArray[np.float32]
    ) -> None:
        try:
            async with self._database.tenant(host) as connection:
                await insert_vectors(connection, host, generation, units, vectors)
        except Exception as error:  # noqa: BLE001 - after an error of any kind workers embed the rest
            log.warning("fresh_tail_vectors_not_stored", error=type(error).__name__)
