"""Projections are disposable: replayed from the log they are the same, and what is not is named and mended."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import text

from store import identity
from store.connections import create_owner_engine
from store.database import Database
from store.derived.postings import rebuild_words
from store.errors import ReplayError
from store.log.catalog import EventType
from store.memory.turns import TurnStore
from store.replay import ReplayReport, ReplayScope, repair_scope, swap_tables, verify_log
from tests.patience import until
from tests.servers import TestPostgres
from tests.store.conftest import NOON, blocked, new_host, rows, turn
from tests.store.log.test_append import BANK, append, event
from tests.store.log.test_projectors import LIVES

E = EventType
NINE = [
    "agent_memory_bank_t",
    "agent_memory_doc_t",
    "agent_memory_unit_t",
    "agent_memory_entity_t",
    "agent_memory_unit_entity_t",
    "agent_memory_link_t",
    "agent_memory_directive_t",
    "agent_memory_reflection_t",
    "agent_session_history_t",
]

pytestmark = pytest.mark.law("L5")


@pytest.fixture
async def said(lonely: Database) -> UUID:
    """A host whose log holds turns and an event of every other kind."""
    host = await new_host(lonely)
    store = TurnStore(lonely, lambda: NOON)
    for n in range(6):
        await store.append(host, [turn(f"t{n}", f"I moved to place {n}", "Noted", session=f"s{n % 2}")])
    await append(lonely, host, [event(host, E.BANK_CREATED)])
    for created, updated, deleted, _ in LIVES:
        for key in ("a", "b"):
            life = [(created, 1), (updated, 2), (updated, 3)] + ([(deleted, 4)] if key == "b" else [])
            await append(lonely, host, [event(host, kind, v, key=key, text=f"{v}") for kind, v in life])
    await append(lonely, host, [event(host, E.UNIT_ENTITY_LINKED), event(host, E.LINK_CREATED)])
    await append(lonely, host, [event(host, E.UNIT_ENTITY_UNLINKED, 2), event(host, E.LINK_UPDATED, 2)])
    await append(lonely, host, [event(host, E.SESSION_CREATED), event(host, E.SESSION_APPENDED, 2)])
    await append(lonely, host, [event(host, E.SESSION_COMPACTED, 3), event(host, E.SESSION_APPENDED, 4)])
    # Interfaces write the words of what they bring; these units came as events alone.
    async with lonely.tenant(host) as connection:
        await rebuild_words(connection, host, BANK)
    return host


async def owner(postgres: TestPostgres, *statements: str) -> None:
    engine = create_owner_engine(postgres.owner_url)
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement))
    await engine.dispose()


def wrong(report: ReplayReport) -> list[str]:
    return [table.table for table in report.tables if not table.equal]


async def test_a_replay_equals_what_is_live(said: UUID, lonely: Database, fresh_database: TestPostgres) -> None:
    seen: list[tuple[int, int]] = []
    report = await verify_log(fresh_database.owner_url, progress=lambda done, total: seen.append((done, total)))
    assert [table.table for table in report.tables] == NINE
    assert wrong(report) == []
    assert report.equal
    [(events,)] = await rows(lonely, said, "select count(*) from event_store_t")
    assert report.events == events
    assert seen[-1] == (events, events)
    assert all(one.equal for one in report.derived)
    told = report.as_json()
    assert told["equal"] is True
    assert told["tables"][2]["rows_live"] == told["tables"][2]["rows_replayed"] == 14
    assert await rows(lonely, said, "select to_regnamespace('afterturn_replay')") == [(None,)]


DAMAGE = [
    ("update {}agent_memory_bank_t set background = 'else'", "agent_memory_bank_t", "both", ["background"]),
    ("delete from {}agent_memory_doc_t where active", "agent_memory_doc_t", "replayed", []),
    ("update {}agent_memory_unit_t set content = 'else' where seq = 0", "agent_memory_unit_t", "both", ["content"]),
    ("update {}agent_memory_entity_t set active = not active", "agent_memory_entity_t", "both", ["active"]),
    ("update {}agent_memory_unit_entity_t set removed_at = null", "agent_memory_unit_entity_t", "both", ["removed_at"]),
    ("update {}agent_memory_link_t set weight = 0.25", "agent_memory_link_t", "both", ["weight"]),
    ("delete from {}agent_memory_directive_t", "agent_memory_directive_t", "replayed", []),
    ("update {}agent_memory_reflection_t set update_user = 'x'", "agent_memory_reflection_t", "both", ["update_user"]),
    ("delete from {}session_message_t where seq = 3", "agent_session_history_t", "both", ["messages"]),
]


@pytest.mark.parametrize("part", range(3))
async def test_a_row_changed_by_hand_is_found_and_mended(
    said: UUID, lonely: Database, fresh_database: TestPostgres, part: int
) -> None:
    """Three tables at a time: what is wrong in them is told of none of the others."""
    damage = DAMAGE[part::3]
    for statement, *_ in damage:
        await owner(fresh_database, statement.format("afterturn."))
    report = await verify_log(fresh_database.owner_url)
    assert not report.equal
    assert sorted(wrong(report)) == sorted(table for _, table, *_ in damage)
    for _, table, found, columns in damage:
        [difference, *_] = next(t.first_differences for t in report.tables if t.table == table)
        assert difference.key["host_id"] == str(said)
        assert difference.found == found, table
        if columns:
            assert list(difference.columns) == columns
    assert "else" not in str(report.as_json())
    assert sorted(wrong(await repair_scope(fresh_database.owner_url, ReplayScope(said)))) == sorted(wrong(report))
    assert (await verify_log(fresh_database.owner_url)).equal
    assert lonely


async def test_a_row_that_the_log_does_not_know_is_found(
    said: UUID, lonely: Database, fresh_database: TestPostgres
) -> None:
    await owner(
        fresh_database,
        "insert into afterturn.agent_memory_directive_t select host_id, gen_random_uuid(), bank_id, 'x', 'y', 0, 1, "
        "true, update_ts, update_user from afterturn.agent_memory_directive_t limit 1",
    )
    [difference] = (await verify_log(fresh_database.owner_url)).tables[6].first_differences
    assert difference.found == "live"
    await repair_scope(fresh_database.owner_url, ReplayScope(said))
    assert (await verify_log(fresh_database.owner_url)).equal
    assert lonely


async def test_a_scoped_run_minds_its_own_bank(said: UUID, lonely: Database, fresh_database: TestPostgres) -> None:
    other = await new_host(lonely)
    await TurnStore(lonely, lambda: NOON).append(other, [turn("t1", "elsewhere")])
    await owner(fresh_database, "update afterturn.agent_memory_unit_t set content = 'else'")
    bank = identity.bank_id(said, "home")
    report = await repair_scope(fresh_database.owner_url, ReplayScope(said, bank))
    assert report.tables[2].rows_live == 12
    assert (await verify_log(fresh_database.owner_url, ReplayScope(said, bank))).equal
    assert not (await verify_log(fresh_database.owner_url, ReplayScope(said))).equal
    assert not (await verify_log(fresh_database.owner_url, ReplayScope(other))).equal
    with pytest.raises(ReplayError):
        await repair_scope(fresh_database.owner_url, ReplayScope())


async def test_tables_that_were_emptied_come_back_and_the_store_goes_on(
    said: UUID, lonely: Database, fresh_database: TestPostgres
) -> None:
    before = await rows(lonely, said, "select * from hindsight.agent_session_history_t order by session_id")
    await owner(fresh_database, "truncate afterturn.agent_memory_bank_t cascade")
    report = await swap_tables(fresh_database.owner_url)
    assert len(wrong(report)) == 9
    assert await rows(lonely, said, "select * from hindsight.agent_session_history_t order by session_id") == before
    store = TurnStore(lonely, lambda: NOON)
    await store.append(said, [turn("after", "said after the swap", session="s0")])
    assert (await verify_log(fresh_database.owner_url)).equal
    assert await rows(
        lonely, said, "select to_regnamespace('afterturn_swap'), to_regnamespace('afterturn_before')"
    ) == [(None, None)]


async def test_a_swap_leaves_the_schema_as_it_was(said: UUID, lonely: Database, fresh_database: TestPostgres) -> None:
    catalog = """
        select c.relname, c.relrowsecurity, c.reloptions::text,
               array(select conname || pg_get_constraintdef(oid) from pg_constraint k
                      where k.conrelid = c.oid and contype <> 'n' order by 1)::text,
               array(select pg_get_indexdef(indexrelid) from pg_index i where i.indrelid = c.oid order by 1)::text,
               array(select policyname || cmd || roles::text || coalesce(qual, '') || coalesce(with_check, '')
                       from pg_policies p where p.tablename = c.relname and p.schemaname = n.nspname order by 1)::text,
               array(select a::text from unnest(c.relacl) a order by 1)::text,
               array(select attname || format_type(atttypid, atttypmod) || attnotnull from pg_attribute a
                      where a.attrelid = c.oid and attnum > 0 order by attnum)::text,
               array(select pg_get_statisticsobjdef(x.oid) from pg_statistic_ext x where x.stxrelid = c.oid)::text,
               case when c.relkind = 'v' then pg_get_viewdef(c.oid) end
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname in ('afterturn', 'hindsight') and c.relkind in ('r', 'p', 'v') order by n.nspname, c.relname"""
    before = await rows(lonely, said, catalog)
    await swap_tables(fresh_database.owner_url)
    for old, new in zip(before, await rows(lonely, said, catalog), strict=True):
        assert new == old


async def test_a_swap_during_writes_loses_nothing(said: UUID, lonely: Database, fresh_database: TestPostgres) -> None:
    store = TurnStore(lonely, lambda: NOON)
    writing, written = True, dict.fromkeys("xyz", 0)

    async def write(name: str) -> None:
        while writing:
            said_now = f"{name} says {written[name]}"
            await store.append(said, [turn(f"{name}{written[name]}", said_now, session=name)])
            written[name] += 1

    async def each_has_written() -> None:
        before = dict(written)
        await until(lambda: all(written[name] > before[name] + 1 for name in before), "each writer has written two")

    writers = [asyncio.create_task(write(name)) for name in written]
    for _ in range(2):
        await each_has_written()
        await swap_tables(fresh_database.owner_url)
    await each_has_written()
    writing = False
    await asyncio.gather(*writers)
    assert await rows(lonely, said, "select count(*) from turn_t") == [(sum(written.values()) + 6,)]
    assert (await verify_log(fresh_database.owner_url)).equal


async def test_writers_go_on_while_a_comparison_waits_for_a_long_transaction(
    said: UUID, lonely: Database, fresh_database: TestPostgres
) -> None:
    async with lonely.tenant(said) as long_one:
        await long_one.execute(text("select afterturn.enter_log()"))
        compared = asyncio.ensure_future(verify_log(fresh_database.owner_url))
        await blocked(lonely, said)
        for n in range(3):
            await TurnStore(lonely, lambda: NOON).append(await new_host(lonely), [turn(f"meanwhile {n}")])
        assert not compared.done()
    assert wrong(await compared) == []


async def test_words_and_vectors_stay_with_what_says_the_same_and_are_made_again_for_the_rest(
    said: UUID, lonely: Database, fresh_database: TestPostgres
) -> None:
    await owner(
        fresh_database,
        "insert into afterturn.unit_vector_t "
        "select host_id, bank_id, unit_id, 0, 1, array_fill(0.05, array[384])::public.halfvec "
        "from afterturn.agent_memory_unit_t where active",
        "insert into afterturn.unit_vector_t "
        "select host_id, bank_id, reflection_id, 0, 1, array_fill(0.05, array[384])::public.halfvec "
        "from afterturn.agent_memory_reflection_t where active",
        "update afterturn.ledger_t set status = 'done' where stage = 'embedding'",
        "update afterturn.agent_memory_unit_t set content = 'tampered' where turn_name = 't1' and ordinal = 0",
    )
    words = "select unit_id, terms, length from unit_word_t order by 1"
    before = await rows(lonely, said, words)
    await swap_tables(fresh_database.owner_url)
    assert await rows(lonely, said, words) == before
    assert await rows(lonely, said, "select count(*) from unit_vector_t") == [(13,)]
    again = await rows(lonely, said, "select t.turn_id from ledger_t t where stage = 'embedding' and undone")
    assert again == [(identity.turn_id(identity.session_id(identity.bank_id(said, "home"), "s1"), "t1"),)]


async def test_a_replay_that_was_cut_off_is_taken_up(
    said: UUID, lonely: Database, fresh_database: TestPostgres
) -> None:
    await owner(
        fresh_database,
        "select afterturn.make_shadow('afterturn_replay')",
        f"select afterturn.replay_step('afterturn_replay', '{said}', null, 1000000, 7)",
    )
    seen: list[int] = []
    report = await verify_log(fresh_database.owner_url, resume=True, progress=lambda done, _: seen.append(done))
    assert report.equal
    [(events,)] = await rows(lonely, said, "select count(*) from event_store_t")
    assert (report.events, seen[-1]) == (events, events - 7)
