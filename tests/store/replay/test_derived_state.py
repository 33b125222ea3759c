"""After a swap or a repair, all that is derived of a bank is what its rebuild makes of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import text

from store.connections import create_owner_engine
from store.derived import bank_state
from store.log.envelope import Origin
from store.maintenance import WordReanalysis
from store.replay import ReplayScope, repair_scope, swap_tables, verify_log
from store.replay.derived import check_derived
from store.tenancy import languages
from tests.servers import TestPostgres
from tests.store.derived_rows import read_contents
from tests.workers.conftest import BANK, HOST, World, dialogue, now, open_world
from tests.workers.stages import Crew

pytestmark = pytest.mark.law("L5")

State = dict[str, list[tuple[Any, ...]]]


@pytest_asyncio.fixture(loop_scope="session")
async def told(fresh_database: TestPostgres) -> AsyncIterator[World]:
    """A bank in which people, places and facts were named and worked through."""
    world = await open_world(fresh_database)
    for n, home in enumerate(("Kyoto", "Lisbon", "Porto")):
        words = f"Hey Kate! My name is Karl Berger. I live in {home}. Karl and Ann Moore met in {home}."
        await world.append("s", f"t{n}", messages=dialogue(words, f"Ann Moore likes {home}."))
    await Crew(world).drain()
    async with world.database.tenant(HOST) as connection:
        await languages.change_language(connection, Origin(HOST, BANK, HOST, now()), "de")
    while await WordReanalysis(world.database, settle_s=0.0).undone():
        await WordReanalysis(world.database, settle_s=0.0).step()
    yield world
    await world.database.close()


async def state(world: World) -> State:
    async with world.database.tenant(HOST) as connection:
        return await read_contents(connection, HOST, BANK)


async def rebuilt(world: World) -> State:
    async with world.database.tenant(HOST) as connection:
        await bank_state.rebuild_bank(connection, HOST, BANK)
        return await read_contents(connection, HOST, BANK)


async def repaired(world: World) -> None:
    await repair_scope(world.postgres.owner_url, ReplayScope(HOST, BANK))


async def swapped(world: World) -> None:
    await swap_tables(world.postgres.owner_url)


DAMAGE = (
    "update afterturn.agent_memory_unit_t set content = 'else' where origin = 'message'",
    "update afterturn.agent_memory_unit_t set metadata = metadata - 'value', active = origin = 'message'",
    "update afterturn.agent_memory_unit_entity_t set name = 'Nobody', mentions = 7, counted = false",
    "update afterturn.agent_memory_entity_t set canonical_name = 'Nobody', active = false, mention_count = 3",
    "delete from afterturn.agent_memory_entity_cooccur_t",
    "truncate afterturn.agent_memory_bank_t cascade",
)
#: What no digest looks at: a repair makes it anew, whatever stands there.
UNSEEN = (
    "delete from afterturn.bank_language_t",
    "delete from afterturn.turn_t",
    "delete from afterturn.unit_word_t",
    "delete from afterturn.posting_t",
    "update afterturn.unit_word_t set terms = '{}', length = 0",
    "update afterturn.posting_t set tf = 9, length = 9, seq = 9",
    "delete from afterturn.bank_statistics_t",
    "delete from afterturn.entity_profile_t",
    "delete from afterturn.fact_t",
    "update afterturn.entity_name_t set mentions = 9",
    "update afterturn.term_t set df = 9",
)
#: All words of a unit, with everything that was counted of them: as if they had never been written.
WORDLESS = """
    with gone as (
        delete from afterturn.unit_word_t w using afterturn.agent_memory_unit_t u
         where u.unit_id = w.unit_id and u.content like '%Kyoto%' and u.origin = 'message' returning w.*
    ), postings as (
        delete from afterturn.posting_t p using gone g where p.unit_id = g.unit_id
    ), less as (
        select t.term, count(*) as df from gone g, jsonb_object_keys(g.terms) t(term) group by 1
    ), fewer as (
        update afterturn.term_t t set df = t.df - l.df from less l where t.term = l.term and t.df > l.df
    ), none as (
        delete from afterturn.term_t t using less l where t.term = l.term and t.df = l.df
    )
    update afterturn.bank_statistics_t s set units = s.units - g.units, tokens = s.tokens - g.tokens
      from (select count(*) as units, sum(length) as tokens from gone) g"""
#: What a message calls somebody, as if it were no name.
UNCALLED = """
    with uncalled as (
        update afterturn.unit_word_t set terms = terms - 'to:kate' where terms ? 'to:kate'
    ), less as (
        delete from afterturn.term_t where term = 'to:kate'
    )
    delete from afterturn.posting_t where term = 'to:kate'"""
STRANGER = """
    insert into afterturn.entity_profile_t
    select host_id, bank_id, gen_random_uuid(), canonical_id, name, 'none', folded, stem, mentions
      from afterturn.entity_profile_t where name = 'Lisbon'"""
#: One row changed by hand: under which name it is found, how, and in which columns.
PLANTED = (
    ("term_statistics", "update afterturn.term_t set df = 99 where term = 'kyoto'", "both", ("df",)),
    ("term_statistics", "delete from afterturn.term_t where term = 'kyoto'", "derived", ()),
    ("term_statistics", "update afterturn.bank_statistics_t set tokens = tokens + 1", "both", ("tokens",)),
    ("names", "update afterturn.entity_name_t set mentions = 9 where name = 'Ann Moore'", "both", ("mentions",)),
    ("aliases", "update afterturn.entity_profile_t set canonical_id = entity_id where name = 'Karl'", "both",
     ("canonical_id",)),
    ("aliases", "update afterturn.entity_profile_t set name = 'Nobody' where name = 'Lisbon'", "both", ("name",)),
    ("aliases", "delete from afterturn.entity_profile_t where name = 'Lisbon'", "derived", ()),
    ("aliases", STRANGER, "live", ()),
    ("facts", "update afterturn.fact_t set superseded_by = null, valid_to = null where value = 'lisbon'", "both",
     ("superseded_by", "valid_to")),
    ("facts", "update afterturn.fact_t set key = 'else' where value = 'porto'", "both", ("key",)),
    ("facts", "delete from afterturn.fact_t where value = 'kyoto'", "derived", ()),
    ("cooccurrence", "update afterturn.agent_memory_entity_cooccur_t set cooccur_count = 9", "both",
     ("cooccur_count",)),
    ("mention_counts", "update afterturn.agent_memory_entity_t set mention_count = 9", "both", ("mention_count",)),
    ("words", "update afterturn.posting_t set tf = 9 where term = 'kyoto'", "both", ("tf",)),
    ("words", "update afterturn.posting_t set length = 9 where term = 'kyoto'", "both", ("length",)),
    ("words", "delete from afterturn.posting_t where term = 'kyoto'", "derived", ()),
    ("words", "delete from afterturn.posting_t where term = 'to:kate'", "derived", ()),
    ("words", UNCALLED, "both", ("length", "terms")),
    ("words", WORDLESS, "derived", ()),
    ("languages", "update afterturn.bank_language_t set language = 'fr', former = 'de'", "both", ("language",)),
    ("turns", "update afterturn.turn_t set accepted_at = now()", "both", ("accepted_at",)),
    ("turns", "delete from afterturn.ledger_t", "both", ("ended",)),
    ("vectors", "delete from afterturn.unit_vector_t", "derived", ()),
)  # fmt: skip


async def mended(told: World, mend: Callable[[World], Awaitable[None]], *damage: str) -> None:
    before = await state(told)
    assert all(before.values())
    for statement in damage:
        await told.sql(statement)
    await mend(told)
    after = await state(told)
    assert after == before
    assert await rebuilt(told) == after
    report = await verify_log(told.postgres.owner_url)
    assert report.equal
    assert [one.name for one in report.derived if not one.equal] == []


async def test_a_repair_makes_anew_what_hangs_on_rows_that_were_wrong(told: World) -> None:
    for damage in DAMAGE:
        await mended(told, repaired, damage)


async def test_a_swap_makes_anew_what_hangs_on_rows_that_were_wrong(told: World) -> None:
    for damage in DAMAGE[1:]:
        await mended(told, swapped, damage)


async def test_a_repair_makes_anew_what_only_derived_state_had_wrong(told: World) -> None:
    await mended(told, repaired, *UNSEEN)


async def test_a_derived_row_changed_by_hand_is_found_and_named(told: World) -> None:
    engine = create_owner_engine(told.postgres.owner_url)
    for name, damage, found, columns in PLANTED:
        async with engine.connect() as connection:
            await connection.execute(text(damage))
            wrong = [one for one in await check_derived(connection, ReplayScope(HOST, BANK)) if not one.equal]
            await connection.rollback()
        assert [one.name for one in wrong] == [name], damage
        first, *_ = wrong[0].first_differences
        assert first.found == found, damage
        assert set(columns) <= set(first.columns), damage
        assert first.key["host_id"] == str(HOST)
        assert "kyoto" not in str(wrong).lower()
    await engine.dispose()
