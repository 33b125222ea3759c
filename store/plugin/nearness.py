"""Finds the units near to a search: in large banks by their indexes, in others by comparing all vectors.

The banks of one search are compared on two connections at once: this is what a search of several namespaces costs most.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from store.concurrent_calls import gather_or_cancel
from store.database import ONE_PLAN, Database
from store.driver_rows import DriverRow, fetch_rows
from store.plugin.nearness_queries import NEAR, NEAR_MEMORIES, select_memories_in_lists, select_near_in_lists
from store.plugin.vectors import probe_lists
from store.recall.stored_vectors import IndexedVectors

#: Units read from an index for each memory that is wanted. If fewer than one in ten is a memory, all vectors of the
#: namespace are compared.
LOOKED_AT = 10
#: Units of any kind read first for each memory that is compared.
FIRST_LOOKED_AT = 2
#: Connections that compare the banks of one search: with two, a search of three of 10,000 units takes 12 % less time.
LANES = 2


@dataclass(frozen=True, slots=True)
class BankSize:
    """A bank's number of units, and how many lists of its index are probed; None: all vectors are compared."""

    units: int
    lists: int | None


@dataclass(frozen=True, slots=True)
class NearUnits:
    """Cosines of the units near to a search; `are_cut`: there are more."""

    cosines: Mapping[UUID, float] = field(default_factory=dict, repr=False)
    are_cut: bool = False

    @classmethod
    def join(cls, parts: Iterable["NearUnits"]) -> "NearUnits":
        """Return the units of all parts."""
        cosines, are_cut = dict[UUID, float](), False
        for part in parts:
            cosines |= part.cosines
            are_cut |= part.are_cut
        return cls(cosines, are_cut)


@dataclass(frozen=True, slots=True)
class NearSearch:
    """A search by meaning: the most units wanted of each bank, and the parameters of its statements.

    `of_memories`: memories alone are looked for, by comparing all vectors where an index gives too few.
    """

    most: int
    of_memories: bool
    arguments: Mapping[str, Any] = field(repr=False)

    async def run(self, connection: AsyncConnection, banks: Mapping[UUID, BankSize]) -> NearUnits:
        """Return the units of these banks that are near, on one connection, in its transaction."""
        by_index = list[NearUnits]()
        whole = list[UUID]()
        for bank, size in banks.items():
            near = None if size.lists is None else await self._read_lists(connection, bank, size.lists)
            if near is None:
                whole.append(bank)
            else:
                by_index.append(near)
        return NearUnits.join([*by_index, await self._compare(connection, whole)])

    async def run_in_lanes(self, database: Database, banks: Mapping[UUID, BankSize]) -> NearUnits:
        """Return the units of these banks that are near; no connection may be held meanwhile."""
        lanes = [dict(some) for lane in range(LANES) if (some := list(banks.items())[lane::LANES])]
        return NearUnits.join(await gather_or_cancel(*(self._run_lane(database, lane) for lane in lanes)))

    async def _run_lane(self, database: Database, banks: Mapping[UUID, BankSize]) -> NearUnits:
        async with database.tenant(self.arguments["host"], ONE_PLAN) as connection:
            return await self.run(connection, banks)

    async def _read_lists(self, connection: AsyncConnection, bank: UUID, lists: int) -> NearUnits | None:
        """Return the nearest units of a large bank by its index; None if that gives too few."""
        vectors = IndexedVectors(self.arguments["generation"], len(self.arguments["vector"]))
        statement, looked_at = select_near_in_lists(vectors), self.most * FIRST_LOOKED_AT
        least = looked_at
        if self.of_memories:
            statement, looked_at, least = select_memories_in_lists(vectors), self.most * LOOKED_AT, self.most
        async with probe_lists(connection, lists):
            about = {**self.arguments, "bank": bank, "looked_at": looked_at, "most": self.most}
            rows = await fetch_rows(connection, statement, about)
        if len(rows) < least:
            return None
        cosines = {row.unit_id: float(row.cosine) for row in rows if row.chunk == 0}
        return NearUnits(cosines, rows[-1].cosine >= self.arguments["near"])

    async def _compare(self, connection: AsyncConnection, banks: Sequence[UUID]) -> NearUnits:
        """Return the nearest units of these banks, of each up to a limit, by comparing all their vectors."""
        if not banks:
            return NearUnits()
        looked_at = self.most * (1 if self.of_memories else FIRST_LOOKED_AT)
        statement = NEAR_MEMORIES if self.of_memories else NEAR
        rows: Sequence[DriverRow] = await fetch_rows(
            connection, statement, {**self.arguments, "banks": banks, "looked_at": looked_at}
        )
        of_banks = Counter(row.bank_id for row in rows)
        return NearUnits(
            {row.unit_id: float(row.cosine) for row in rows}, max(of_banks.values(), default=0) >= looked_at
        )
