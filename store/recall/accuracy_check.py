"""Compares recall's vector search with an exact search, and the exact searches of two generations of vectors.

Stored vectors serve as questions, so no model is asked. The units that the dense arm returns for them are compared with
the nearest by inner products over the whole bank, with and without filters. Each unit as near as the exact tenth counts
as found, since equal texts have equal vectors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ARRAY, BigInteger, Integer, SmallInteger, Text, Uuid, any_, bindparam, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.derived.generations import LIVE
from store.recall import filters
from store.recall.dense_arm import DenseArm, search_settings
from store.recall.lexical import Statistics
from store.recall.preparation import count_units
from store.recall.query import RecallQuery
from store.recall.question import parse_question
from store.recall.settings import RecallSettings
from store.recall.state import RecallState
from store.recall.stored_vectors import IN_GENERATION, VECTOR, measure_distance
from store.schema import BANK, BANK_STATISTICS, HOST, UNIT, UNIT_VECTOR, in_bank, same_bank
from store.sql_constants import ZERO, inline

#: Neighbours that are compared.
NEIGHBOURS = 10
#: A person's name, so that the plain search is checked: in an agent's memory the dense arm sorts questions last.
SPEAKERS = frozenset({"somebody"})
#: Most by which two cosines of one pair may differ, as sums of floats depend on their order.
TOLERANCE = 1e-4

_UNIT, _BANK, _STATISTICS = UNIT.alias("u"), BANK.alias("b"), BANK_STATISTICS.alias("s")
_NAME = bindparam("bank", type_=Text)
HOSTS = select(HOST.c.host_id).order_by(HOST.c.host_id)
BANKS = (
    select(
        _BANK.c.bank_id,
        _BANK.c.bank_name,
        count_units(_BANK, _STATISTICS).label("units"),
    )
    .join_from(_BANK, _STATISTICS, same_bank(_STATISTICS, _BANK), isouter=True)
    .where(_BANK.c.host_id == bindparam("host"), _BANK.c.active, or_(_NAME.is_(None), _BANK.c.bank_name == _NAME))
    .order_by(_BANK.c.bank_id)
)
ONE_BANK = BANKS.where(_BANK.c.bank_id == bindparam("bank_id", type_=Uuid))
#: The generation that is checked: null for the live one.
_CHECKED = func.coalesce(bindparam("checked", type_=SmallInteger), LIVE)
_VECTORS_OF_UNITS = VECTOR.join(_UNIT, same_bank(VECTOR, _UNIT, "unit_id"))
SAMPLE = (
    select(
        VECTOR.c.unit_id,
        VECTOR.c.generation,
        VECTOR.c.embedding,
        _UNIT.c.fact_type,
        _UNIT.c.session_id,
        _UNIT.c["metadata"][inline("tags")].label("tags"),
    )
    .select_from(_VECTORS_OF_UNITS)
    .where(in_bank(VECTOR), VECTOR.c.generation == _CHECKED, VECTOR.c.chunk == ZERO, _UNIT.c.active)
    .order_by(func.random())
    .limit(bindparam("units", type_=Integer))
)
_COSINE = (-measure_distance(VECTOR.c.embedding)).label("cosine")
# Exact: no index serves an order by a sum.
EXACT = (
    select(VECTOR.c.unit_id, _COSINE)
    .select_from(_VECTORS_OF_UNITS)
    .where(IN_GENERATION, VECTOR.c.unit_id != bindparam("unit"), filters.filter_conditions(_UNIT))
    .order_by(measure_distance(VECTOR.c.embedding) + ZERO, VECTOR.c.unit_id)  # so that equal texts keep their places
    .limit(bindparam("neighbours", type_=Integer))
)
COSINES = select(VECTOR.c.unit_id, _COSINE).where(
    IN_GENERATION, VECTOR.c.unit_id == any_(bindparam("units", type_=ARRAY(Uuid)))
)
LISTS = select(
    func.afterturn.lists_to_read(
        bindparam("bank", type_=Uuid),
        bindparam("units", type_=BigInteger),
        bindparam("read_units", type_=Integer),
        _CHECKED,
    )
)


@dataclass(frozen=True, slots=True)
class StoredBank:
    """A bank and its approximate number of units."""

    host_id: UUID
    bank_id: UUID
    name: str
    units: int


@dataclass(frozen=True, slots=True)
class CheckedQuestion:
    """One checked question to a bank: its filter, how many neighbours there are, and how many of them were found."""

    bank: StoredBank
    filter: str
    there: int
    found: int


@dataclass(frozen=True, slots=True)
class _Unit:
    unit_id: UUID
    generation: int
    vector: NDArray[np.float32] = field(repr=False)
    kind: str
    session: UUID | None
    tags: Sequence[str] | None


async def find_stored_banks(database: Database, name: str | None = None) -> list[StoredBank]:
    """Return the banks of all tenants that hold units; with `name`, those of this name."""
    async with database.operator() as connection:
        hosts = list((await connection.execute(HOSTS)).scalars())
    found = []
    for host in hosts:
        async with database.tenant(host) as connection:
            rows = await connection.execute(BANKS, {"host": host, "bank": name})
            found += [StoredBank(host, row.bank_id, row.bank_name, int(row.units)) for row in rows if row.units > 0]
    return found


async def find_stored_bank(database: Database, host: UUID, bank: UUID) -> StoredBank | None:
    """Return a bank of a tenant; None where it holds no units."""
    async with database.tenant(host) as connection:
        row = (await connection.execute(ONE_BANK, {"host": host, "bank": None, "bank_id": bank})).one_or_none()
    return StoredBank(host, row.bank_id, row.bank_name, int(row.units)) if row is not None and row.units > 0 else None


async def compare_searches(
    database: Database, bank: StoredBank, units: int, settings: RecallSettings, generation: int | None = None
) -> list[CheckedQuestion]:
    """Return the checks of a sample of the bank's units under every applicable filter; each has its own transaction.

    `generation` is that of the vectors; None: the live one.
    """
    asked = []
    async with database.tenant(bank.host_id) as connection:
        key = {"host": bank.host_id, "bank": bank.bank_id}
        asked_for = {**key, "units": units, "checked": generation}
        sample = [_Unit(*row) for row in await connection.execute(SAMPLE, asked_for)]
        lists = await _lists_to_read(connection, bank, settings, generation)
    for unit in sample:
        for name, filtered in _applicable_filters(unit, bank.bank_id):
            state = _build_state(bank, unit, filtered, settings, lists)
            async with database.tenant(
                bank.host_id, search_settings(lists, filtered=filters.is_filtered(filtered))
            ) as connection:
                asked.append(await _compare_one(connection, state, unit, (bank, name)))
    return [one for one in asked if one.there]


async def _lists_to_read(
    connection: AsyncConnection, bank: StoredBank, settings: RecallSettings, generation: int | None
) -> int:
    """Return how many lists of the bank's index recall would probe; 0 if it would compare all vectors."""
    if bank.units <= settings.exact_units:
        return 0
    arguments = {
        "bank": bank.bank_id,
        "units": bank.units,
        "read_units": settings.read_units,
        "checked": generation,
    }
    return (await connection.execute(LISTS, arguments)).scalar_one() or 0


def _applicable_filters(unit: _Unit, bank: UUID) -> Iterator[tuple[str, Mapping[str, Any]]]:
    none = filters.filter_parameters(RecallQuery(bank="", text=""), bank)
    yield "none", none
    yield "kinds", {**none, "kinds": [unit.kind]}
    if unit.session is not None:
        yield "session", {**none, "only_session": unit.session}
    if unit.tags:
        yield "tags", {**none, "tags": list(unit.tags)}


def _build_state(
    bank: StoredBank, unit: _Unit, filtered: Mapping[str, Any], settings: RecallSettings, lists: int
) -> RecallState:
    return RecallState(
        host=bank.host_id,
        bank=bank.bank_id,
        query=RecallQuery(bank=bank.name, text=""),
        question=parse_question(""),
        statistics=Statistics(max(bank.units, 1), 1.0, {}),
        generation=unit.generation,
        now=datetime.now(UTC),
        speakers=SPEAKERS,
        vector=unit.vector,
        filters=filtered,
        settings=settings,
        lists=lists,
    )


async def _compare_one(
    connection: AsyncConnection, state: RecallState, unit: _Unit, of: tuple[StoredBank, str]
) -> CheckedQuestion:
    more = {"unit": unit.unit_id, "neighbours": NEIGHBOURS, **state.filters}
    exact = (await connection.execute(EXACT, {**state.vector_place, **more})).all()
    found = await DenseArm().find(connection, _widen_state(state))
    others = [one for one in found.units if one != unit.unit_id][:NEIGHBOURS]
    asked = {**state.vector_place, "units": others}
    cosines = {row.unit_id: row.cosine for row in await connection.execute(COSINES, asked)}
    least = exact[-1].cosine - TOLERANCE if exact else 0.0
    near = sum(cosines.get(one, -2.0) >= least for one in others)
    return CheckedQuestion(*of, len(exact), min(near, len(exact)))


def _widen_state(state: RecallState) -> RecallState:
    """Return the state with room for one more candidate: the unit itself."""
    return replace(state, settings=state.settings.model_copy(update={"candidates": state.settings.candidates + 1}))


# Two generations of vectors -----------------------------------------------------------------------------------------

_ONE, _OTHER = UNIT_VECTOR.alias("one"), UNIT_VECTOR.alias("other")
PAIRS_OF_VECTORS = (
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
        sample = [tuple(row) for row in await connection.execute(PAIRS_OF_VECTORS, about)]
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
