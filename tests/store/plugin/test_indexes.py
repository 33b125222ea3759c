"""Searches of a large namespace by an index of lists find what an exact search finds, behind any filter."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from sqlalchemy import SelectBase, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.connections import create_owner_engine
from store.database import ONE_PLAN, Database
from store.derived import vector_indexes
from store.derived.unit_vectors import Unembedded, insert_vectors
from store.derived.vector_indexes import VectorIndexes, of_namespace
from store.driver_rows import fetch_rows
from store.memory.turns import TurnStore
from store.plugin import search as plugin_search
from store.plugin.listing_queries import LIST
from store.plugin.memories import StoredMemory
from store.plugin.namespaces import NamespaceChange, Namespaces
from store.plugin.nearness import BEST, NEAR, NEAR_MEMORIES, select_near_in_lists
from store.plugin.search import FEW, PluginSearch, SearchQuery
from store.plugin.vectors import normalise_vector, probe_lists, read_lists, select_nearest
from store.plugin.word_queries import READ_FEW, READ_WORDS
from store.recall.settings import RecallSettings
from store.recall.stored_vectors import IndexedVectors
from tests.generations import make_generation_live
from tests.patience import until
from tests.producers.words import WordEmbedder
from tests.servers import TestPostgres, TestValkey
from tests.store.conftest import NOON, new_host, rows, settings_of, turn

NAME = "org:large"
MEMORIES, GROUPS, DIMENSION = 1000, 40, 2100
#: Of a namespace beyond it, so many vectors are read.
SETTINGS = RecallSettings(exact_units=700, read_units=3600)
EXACT = RecallSettings(exact_units=10**9)
#: One memory of a thousand is a checkpoint; one in fifty is a summary.
KINDS = ("checkpoint", "summary", "fact")
MARK = """
    update afterturn.agent_memory_unit_t u
       set origin = 'memory', metadata = jsonb_build_object('plugin', jsonb_strip_nulls(jsonb_build_object(
               'id', u.unit_id, 'source', 'agent', 'vector', 'd', 'pin', case when n.n % 400 = 7 then true end,
               'kind', case when n.n = 500 then 'checkpoint' when n.n % 50 = 3 then 'summary' else 'fact' end)))
      from (select unit_id, cast(substr(content, 9) as int) as n from afterturn.agent_memory_unit_t) n
     where u.bank_id = :bank and u.unit_id = n.unit_id
    returning u.unit_id, u.session_id, n.n, u.content, u.aggregate_version"""
KEEP = """
    insert into afterturn.plugin_vector_t (host_id, bank_id, session_id, digest, dimension, norm, embedding, written_at)
    select afterturn.current_host(), :bank, session_id, 'd', :dimension, 1, cast(embedding as public.vector), now()
      from unnest(cast(:sessions as uuid[]), cast(:vectors as text[])) v(session_id, embedding) returning 1"""


APART = """
    update afterturn.agent_memory_unit_t
       set mentioned_at = mentioned_at - make_interval(secs => cast(substr(content, 9) as int)) returning 1"""

UNEMBED = """
    delete from afterturn.unit_vector_t v using afterturn.agent_memory_unit_t u
     where u.bank_id = v.bank_id and u.unit_id = v.unit_id and cast(substr(u.content, 9) as int) >= 990 returning 1"""

# All but a few memories become units of another interface.
UNMARK = """
    update afterturn.agent_memory_unit_t set metadata = '{}'
     where cast(substr(content, 9) as int) >= 5 returning 1"""


class Pointing(WordEmbedder):
    """Embeds every text at one place."""

    generation = 1

    def __init__(self, place: NDArray[np.float32]) -> None:
        self.place = place

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self.place for _ in texts])


@dataclass
class Large:
    database: Database
    server: TestPostgres
    host: UUID
    indexes: VectorIndexes

    @property
    def bank(self) -> UUID:
        return identity.bank_id(self.host, NAME)

    def search(
        self, settings: RecallSettings, place: NDArray[np.float32], few: int = FEW, near: float = -1.0
    ) -> PluginSearch:
        return PluginSearch(self.database, Pointing(place), settings, lambda: NOON, near=near, few=few)

    async def plan(self, statement: SelectBase, lists: int, **arguments: object) -> str:
        about = {"host": self.host, "bank": self.bank, "banks": [self.bank], "kinds": None, "now": NOON, **arguments}
        async with self.database.tenant(self.host) as connection, probe_lists(connection, lists):
            return "\n".join(await explain(connection, "costs off", statement, about))


def made(count: int, dimension: int, seed: int) -> NDArray[np.float32]:
    """Return vectors as texts have them: around the centres of some groups."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((GROUPS, dimension), dtype=np.float32)
    found = centres[np.arange(count) % GROUPS] + 0.4 * random.standard_normal((count, dimension), dtype=np.float32)
    unit: NDArray[np.float32] = found / np.linalg.norm(found, axis=1, keepdims=True)
    return unit


OWN, CALLERS = made(MEMORIES, 384, 3), made(MEMORIES, DIMENSION, 4)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def filled(
    servers: tuple[TestPostgres, TestValkey], administrator: AsyncConnection
) -> AsyncIterator[tuple[TestPostgres, UUID]]:
    """A database that holds the memories, and their host; each test has a copy of it."""
    server = await servers[0].create(f"filled_{uuid4().hex}", by=administrator)
    database = Database(settings_of(server))
    host = await fill(database)
    await database.close()
    yield server, host
    await server.drop(by=administrator)


async def fill(database: Database) -> UUID:
    host = await new_host(database)
    await Namespaces(database, lambda: NOON).upsert(host, NAME, "org", NamespaceChange(frozenset()))
    store = TurnStore(database, lambda: NOON)
    await store.append(host, [turn("t", f"message {n}", session=f"s{n}", bank=NAME) for n in range(MEMORIES)])
    bank = identity.bank_id(host, NAME)
    for _ in range(2):
        carry = "select carried from afterturn.post_words(afterturn.current_host(), :bank, 1000, true)"
        await rows(database, host, carry, bank=bank)
    marked = sorted(await rows(database, host, MARK, bank=bank), key=lambda row: row[2])
    async with database.tenant(host) as connection:
        units = [Unembedded(bank, unit, content, version) for unit, _, _, content, version in marked]
        await insert_vectors(connection, host, 1, units, OWN)
    await make_generation_live(database, 1)
    texts = [f"[{','.join(map(str, one))}]" for one in CALLERS.tolist()]
    about = {"bank": bank, "dimension": DIMENSION, "sessions": [row[1] for row in marked]}
    await rows(database, host, KEEP, **about, vectors=texts)
    return host


@pytest_asyncio.fixture(loop_scope="session")
async def large(
    filled: tuple[TestPostgres, UUID],
    servers: tuple[TestPostgres, TestValkey],
    administrator: AsyncConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Large]:
    monkeypatch.setattr(vector_indexes, "LIST_UNITS", 20)
    monkeypatch.setattr(plugin_search, "NEAREST_COMPARED", 20)
    template, host = filled
    server = await servers[0].create(f"large_{uuid4().hex}", template.database, by=administrator)
    database, indexes = Database(settings_of(server)), VectorIndexes(server.owner_url, SETTINGS.exact_units)
    yield Large(database, server, host, indexes)
    await indexes.close()
    await database.close()
    await server.drop(by=administrator)


async def explain(
    connection: AsyncConnection, options: str, statement: SelectBase, values: Mapping[str, object]
) -> Sequence[Any]:
    """Return the lines of a statement's plan for these values, or, in JSON, the one plan."""
    compiled = statement.compile(dialect=connection.dialect)
    arguments = tuple(values[name] for name in compiled.positiontup or ())
    return (await connection.exec_driver_sql(f"explain ({options}) {compiled}", arguments)).scalars().all()


async def analyse(connection: AsyncConnection, statement: SelectBase, values: Mapping[str, object]) -> dict[str, Any]:
    """Run a statement; return its plan with what each node did."""
    [[plan]] = await explain(connection, "analyze, costs off, timing off, summary off, format json", statement, values)
    found: dict[str, Any] = plan["Plan"]
    return found


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a node of a plan and all beneath it."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def ids(found: Sequence[StoredMemory]) -> list[UUID]:
    return [one.memory_id for one in found]


async def test_by_an_index_ten_are_found_of_ten_behind_any_filter_and_pins_stay_first(large: Large) -> None:
    needed = await large.indexes.needed()
    assert {one.table.rpartition("_")[0] for one in needed} == {"unit_vector", "plugin_vector"}
    while await large.indexes.build_some():
        pass
    assert await large.indexes.needed() == []
    for kinds, few in product(([], ["fact"], ["summary"], ["checkpoint"]), (0, FEW)):
        asked, there, found = SearchQuery([NAME], kinds, 10), 0, 0
        for nth in range(0, MEMORIES, MEMORIES // 4):
            vector = normalise_vector(CALLERS[nth].tolist())
            ours, exact = large.search(SETTINGS, OWN[nth], few), large.search(EXACT, OWN[nth], 0)
            for one, other in (
                (await ours.nearest(large.host, asked, vector), await exact.nearest(large.host, asked, vector)),
                (
                    (await ours.find(large.host, asked, "zz")).memories,
                    (await exact.find(large.host, asked, "zz")).memories,
                ),
            ):
                assert len(one) == len(other)
                assert [memory.pin for memory in one] == sorted((memory.pin for memory in one), reverse=True)
                there, found = there + len(other), found + len({*ids(one)} & {*ids(other)})
        assert found >= 0.99 * there > 0, (kinds, found, there)
    pinned = [memory.pin for memory in await large.search(SETTINGS, OWN[0]).nearest(large.host, asked, vector)]
    assert pinned == [False]


async def test_what_is_pinned_is_first_however_many_are_nearer(large: Large) -> None:
    listed = (await large.search(EXACT, OWN[0]).page(large.host, SearchQuery([NAME], [], MEMORIES))).rows
    pinned = {one.memory_id for one in listed if one.pin}
    assert 0 < len(pinned) < 90
    for settings in (SETTINGS, EXACT):
        for nth in (0, MEMORIES // 2, MEMORIES - 1):
            search = large.search(settings, OWN[nth])
            first = (await search.find(large.host, SearchQuery([NAME], [], 100), "zz")).memories
            assert {one.memory_id for one in first if one.pin} == pinned
            plain = (await search.find(large.host, SearchQuery([NAME], [], 5), "zz", pins_first=False)).memories
            assert [one.score for one in plain] == sorted((one.score or 0.0 for one in plain), reverse=True)


async def test_memories_are_found_among_far_more_units_that_are_none(large: Large) -> None:
    there = len(await rows(large.database, large.host, UNMARK))
    for settings in (SETTINGS, EXACT):
        # Near all of them, and told apart from none by their words.
        search = large.search(settings, OWN[MEMORIES // 2])
        for query, by_words in (("zz", False), ("message", False), ("message", True)):
            found = (await search.find(large.host, SearchQuery([NAME], [], 10), query, by_words=by_words)).memories
            assert len(found) == MEMORIES - there == 5, (query, by_words, found)


async def test_memories_of_a_rare_kind_are_compared_one_by_one_and_the_same_are_found(large: Large) -> None:
    near = OWN[500] @ OWN[500 % GROUPS]
    for kinds, query in product(
        (["checkpoint"], ["summary"], ["checkpoint", "summary"]), ("message", "500", "zz", "essag")
    ):
        asked = SearchQuery([NAME], kinds, 30)
        for nth in (500 % GROUPS, 500):
            few, every = (large.search(SETTINGS, OWN[nth], few, near - 0.01) for few in (FEW, 0))
            found = (await few.find(large.host, asked, query)).memories
            assert {one.kind for one in found} <= set(kinds)
            other = (await every.find(large.host, asked, query)).memories
            assert ids(found) == ids(other)
            assert [one.score for one in found] == pytest.approx([one.score for one in other], abs=1e-6)
            assert found or query == "zz" or (kinds, query) == (["summary"], "500"), (kinds, query)


async def test_what_waits_for_a_vector_is_looked_up_and_not_joined_with_all_vectors(large: Large) -> None:
    await rows(large.database, large.host, UNEMBED)
    owner = create_owner_engine(large.server.owner_url)
    async with owner.begin() as connection:
        await connection.execute(text("analyze"))
    await owner.dispose()
    about = {"kinds": None, "too_many": 1, "terms": ["messag"], "chunks": 64, "characters": 100, "postings": 1000}
    about |= {"generation": 1, "exact_units": 700, "read_units": 3600}
    arguments = {"host": large.host, "banks": [large.bank], "now": NOON, **about}
    async with large.database.tenant(large.host, ONE_PLAN) as connection:
        plan = await analyse(connection, READ_WORDS, arguments)
    scans = [one for one in nodes(plan) if str(one.get("Relation Name")).startswith("unit_vector")]
    assert 0 < sum(one["Actual Loops"] * (one["Actual Rows"] or 1) for one in scans) <= 2 * 64, scans


async def test_a_common_word_beside_a_rare_one_is_not_read_unless_too_few_are_found(large: Large) -> None:
    about = {"host": large.host, "banks": [large.bank], "kinds": None, "now": NOON, "terms": ["messag", "500"]}
    about |= {"chunks": 0, "characters": 100, "generation": 1, "exact_units": 700, "read_units": 3600}
    for budget, unread in ((MEMORIES, MEMORIES), (MEMORIES + 1, None)):
        async with large.database.tenant(large.host, ONE_PLAN) as connection:
            words = await fetch_rows(connection, READ_WORDS, {**about, "postings": budget})
            plan = await analyse(connection, READ_WORDS, {**about, "postings": budget})
        assert {row.term: row.units for row in words if row.term} == {"500": None, "messag": unread}
        scans = [one for one in nodes(plan) if str(one.get("Relation Name")).startswith("posting_")]
        read = sum(one["Actual Loops"] * one["Actual Rows"] for one in scans)
        assert read == (1 if unread else MEMORIES + 1), scans
    search = large.search(RecallSettings(exact_units=700, read_units=3600, postings=MEMORIES), OWN[0])
    asked = SearchQuery([NAME], [], 10)
    found = (await search.find(large.host, asked, "message 500", by_words=True, pins_first=False)).memories
    assert found[0].content == "message 500"
    assert len(found) == 10


@pytest.mark.parametrize("kinds", [["checkpoint"], ["summary", "checkpoint"]])
async def test_a_search_for_rare_kinds_reads_their_memories_alone(large: Large, kinds: list[str]) -> None:
    owner = create_owner_engine(large.server.owner_url)
    async with owner.begin() as connection:
        await connection.execute(text("analyze afterturn.agent_memory_unit_t"))
    await owner.dispose()
    about = {"kinds": kinds, "too_many": FEW + 1, "terms": ["messag"], "chunks": 0, "characters": 100}
    about |= {"generation": 1, "exact_units": 700, "read_units": 3600}
    arguments = {"host": large.host, "banks": [large.bank], "now": NOON, **about}
    async with large.database.tenant(large.host, ONE_PLAN) as connection:
        plan = await analyse(connection, READ_FEW, arguments)
    scans = [one for one in nodes(plan) if one.get("Relation Name") == "agent_memory_unit_t"]
    read = [one for one in scans if one["Actual Loops"] and one["Actual Rows"]]
    assert {one["Index Name"] for one in read} == {f"unit_{kind}_by_plugin" for kind in kinds}, scans
    assert not any(one.get("Rows Removed by Filter") for one in read), scans


async def test_the_indexes_are_read_and_an_exact_search_reads_none(large: Large) -> None:
    while await large.indexes.build_some():
        pass
    async with large.database.tenant(large.host) as connection:
        [(bank, lists)] = await read_lists(connection, [large.bank], DIMENSION, SETTINGS.read_units)
        assert bank == large.bank
        assert 0 < lists < MEMORIES // 20
        assert await read_lists(connection, [large.bank], DIMENSION + 1, SETTINGS.read_units) == []
    in_lists = select_nearest(large.bank, DIMENSION)
    numbers = {"numbers": CALLERS[0].tolist(), "limit": 10, "looked_at": 100}
    plan = await large.plan(in_lists, lists, **numbers)
    assert f"using plugin_vector_{large.bank.hex}_{DIMENSION}_near" in plan, plan
    about = {"vector": OWN[0], "generation": 1, "most": 20, "looked_at": 200, "pins": 20}
    assert "_near" in (plan := await large.plan(select_near_in_lists(IndexedVectors(1, 384)), lists, **about)), plan
    about |= {key: [] for key in ("units", "of_banks", "scores", "known", "cosines")}
    about |= {"banks": [large.bank], "near": -1.0, "weight": 1.0}
    about |= {"opened": 100, "pins_first": True, "limit": 20}
    for exact in (BEST, NEAR, NEAR_MEMORIES):
        assert "_near" not in (plan := await large.plan(exact, lists, **about)), plan


async def test_a_search_reads_the_index_however_often_it_is_asked(large: Large) -> None:
    while await large.indexes.build_some():
        pass
    reads = """select sum(idx_scan) from pg_stat_user_indexes
                where relname like 'unit_vector%' and indexrelname like '%near'"""
    search = large.search(SETTINGS, OWN[0])
    for _ in range(8):
        await search.find(large.host, SearchQuery([NAME], [], 10), "zz")

    async def counted() -> bool:
        return bool((await rows(large.database, large.host, reads))[0][0] == 8)

    await until(counted, "the server's statistics tell of every reading of the index")


async def test_vectors_too_long_for_an_index_have_none_and_are_found(
    large: Large, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vector_indexes.LONGEST_INDEXED == 4000
    monkeypatch.setattr(vector_indexes, "LONGEST_INDEXED", DIMENSION - 1)
    assert {one.table.rpartition("_")[0] for one in await large.indexes.needed()} == {"unit_vector"}
    vector = normalise_vector(CALLERS[0].tolist())
    search = large.search(SETTINGS, OWN[0])
    [first, *_] = await search.nearest(large.host, SearchQuery([NAME], [], 10), vector, pins_first=False)
    assert first.score == pytest.approx(1.0)


async def test_a_page_of_a_listing_reads_no_more_than_a_page(large: Large) -> None:
    await rows(large.database, large.host, APART)
    search = large.search(SETTINGS, OWN[0])
    page = await search.page(large.host, SearchQuery([NAME], [], MEMORIES))
    everything, more = page.rows, page.more
    assert not more
    assert len(everything) == MEMORIES
    behind = everything[MEMORIES // 2]
    places: tuple[dict[str, object], ...] = (
        {"pinned": None, "at": None, "id": None, "bank": None},
        {"pinned": behind.pin, "at": behind.created_at, "id": behind.memory_id, "bank": behind.bank},
    )
    banks = [large.bank, identity.bank_id(large.host, "team:small")]
    for place in places:
        about = {"host": large.host, "banks": banks, "kinds": None, "now": NOON, "letter": None, "limit": 10, **place}
        async with large.database.tenant(large.host) as connection:
            plan = await analyse(connection, LIST, about)
        scans = [one for one in nodes(plan) if one.get("Relation Name") == "agent_memory_unit_t"]
        # Behind a memory that is not pinned, no pinned one is looked for.
        pinned = set() if place["pinned"] is False else {"unit_pinned_by_plugin"}
        assert {one["Index Name"] for one in scans} == {*pinned, "unit_listed_by_plugin"}, scans
        for scan in scans:
            # Rows are a mean of the banks: all 1000 of one of two would be 500. What is passed over is pinned.
            assert scan["Actual Rows"] <= 10, scan
            assert scan.get("Rows Removed by Filter", 0) <= 3, scan


async def test_the_index_of_a_namespace_that_is_gone_goes_too(large: Large) -> None:
    while await large.indexes.build_some():
        pass
    await rows(large.database, large.host, "delete from afterturn.plugin_vector_t returning 1")
    assert await large.indexes.needed() == [of_namespace(large.bank, DIMENSION, 0)]
    while await large.indexes.build_some():
        pass
    assert await large.indexes.needed() == []
