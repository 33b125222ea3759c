"""Compares recall's vector search with an exact search on stored vectors.

Stored vectors serve as questions. What the dense arm gives for them is compared with plain inner products over the
whole bank, with and without filters. A unit as near as the exact tenth counts as found: equal texts have equal vectors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.recall import filters
from store.recall.dense_arm import DenseArm, search_settings
from store.recall.lexical import Statistics
from store.recall.query import RecallQuery
from store.recall.question import parse_question
from store.recall.settings import RecallSettings
from store.recall.state import RecallState

#: Neighbours that are compared.
NEIGHBOURS = 10
#: A person, so that the plain search is checked: in an agent's memory the dense arm puts questions last.
SPEAKERS = frozenset({"somebody"})
#: Two sums of the same products may differ by their order.
TOLERANCE = 1e-4

HOSTS = text("select host_id from afterturn.host_t order by host_id")
# The projection stage counts units; before its first pass the sessions' own counters serve.
BANKS = text("""
    select b.bank_id, b.bank_name,
           coalesce(s.units, (select sum(h.message_count) from afterturn.agent_session_history_t h
                               where h.host_id = b.host_id and h.bank_id = b.bank_id), 0) as units
      from afterturn.agent_memory_bank_t b
      left join afterturn.bank_statistics_t s on s.host_id = b.host_id and s.bank_id = b.bank_id
     where b.host_id = :host and b.active and (cast(:bank as text) is null or b.bank_name = :bank)
     order by b.bank_id""")
SAMPLE = text("""
    select v.unit_id, v.generation, v.embedding, u.fact_type, u.session_id, u.metadata->'tags' as tags
      from afterturn.unit_vector_t v join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
     where v.host_id = :host and v.bank_id = :bank and v.chunk = 0 and u.active
     order by random() limit :units""")
# An order that no index can serve.
EXACT = text(f"""
    select v.unit_id, -(v.embedding <#> cast(:vector as halfvec)) as cosine
      from afterturn.unit_vector_t v join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
     where v.host_id = :host and v.bank_id = :bank and v.generation = :generation and v.unit_id <> :unit
       and {filters.filter_conditions("u")}
     order by (v.embedding <#> cast(:vector as halfvec)) + 0 limit :neighbours""")  # noqa: S608 - constants of ours
COSINES = text("""
    select v.unit_id, -(v.embedding <#> cast(:vector as halfvec)) as cosine from afterturn.unit_vector_t v
     where v.host_id = :host and v.bank_id = :bank and v.generation = :generation
       and v.unit_id = any(cast(:units as uuid[]))""")


LISTS = text("select afterturn.lists_to_read(:bank, :units, :read_units)")


@dataclass(frozen=True, slots=True)
class StoredBank:
    """A bank and about how many units it holds."""

    host_id: UUID
    bank_id: UUID
    name: str
    units: int


@dataclass(frozen=True, slots=True)
class CheckedQuestion:
    """One question to a bank: under which filter, how many neighbours there are, how many of them were found."""

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


async def stored_banks(database: Database, name: str | None = None) -> list[StoredBank]:
    """Return the banks of all hosts that hold something, or those of this name."""
    async with database.operator() as connection:
        hosts = list((await connection.execute(HOSTS)).scalars())
    found = []
    for host in hosts:
        async with database.tenant(host) as connection:
            rows = await connection.execute(BANKS, {"host": host, "bank": name})
            found += [StoredBank(host, row.bank_id, row.bank_name, int(row.units)) for row in rows if row.units > 0]
    return found


async def compare_searches(
    database: Database, bank: StoredBank, units: int, settings: RecallSettings
) -> list[CheckedQuestion]:
    """Ask a bank for the neighbours of some of its units, under every filter that fits; transactions are short."""
    asked = []
    async with database.tenant(bank.host_id) as connection:
        key = {"host": bank.host_id, "bank": bank.bank_id}
        sample = [_Unit(*row) for row in await connection.execute(SAMPLE, {**key, "units": units})]
        lists = await _lists_to_read(connection, bank, settings)
    for unit in sample:
        for name, filtered in _applicable_filters(unit, bank.bank_id):
            state = _build_state(bank, unit, filtered, settings, lists)
            async with database.tenant(
                bank.host_id, search_settings(lists, filtered=filters.is_filtered(filtered))
            ) as connection:
                asked.append(await _compare_one(connection, state, unit, (bank, name)))
    return [one for one in asked if one.there]


async def _lists_to_read(connection: AsyncConnection, bank: StoredBank, settings: RecallSettings) -> int:
    """Return how many lists of the index over the bank's vectors recall would read; 0 when it would read them all."""
    if bank.units <= settings.exact_units:
        return 0
    arguments = {"bank": bank.bank_id, "units": bank.units, "read_units": settings.read_units}
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
    key = {"host": state.host, "bank": state.bank, "generation": state.generation, "vector": state.vector}
    more = {"unit": unit.unit_id, "neighbours": NEIGHBOURS, **state.filters}
    exact = (await connection.execute(EXACT, {**key, **more})).all()
    found = await DenseArm().find(connection, _widen_state(state))
    others = [one for one in found.units if one != unit.unit_id][:NEIGHBOURS]
    cosines = {row.unit_id: row.cosine for row in await connection.execute(COSINES, {**key, "units": others})}
    least = exact[-1].cosine - TOLERANCE if exact else 0.0
    near = sum(cosines.get(one, -2.0) >= least for one in others)
    return CheckedQuestion(*of, len(exact), min(near, len(exact)))


def _widen_state(state: RecallState) -> RecallState:
    """Leave room for the unit itself among the candidates."""
    return replace(state, settings=state.settings.model_copy(update={"candidates": state.settings.candidates + 1}))
