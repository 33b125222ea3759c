"""Records external models, and how many texts of an erasure each received."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from afterturn_client.contract.erasures import TextsAtModel
from sqlalchemy import ColumnElement, Select, Text, Uuid, any_, bindparam, cast, func, select, union_all
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.schema import OUTSIDE_MODEL, READING, UNIT, UNIT_VECTOR, in_bank

EMBEDDING, EXTRACTION = "embedding", "extraction"
#: The prefix of such texts in a receipt's counts, before purpose and endpoint.
PREFIX = "outside"

NOTE = insert(OUTSIDE_MODEL).on_conflict_do_nothing()
# Vectors show which texts a model of vectors was sent, readings which turns an extractor version was sent. When a model
# was called at several addresses, each may have got the text. The version of a corrected text's reading ends in a
# position.
_VECTOR, _UNIT, _MODEL = UNIT_VECTOR.c, UNIT.c, OUTSIDE_MODEL.c


def _count_sent(of: ColumnElement[UUID], purpose: str, *conditions: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    return (
        select(_MODEL.purpose, _MODEL.endpoint, func.count(of.distinct()).label("texts"))
        .where(_MODEL.purpose == purpose, *conditions)
        .group_by(_MODEL.purpose, _MODEL.endpoint)
    )


_EMBEDDED = _count_sent(_VECTOR.unit_id, EMBEDDING, in_bank(UNIT_VECTOR), _MODEL.name == cast(_VECTOR.generation, Text))
_READ = _count_sent(
    _UNIT.unit_id,
    EXTRACTION,
    in_bank(UNIT),
    _UNIT.origin.in_(("message", "document", "memory")),
    READING.c.host_id == bindparam("host"),
    READING.c.turn_id == _UNIT.turn_id,
    _MODEL.name == func.regexp_replace(READING.c.version, r"@\d+$", ""),
)
_UNITS = any_(bindparam("units", type_=ARRAY(Uuid)))
SENT_OF_UNITS = union_all(_EMBEDDED.where(_VECTOR.unit_id == _UNITS), _READ.where(_UNIT.unit_id == _UNITS))
SENT_OF_BANK = union_all(_EMBEDDED, _READ)


@dataclass(frozen=True, slots=True)
class ExternalModel:
    """An external model at an endpoint (its machine's name); `name` is its vector generation, or its version."""

    purpose: str
    name: str
    endpoint: str


async def note_external_models(database: Database, models: Sequence[ExternalModel]) -> None:
    """Record models that may be called from now on."""
    if models:
        async with database.operator() as connection:
            await connection.execute(NOTE, [asdict(one) for one in models])


async def count_sent(
    connection: AsyncConnection, host: UUID, bank: UUID, units: Sequence[UUID] | None = None
) -> Mapping[str, int]:
    """Return how many texts of a bank (or of these units of it) went to each model, by the names in a receipt.

    Inside the tenant's transaction, before vectors and readings are deleted.
    """
    place: dict[str, Any] = {"host": host, "bank": bank}
    statement = SENT_OF_BANK if units is None else SENT_OF_UNITS
    arguments = place if units is None else {**place, "units": list(units)}
    rows = await connection.execute(statement, arguments)
    return {f"{PREFIX}:{row.purpose}:{row.endpoint}": row.texts for row in rows}


def split_counts(counts: Mapping[str, int]) -> tuple[Mapping[str, int], tuple[TextsAtModel, ...]]:
    """Split a receipt's counts into those of this service and the texts sent to external models."""
    outside = {name: number for name, number in counts.items() if name.startswith(f"{PREFIX}:")}
    parts = (name.split(":", 2) for name in sorted(outside))
    models = tuple(
        TextsAtModel(purpose=purpose, endpoint=endpoint, texts=outside[f"{PREFIX}:{purpose}:{endpoint}"])
        for _, purpose, endpoint in parts
    )
    return {name: number for name, number in counts.items() if name not in outside}, models
