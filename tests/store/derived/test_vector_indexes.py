"""Indexes by nearness: built where a large bank needs one, read by recall, and never why a filter finds too little."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from sqlalchemy import NullPool, SelectBase, text

from store import identity
from store.connections import create_owner_engine
from store.database import Database
from store.derived import vector_indexes
from store.derived.unit_vectors import Unembedded, insert_vectors
from store.derived.vector_indexes import LOCK, VectorIndexes, count_lists
from store.memory.turns import TurnStore
from store.recall.accuracy_check import StoredBank, compare_searches
from store.recall.dense_arm import PLAIN, DenseArm, search_lists, search_settings
from store.recall.filters import filter_parameters
from store.recall.lexical import Statistics
from store.recall.query import RecallQuery
from store.recall.question import parse_question
from store.recall.settings import RecallSettings
from store.recall.state import RecallState
from store.recall.stored_vectors import IndexedVectors
from tests.generations import make_generation_live
from tests.servers import TestPostgres
from tests.store.conftest import NOON, explain, new_host, rows, turn

pytestmark = pytest.mark.untouched

UNITS = 400
#: A bank beyond it is large, of which so many vectors are read: a list counts as 180.
EXACT, READ = 300, 1350
SETTINGS = RecallSettings(exact_units=EXACT, read_units=READ, candidates=20)
GENERATION = 7


@dataclass
class Large:
    """A database with one bank beyond the size that is read in full, and one below it."""

    database: Database
    postgres: TestPostgres
    host: UUID
    vectors: NDArray[np.float32]
    indexes: VectorIndexes
    dimension: int

    @property
    def bank(self) -> UUID:
        return identity.bank_id(self.host, "home")

    async def build(self) -> None:
        while await self.indexes.build_some():
            pass

    async def lists(self, units: int = UNITS) -> int | None:
        query = f"select afterturn.lists_to_read(:bank, :units, :read, {GENERATION}::smallint)"
        found = await rows(self.database, self.host, query, bank=self.bank, units=units, read=READ)
        lists: int | None = found[0][0]
        return lists

    async def plan(self, statement: SelectBase, lists: int) -> str:
        """Explain a statement of the dense arm as the tenant it is for."""
        arguments = {
            "host": self.host,
            "bank": self.bank,
            "generation": GENERATION,
            "vector": self.vectors[0],
            "candidates": 20,
            "looked_at": 20,
        }
        async with self.database.tenant(self.host, search_settings(lists)) as connection:
            return "\n".join(await explain(connection, statement, arguments))

    def search(self, lists: int, **filters: object) -> RecallState:
        return RecallState(
            host=self.host,
            bank=self.bank,
            query=RecallQuery("", ""),
            question=parse_question(""),
            statistics=Statistics(UNITS, 1.0, {}),
            generation=GENERATION,
            now=datetime.now(UTC),
            vector=self.vectors[0],
            filters={**filter_parameters(RecallQuery("", ""), self.bank), **filters},
            settings=SETTINGS,
            lists=lists,
        )


@pytest_asyncio.fixture(loop_scope="session", params=[384])
async def large(
    lonely: Database, fresh_database: TestPostgres, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Large]:
    dimension: int = request.param
    monkeypatch.setattr(vector_indexes, "LIST_UNITS", 20)
    host = await new_host(lonely)
    store = TurnStore(lonely, lambda: NOON)
    for bank, units in (("home", UNITS), ("small", 50)):
        await store.append(
            host, [turn(f"t{n}", f"message {n}", session=f"s{n // 50}", bank=bank) for n in range(units)]
        )
    for bank in ("home", "small"):
        carry = "select carried from afterturn.post_words(afterturn.current_host(), :bank, 1000, true)"
        await rows(lonely, host, carry, bank=identity.bank_id(host, bank))
    found = await rows(lonely, host, "select bank_id, unit_id, content, aggregate_version from agent_memory_unit_t")
    vectors = np.random.default_rng(3).standard_normal((len(found), dimension), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    async with lonely.tenant(host) as connection:
        await insert_vectors(connection, host, GENERATION, [Unembedded(*row) for row in found], vectors)
    await make_generation_live(lonely, GENERATION, dimension)
    indexes = VectorIndexes(fresh_database.owner_url, EXACT)
    yield Large(lonely, fresh_database, host, vectors, indexes, dimension)
    await indexes.close()


@pytest.mark.parametrize("large", [384, 768, 4000], indirect=True)
async def test_a_large_bank_gets_an_index_that_recall_reads_and_nobody_else_does(large: Large) -> None:
    [needed] = await large.indexes.needed()
    assert needed.lists == count_lists(UNITS)
    assert await large.lists() is None
    await large.build()
    assert await large.indexes.needed() == []
    near = f"using {needed.stem}_near"
    lists = await large.lists()
    assert lists is not None
    assert 0 < lists <= needed.lists
    # Of what others have in its partition, a smaller bank reads more, and at last only its own.
    assert lists < (await large.lists(UNITS // 4) or 0)
    assert await large.lists(UNITS // 10) is None
    in_lists = search_lists(IndexedVectors(GENERATION, large.dimension)).plain
    assert near in (plan := await large.plan(in_lists, lists)), plan
    assert near not in (plan := await large.plan(PLAIN, lists)), plan


async def test_what_a_filter_leaves_short_is_searched_in_full(large: Large) -> None:
    tagged = """update afterturn.agent_memory_unit_t set metadata = '{"tags": ["rare"]}'
                 where bank_id = :bank and content in ('message 7', 'message 300') returning unit_id"""
    rare = {unit for (unit,) in await rows(large.database, large.host, tagged, bank=large.bank)}
    await large.build()
    lists = await large.lists() or 0
    async with large.database.tenant(large.host, search_settings(lists)) as connection:
        assert set((await DenseArm().find(connection, large.search(lists, tags=["rare"]))).units) == rare
        # Vectors of a generation that nobody has come short without any filter.
        assert (await DenseArm().find(connection, replace(large.search(lists), generation=9))).units == []


async def test_recall_check_compares_what_the_index_gives(large: Large) -> None:
    await large.build()
    stored = StoredBank(large.host, large.bank, "home", UNITS)
    asked = await compare_searches(large.database, stored, 10, SETTINGS)
    by = {name: [one for one in asked if one.filter == name] for name in ("none", "kinds", "session")}
    assert all(one.found == one.there for one in by["session"])
    # Vectors without any likeness are the worst case: of half of the lists, about half of the nearest are found.
    assert 0.2 < sum(one.found for one in by["none"]) / sum(one.there for one in by["none"]) < 1
    whole = await compare_searches(large.database, stored, 10, SETTINGS.model_copy(update={"read_units": 20 * READ}))
    assert all(one.found == one.there for one in whole)


async def test_an_index_is_built_anew_when_its_bank_has_outgrown_it(
    large: Large, monkeypatch: pytest.MonkeyPatch
) -> None:
    await large.build()
    monkeypatch.setattr(vector_indexes, "LIST_UNITS", 10)
    [needed] = await large.indexes.needed()
    # As a run that was killed leaves it.
    leftover = replace(needed, lists=1)
    engine = create_owner_engine(large.postgres.owner_url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.execute(text(vector_indexes.index_statements(leftover)[1]))
        # While somebody else builds, nobody does.
        assert (await connection.execute(LOCK)).scalar_one()
        await large.build()
        assert await large.indexes.needed() == [needed]
    await engine.dispose()
    await large.build()
    assert await large.indexes.needed() == []
    names = "select indexname from pg_indexes where tablename like 'unit_vector_%' and indexname not like '%pkey'"
    assert await rows(large.database, large.host, names) == [(f"{needed.stem}_near",)]


async def test_an_index_that_nobody_needs_any_more_is_taken_away(large: Large) -> None:
    await large.build()
    shrunk = "update afterturn.bank_statistics_t set units = :units where bank_id = :bank returning 1"
    await rows(large.database, large.host, shrunk, bank=large.bank, units=EXACT - 1)
    assert await large.indexes.needed() == []
    await rows(large.database, large.host, shrunk, bank=large.bank, units=EXACT // 2)
    assert [one.lists for one in await large.indexes.needed()] == [0]
    await large.build()
    assert await large.lists() is None


async def test_each_generation_has_an_index_of_its_own_until_it_is_dropped(large: Large) -> None:
    other = 9
    short = """
        insert into afterturn.unit_vector_t (host_id, bank_id, unit_id, chunk, generation, embedding)
        select host_id, bank_id, unit_id, chunk, :other, public.subvector(embedding, 1, 64)
          from afterturn.unit_vector_t returning 1"""
    await rows(large.database, large.host, short, other=other)
    built = (
        "insert into public.afterturn_generation (generation, model, dimension, state) values (9, 'm', 64, 'building')"
    )
    dropped = "update public.afterturn_generation set state = 'dropping' where generation = 9"
    async with large.database.operator() as connection:
        await connection.execute(text(built))
    assert [one.which for one in await large.indexes.needed()] == [f"generation = {of}" for of in (GENERATION, other)]
    await large.build()
    lists = await large.lists() or 0
    question = replace(large.search(lists), generation=other, vector=large.vectors[0][:64])
    async with large.database.tenant(large.host, search_settings(lists)) as connection:
        assert (await DenseArm().find(connection, question)).units
        assert (await DenseArm().find(connection, large.search(lists))).units
    async with large.database.operator() as connection:
        await connection.execute(text(dropped))
    assert [(one.which, one.lists) for one in await large.indexes.needed()] == [(f"generation = {other}", 0)]
    await large.build()
    assert await large.lists() is not None
