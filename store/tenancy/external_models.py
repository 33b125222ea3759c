"""External models: which there were, and how many texts of an erasure each was sent."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.schema import OUTSIDE_MODEL

EMBEDDING, EXTRACTION = "embedding", "extraction"
#: What a receipt's counts call such texts, before purpose and endpoint.
PREFIX = "outside"

NOTE = insert(OUTSIDE_MODEL).on_conflict_do_nothing()
# A vector says of which model it is, a reading of a turn by which version; the turn's messages were sent with it. Of a
# model that was called at several addresses, each may have got the text. A corrected text's reading ends in where.
_SENT = """
    select m.purpose, m.endpoint, count(distinct v.unit_id) as texts
      from afterturn.unit_vector_t v
      join public.afterturn_outside_model m on m.purpose = 'embedding' and m.name = cast(v.generation as text)
     where v.host_id = :host and v.bank_id = :bank {vectors}
     group by 1, 2
    union all
    select m.purpose, m.endpoint, count(distinct u.unit_id)
      from afterturn.agent_memory_unit_t u
      join afterturn.reading_t r on r.host_id = :host and r.turn_id = u.turn_id
      join public.afterturn_outside_model m
        on m.purpose = 'extraction' and m.name = regexp_replace(r.version, '@\\d+$', '')
     where u.host_id = :host and u.bank_id = :bank and u.origin in ('message', 'document', 'memory') {units}
     group by 1, 2"""
SENT_OF_UNITS = text(_SENT.format(vectors="and v.unit_id = any(:units)", units="and u.unit_id = any(:units)"))
SENT_OF_BANK = text(_SENT.format(vectors="", units=""))


@dataclass(frozen=True, slots=True)
class OutsideModel:
    """A model behind an endpoint (its machine's name); `name` is its generation of vectors, or its version."""

    purpose: str
    name: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The number of texts that an external model was sent for a purpose; it may have kept them."""

    purpose: str
    endpoint: str
    texts: int


async def note_external_models(database: Database, models: Sequence[OutsideModel]) -> None:
    """Note models that may be asked from now on."""
    if models:
        async with database.operator() as connection:
            await connection.execute(NOTE, [asdict(one) for one in models])


async def count_sent(
    connection: AsyncConnection, host: UUID, bank: UUID, units: Sequence[UUID] | None = None
) -> Mapping[str, int]:
    """Return how many texts of a bank (of these units of it) went to each model, as a receipt counts them.

    Inside the tenant's transaction, before vectors and readings go.
    """
    place: dict[str, Any] = {"host": host, "bank": bank}
    statement = SENT_OF_BANK if units is None else SENT_OF_UNITS
    arguments = place if units is None else {**place, "units": list(units)}
    rows = await connection.execute(statement, arguments)
    return {f"{PREFIX}:{row.purpose}:{row.endpoint}": row.texts for row in rows}


def told_apart(counts: Mapping[str, int]) -> tuple[Mapping[str, int], tuple[Sent, ...]]:
    """Return a receipt's counts without what went outside, and that."""
    outside = {name: number for name, number in counts.items() if name.startswith(f"{PREFIX}:")}
    parts = (name.split(":", 2) for name in sorted(outside))
    models = tuple(Sent(purpose, endpoint, outside[f"{PREFIX}:{purpose}:{endpoint}"]) for _, purpose, endpoint in parts)
    return {name: number for name, number in counts.items() if name not in outside}, models
