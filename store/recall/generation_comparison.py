"""Compares two generations of vectors on sample questions: how many of the exact ten nearest texts they share.

Stored texts serve as questions, so that no model is asked: the vector of a text in each generation is a question to it.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import SmallInteger, bindparam, func, select

from store.database import Database
from store.recall import filters
from store.recall.accuracy_check import EXACT, NEIGHBOURS, StoredBank
from store.recall.query import RecallQuery
from store.schema import UNIT_VECTOR, in_bank, same_bank
from store.sql_constants import ZERO

_ONE, _OTHER = UNIT_VECTOR.alias("one"), UNIT_VECTOR.alias("other")
SAMPLE = (
    select(_ONE.c.unit_id, _ONE.c.embedding, _OTHER.c.embedding)
    .join_from(_ONE, _OTHER, same_bank(_ONE, _OTHER, "unit_id", "chunk"))
    .where(
        in_bank(_ONE),
        _ONE.c.chunk == ZERO,
        _ONE.c.generation == bindparam("one", type_=SmallInteger),
        _OTHER.c.generation == bindparam("other", type_=SmallInteger),
    )
    .order_by(func.random())
    .limit(bindparam("questions"))
)


@dataclass(frozen=True, slots=True)
class ComparedQuestion:
    """A question to both generations: how many nearest texts there are, at most ten, and how many both find."""

    there: int
    shared: int


async def compare_generations(
    database: Database, bank: StoredBank, one: int, other: int, questions: int
) -> list[ComparedQuestion]:
    """Return the comparison of two generations on a sample of a bank's texts, each in a transaction of its own."""
    key: dict[str, Any] = {"host": bank.host_id, "bank": bank.bank_id}
    about = {**key, "one": one, "other": other, "questions": questions}
    async with database.tenant(bank.host_id) as connection:
        sample = [tuple(row) for row in await connection.execute(SAMPLE, about)]
    passing = filters.filter_parameters(RecallQuery(bank="", text=""), bank.bank_id)
    compared = []
    for unit, *vectors in sample:
        found = list[set[UUID]]()
        async with database.tenant(bank.host_id) as connection:
            for generation, vector in zip((one, other), vectors, strict=True):
                asked = {**key, **passing, "generation": generation, "vector": vector, "unit": unit}
                rows = await connection.execute(EXACT, {**asked, "neighbours": NEIGHBOURS})
                found.append({row.unit_id for row in rows})
        compared.append(ComparedQuestion(max(map(len, found)), len(found[0] & found[1])))
    return [question for question in compared if question.there]
