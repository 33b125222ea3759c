"""Writes which facts say the same as a newer one, as links in the log, in short transactions.

Of equal facts of one person in a bank the newest holds; each of the others is consolidated by the next one
(`store/derived/facts.py`). Maintenance writes that once as the event that links the two. A link ends with either fact,
so what an erasure leaves is consolidated anew.
"""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from sqlalchemy import and_, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.derived.locks import lock_bank
from store.log.append import append_events, order_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_version
from store.maintenance.pruning import FoundBank
from store.schema import FACT, LINK, UNIT, same_bank
from store.sql_constants import inline

#: Facts that are linked in one transaction.
FACTS = 100
#: The type of a link from a fact to one that says the same.
SAYS_THE_SAME = "semantic"

_FACT, _LINK = FACT.c, LINK.c
_OLDER, _NEWER = UNIT.alias("older"), UNIT.alias("newer")
_OF_HOST = _FACT.host_id == bindparam("host")
_THEIR_LINK = and_(
    same_bank(LINK, FACT),
    _LINK.from_unit_id == _FACT.unit_id,
    _LINK.to_unit_id == _FACT.consolidated_by,
    _LINK.link_type == inline(SAYS_THE_SAME),
)
# A fact is in its table until the projection stage has seen its end; by then it is linked no more.
_UNLINKED = (
    FACT.outerjoin(LINK, _THEIR_LINK)
    .join(_OLDER, and_(same_bank(_OLDER, FACT, "unit_id"), _OLDER.c.active))
    .join(_NEWER, and_(same_bank(_NEWER, FACT), _NEWER.c.unit_id == _FACT.consolidated_by, _NEWER.c.active))
)
_WAITS = and_(_OF_HOST, _FACT.consolidated_by.is_not(None), _LINK.active.is_not(True))
NEXT_BANK = (
    select(_FACT.bank_id)
    .select_from(_UNLINKED)
    .where(_WAITS, _FACT.bank_id > bindparam("after"))
    .order_by(_FACT.bank_id)
    .limit(inline(1))
)
NEXT_FACTS = (
    select(_FACT.unit_id, _FACT.consolidated_by, func.coalesce(_LINK.aggregate_version, inline(0)).label("version"))
    .select_from(_UNLINKED)
    .where(_WAITS, _FACT.bank_id == bindparam("bank"))
    .order_by(_FACT.unit_id)
    .limit(inline(FACTS))
)
COUNT = select(func.count()).select_from(_UNLINKED).where(_WAITS)


class Consolidation:
    """Links facts to the newer ones that say the same, bank by bank."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def find_bank(self, host: UUID, after: UUID) -> FoundBank | None:
        """Return a tenant's next bank after one that has facts to link."""
        async with self._database.tenant(host) as connection:
            found = (await connection.execute(NEXT_BANK, {"host": host, "after": after})).scalar_one_or_none()
        return None if found is None else FoundBank(found, None)

    async def consolidate(self, host: UUID, bank: UUID) -> int:
        """Link at most `FACTS` facts of a bank, in one transaction; return how many. Raises ResourceBusy."""
        place = {"host": host, "bank": bank}
        async with self._database.tenant(host) as connection:
            if not (await connection.execute(NEXT_FACTS, place)).all():
                return 0
            await lock_bank(connection, bank)
            origin = Origin(host, bank, identity.user_id(host, None), self._clock())
            return await _link_facts(connection, origin)

    async def count(self, host: UUID) -> int:
        """Return how many facts of a tenant are to be linked."""
        async with self._database.tenant(host) as connection:
            return int((await connection.execute(COUNT, {"host": host})).scalar_one())


async def _link_facts(connection: AsyncConnection, origin: Origin) -> int:
    rows = (await connection.execute(NEXT_FACTS, {"host": origin.host, "bank": origin.bank})).all()
    links = [
        build_version(
            origin,
            EventType.LINK_CREATED,
            (row.unit_id, row.consolidated_by, SAYS_THE_SAME),
            row.version + 1,
            weight=1.0,
        )
        for row in rows
    ]
    await append_events(connection, origin.host, order_events(links))
    return len(links)
