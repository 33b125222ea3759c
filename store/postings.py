"""The words of units that a stage derived; those of messages are written with their turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# A unit that was forgotten meanwhile gets no words back.
INSERT = text("""
    insert into afterturn.posting_t (host_id, bank_id, term, unit_id, session_id, seq, tf, length)
    select cast(:host as uuid), cast(:bank as uuid), p.term, p.unit, u.session_id, u.seq, p.tf, p.length
      from unnest(cast(:units as uuid[]), cast(:terms as text[]), cast(:tfs as int[]), cast(:lengths as int[]))
           as p(unit, term, tf, length)
      join afterturn.agent_memory_unit_t u
        on u.host_id = :host and u.bank_id = :bank and u.unit_id = p.unit and u.active
    on conflict do nothing""")


@dataclass(frozen=True, slots=True)
class UnitTerms:
    """The terms of one unit with their counts, and how many words it has."""

    unit_id: UUID
    counts: Mapping[str, int] = field(repr=False)
    length: int


async def insert(connection: AsyncConnection, host: UUID, bank: UUID, units: Sequence[UnitTerms]) -> None:
    """Write the words of units of one bank, once; their units are projected already in this transaction."""
    words = [(one.unit_id, term, tf, one.length) for one in units for term, tf in sorted(one.counts.items())]
    if not words:
        return
    columns = zip(*words, strict=True)
    arguments = dict(zip(("units", "terms", "tfs", "lengths"), map(list, columns), strict=True))
    await connection.execute(INSERT, {"host": host, "bank": bank, **arguments})
