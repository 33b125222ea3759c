"""A pass over all stored texts, bank by bank: finds those without a vector of a generation, or deletes its vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import bindparam, delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.derived.generations import ENDED, PassPlace
from store.derived.unit_vectors import (
    Unembedded,
    UnitsToEmbed,
    find_reflections_without_vectors,
    find_turns_without_vectors,
    read_missing,
    read_missing_reflections,
)
from store.schema import BANK, EVENT_STORE, HOST, UNIT_VECTOR, in_bank

FIRST = UUID(int=0)
#: Turns, or reflections, of one batch: about twice as many texts.
TURNS = 64
#: Vectors deleted in one transaction.
DELETED = 5000

_VECTOR = UNIT_VECTOR.c
NEXT_HOST = select(HOST.c.host_id).where(HOST.c.host_id > bindparam("after")).order_by(HOST.c.host_id).limit(1)
NEXT_BANK = (
    select(BANK.c.bank_id)
    .where(BANK.c.host_id == bindparam("host"), BANK.c.bank_id > bindparam("after"))
    .order_by(BANK.c.bank_id)
    .limit(1)
)
COUNT_HOSTS = select(func.count().filter(HOST.c.host_id < bindparam("host")), func.count()).select_from(HOST)
COUNT_BANKS = select(
    func.count().filter(BANK.c.bank_id < bindparam("bank")),
    func.count(),
    select(func.max(EVENT_STORE.c.position)).where(EVENT_STORE.c.host_id == bindparam("host")).scalar_subquery(),
).where(BANK.c.host_id == bindparam("host"))
_OF_GENERATION = (in_bank(UNIT_VECTOR), _VECTOR.generation == bindparam("generation"))
DELETE = delete(UNIT_VECTOR).where(
    *_OF_GENERATION,
    tuple_(_VECTOR.unit_id, _VECTOR.chunk).in_(
        select(_VECTOR.unit_id, _VECTOR.chunk).where(*_OF_GENERATION).limit(DELETED)
    ),
)


@dataclass(frozen=True, slots=True)
class LackingTexts:
    """Texts of a bank without a vector of a generation, up to `position` of the tenant's log."""

    position: int
    units: Sequence[Unembedded]


async def find_next_bank(database: Database, place: PassPlace | None) -> tuple[UUID, UUID] | None:
    """Return the tenant and bank after those of a place, or the first; None after the last."""
    host, bank = (None, None) if place is None else (place.host, place.bank)
    while True:
        if host is not None:
            async with database.tenant(host) as connection:
                found = await connection.scalar(NEXT_BANK, {"host": host, "after": bank or FIRST})
            if found is not None:
                return host, found
        async with database.operator() as connection:
            host, bank = await connection.scalar(NEXT_HOST, {"after": host or FIRST}), None
        if host is None:
            return None


async def read_lacking_texts(database: Database, place: PassPlace, generation: int) -> LackingTexts | None:
    """Return the next texts of a bank, in log order, that have no vector of a generation; None where none are left."""
    async with database.tenant(place.host) as connection:
        return await _read_lacking(connection, place, generation)


async def _read_lacking(connection: AsyncConnection, place: PassPlace, generation: int) -> LackingTexts | None:
    host, bank, after = place.host, place.bank, place.position
    turns = await find_turns_without_vectors(connection, host, generation, bank=bank, after=after, limit=TURNS)
    drawn = await find_reflections_without_vectors(connection, host, generation, bank=bank, after=after, limit=TURNS)
    found = [*((one, False) for one in turns), *((one, True) for one in drawn)]
    some = sorted((one.position, one.turn, is_drawn) for one, is_drawn in found)
    if not (some := some[:TURNS]):
        return None
    wanted = [UnitsToEmbed(bank, turn, facts) for _, turn, drawn in some if not drawn for facts in (False, True)]
    reflections = [(bank, reflection) for _, reflection, drawn in some if drawn]
    units = await read_missing(connection, host, generation, wanted) if wanted else []
    units += await read_missing_reflections(connection, host, generation, reflections)
    return LackingTexts(some[-1][0], units)


async def measure_share(database: Database, place: PassPlace) -> float:
    """Return the share of tenants, of the tenant's banks and of its log that lies before a place, from 0 to 1."""
    async with database.operator() as connection:
        hosts_before, hosts = (await connection.execute(COUNT_HOSTS, {"host": place.host})).one()
    async with database.tenant(place.host) as connection:
        asked = {"host": place.host, "bank": place.bank}
        banks_before, banks, head = (await connection.execute(COUNT_BANKS, asked)).one()
    in_bank_share = 1.0 if place.position == ENDED else min(place.position / (head or 1), 1.0)
    in_host = min((banks_before + in_bank_share) / max(banks, 1), 1.0)
    return float(min((hosts_before + in_host) / max(hosts, 1), 1.0))


async def delete_vectors(database: Database, host: UUID, bank: UUID, generation: int) -> int:
    """Delete some vectors of a generation in a bank, in one transaction; return how many."""
    async with database.tenant(host) as connection:
        gone = await connection.execute(DELETE, {"host": host, "bank": bank, "generation": generation})
        return gone.rowcount
