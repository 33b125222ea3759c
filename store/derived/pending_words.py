"""Moves pending words of many units into the word index.

A recall reads words that are not indexed yet unit by unit. The projection stage indexes them with each turn. While many
turns still wait for the stages before it, others index words too, so that recalls stay fast: workers at intervals, and
the API while a caller writes in bulk.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from uuid import UUID

import structlog
from sqlalchemy import text

from store.database import NO_SYNC, Database
from store.derived import projection
from store.errors import ResourceBusy

log = structlog.get_logger(__name__)

#: Pending units of a bank that cost a recall about a millisecond.
MANY = 200
#: Pending units that a bulk writer leaves before it indexes some itself.
TOO_MANY = 500
#: Most banks that are counted; beyond it, all counts start again.
MOST_BANKS = 10_000

SELECT_BANKS = text("""
    select host_id, bank_id from afterturn.unit_word_t where not posted
     group by host_id, bank_id having count(*) >= :many order by count(*) desc limit 16""")

COUNT_PENDING = text("""
    select count(*) from (select from afterturn.unit_word_t
                           where host_id = :host and bank_id = :bank and not posted limit :many) w""")


class PendingWordsIndexer:
    """Finds banks with many pending words over all tenants and indexes these, each as its own tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def index(self, seconds: float) -> int:
        """Index words for about `seconds`, in bounded transactions; return the number of transactions.

        A bank that another transaction holds is left for the next call.
        """
        until = time.monotonic() + seconds
        async with self._database.operator() as connection:
            laden = (await connection.execute(SELECT_BANKS, {"many": MANY})).all()
        done = 0
        for row in laden:
            more = True
            with suppress(ResourceBusy):
                while more and time.monotonic() < until:
                    more = await index_words(self._database, row.host_id, row.bank_id)
                    done += 1
        return done


class PendingWordsLimit:
    """Indexes words beside bulk writers, so that no bank has many more pending units than a recall can read.

    While the stages keep up, it only counts now and then. A caller that writes faster than words are indexed waits.
    Belongs to one event loop.
    """

    def __init__(self, database: Database, *, many: int = TOO_MANY) -> None:
        self._database, self._many = database, many
        #: Units accepted since the last count, by host and bank.
        self._added: Counter[tuple[UUID, UUID]] = Counter()
        self._indexing: dict[tuple[UUID, UUID], asyncio.Task[None]] = {}

    async def wait_for_room(self, host: UUID, units: Mapping[UUID, int]) -> None:
        """Count accepted units by bank; return when the caller may write more."""
        if len(self._added) > MOST_BANKS:
            self._added.clear()
        for bank, count in units.items():
            place = host, bank
            self._added[place] += count
            # Of callers that waited for one run, the first starts the next, for all of them.
            while self._added[place] >= self._many and (before := self._indexing.get(place)) is not None:
                await asyncio.wait([before])
            if self._added[place] >= self._many:
                del self._added[place]
                self._indexing[place] = asyncio.create_task(self._index(host, bank), name="index words")

    async def close(self) -> None:
        """Stop indexing, and wait for the transactions under way."""
        self._many = 0
        while self._indexing:
            await asyncio.wait(self._indexing.values())

    async def _index(self, host: UUID, bank: UUID) -> None:
        try:
            more = True
            while more and self._many and await self._is_over_limit(host, bank):
                more = await index_words(self._database, host, bank)
        except Exception as error:  # noqa: BLE001 - the turns are accepted: after an error of any kind workers index their words
            log.warning("pending_words_failed", error=type(error).__name__)
        finally:
            # Set before the task ends, because callers that wait for it check it again.
            del self._indexing[host, bank]

    async def _is_over_limit(self, host: UUID, bank: UUID) -> bool:
        async with self._database.tenant(host) as connection:
            found = await connection.execute(COUNT_PENDING, {"host": host, "bank": bank, "many": self._many})
            return int(found.scalar_one()) >= self._many


async def index_words(database: Database, host: UUID, bank: UUID) -> bool:
    """Index the words of a bounded number of a bank's units, in a transaction; return whether more may wait."""
    async with database.tenant(host, NO_SYNC) as connection:
        return await projection.index_words(connection, host, bank)
