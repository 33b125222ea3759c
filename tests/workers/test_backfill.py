"""A backfill of the platform's rows: every row once, killed or not, and derived state as any other writer's."""

import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from deploy.cli.plugin_environment import open_engine
from store import identity
from store.backfill.conversion import MARK, TABLES
from store.backfill.run import Backfill, BackfillReport, UnusableSource
from store.memory.units import Units
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.replay import verify_log
from tests.patience import until
from tests.processes import spawned
from tests.seed_tables import ROWS_OF_BANK, fill_platform, platform_database
from tests.servers import TestPostgres
from tests.workers.conftest import HOST, World, now
from tests.workers.stages import Crew, KnownEmbedder

EVENTS = "select count(*) from afterturn.event_store_t where host_id = :host"
#: The names of units, entities, ... as the rows of `seed_rows.sql` have them.
NAMED = "select md5($1)::uuid"


@pytest_asyncio.fixture(loop_scope="session")
async def rows(postgres: TestPostgres) -> AsyncIterator[str]:
    async with platform_database(postgres) as url:
        yield url


async def run(world: World, url: str, what: str = "apply", **options: Any) -> BackfillReport:
    async with open_engine(url) as engine:
        assert engine is not None
        backfill = Backfill(world.database, engine, HOST, **options)
        if what == "apply":
            return await backfill.apply(now())
        return await (backfill.plan() if what == "plan" else backfill.verify())


async def ask(url: str, statement: str, *arguments: object) -> Any:
    connection = await asyncpg.connect(url)  # type: ignore[no-untyped-call]  # asyncpg leaves it without
    found = await connection.fetch(statement, *arguments)
    await connection.close()
    return found


def named(name: str) -> UUID:
    from hashlib import md5  # noqa: PLC0415

    return UUID(md5(name.encode(), usedforsecurity=False).hexdigest())


async def count_events(world: World) -> int:
    return int((await world.sql(EVENTS, host=HOST))[0][0])


async def wrong(world: World) -> list[str]:
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    return [one.name for one in report.derived if not one.equal]


async def backfill_killed_half_way(world: World, rows: str, banks: int) -> None:
    await fill_platform(rows, banks)
    postgres = world.postgres
    urls = [postgres.app_url, postgres.operator_url, rows]
    half = banks * ROWS_OF_BANK // 2
    with spawned([sys.executable, "-m", "tests.workers.backfill_child", *urls]) as child:

        async def has_half() -> bool:
            assert child.poll() is None, "it ended before it was killed"
            return await count_events(world) >= half

        await until(has_half, "half of the rows are events")
        child.kill()
        child.wait()
    written = await count_events(world)
    planned = await run(world, rows, "plan")
    assert planned.total("known") == written
    missing = await run(world, rows, "verify")
    assert missing.mismatches == planned.total("written") > 0
    again = await run(world, rows)
    assert (again.total("known"), again.total("written")) == (written, planned.total("written"))
    verified = await run(world, rows, "verify")
    assert (verified.mismatches, verified.total("refused"), verified.total("read")) == (0, 0, banks * ROWS_OF_BANK)
    assert verified.total("inactive") == banks * 4
    once_more = await run(world, rows)
    assert (once_more.total("written"), once_more.vectors) == (0, 0)
    assert await wrong(world) == []
    await Crew(world, embedder=KnownEmbedder()).drain()
    assert await wrong(world) == []


@pytest.mark.law("L2")
@pytest.mark.live
async def test_a_backfill_that_is_killed_half_way_and_run_again_writes_each_row_once(world: World, rows: str) -> None:
    await backfill_killed_half_way(world, rows, banks=6)


@pytest.mark.nightly
async def test_a_backfill_of_ten_thousand_rows_is_killed_half_way_and_run_again(world: World, rows: str) -> None:
    await backfill_killed_half_way(world, rows, banks=27)


async def test_a_row_is_an_event_with_its_version_its_mark_and_no_vector(world: World, rows: str) -> None:
    await fill_platform(rows, 2)
    await run(world, rows)
    own = identity.bank_id(HOST, f"~{named('user')}@{named('agent')}/{named('bank2')}")
    shared = identity.bank_id(HOST, f"@{named('agent')}/{named('bank1')}")
    events = await world.sql(
        "select event_type, aggregate_version, metadata, data, bank_id from afterturn.event_store_t"
        " where host_id = :host order by position",
        host=HOST,
    )
    assert {row.bank_id for row in events} == {own, shared}
    assert all(row.metadata == MARK for row in events)
    assert not any("embedding" in row.data for row in events)
    order = [event.event.value for event in TABLES]
    places = [order.index(row.event_type) for row in events]
    assert places == sorted(places), "parents before their children"
    assert {*places} == {*range(len(TABLES))}
    versions = {(row.data["unitId"], row.aggregate_version) for row in events if "Retained" in row.event_type}
    of_rows = await ask(rows, "select unit_id, aggregate_version from agent_memory_unit_t where active")
    assert versions == {(str(row["unit_id"]), row["aggregate_version"]) for row in of_rows}
    banks = await world.sql("select bank_id, disposition from afterturn.agent_memory_bank_t where host_id = :h", h=HOST)
    assert {row.bank_id: "runtime" in row.disposition for row in banks} == {own: True, shared: False}
    [pair] = await world.sql(
        "select max(cooccur_count) as most from afterturn.agent_memory_entity_cooccur_t where host_id = :h", h=HOST
    )
    assert 0 < pair.most < 100, "pairs are counted anew"


@pytest.mark.law("L4")
async def test_what_was_brought_over_is_found_read_and_continued(world: World, rows: str) -> None:
    await fill_platform(rows, 1)
    await run(world, rows)
    bank = f"@{named('agent')}/{named('bank1')}"
    recaller = Recaller(world.database, KnownEmbedder(), RecallSettings(), clock=now)
    found = await recaller.recall(HOST, RecallQuery(bank, "violin number 42", k=3))
    assert found.items[0].unit_id == named("1unit42")
    unit = await Units(world.database, now).get(HOST, bank, named("1unit42"))
    assert (unit.text, unit.kind, unit.version) == (
        "The violin number 42 of household 1 is in the attic of Karl Berger.", "world", 3,
    )  # fmt: skip
    assert unit.metadata == {"session_id": "s2"}
    assert sorted(unit.entities) == ["Karl 2", "Karl 5"]
    session = await world.turns.session_messages.get(HOST, bank, str(named("1session1")), 40)
    assert [one.content for one in session.history] == ["Where is the violin?", "In the attic."]
    assert session.version == 7
    # It goes on as any other: forgotten here, it is not brought back, and its row is no mismatch.
    await Units(world.database, now).forget(HOST, bank, named("1unit42"))
    again = await run(world, rows)
    assert again.total("written") == 0
    assert (await run(world, rows, "verify")).mismatches == 0
    assert await wrong(world) == []


async def test_ended_rows_and_what_hangs_on_them_stay_ended(world: World, rows: str) -> None:
    await fill_platform(rows, 2)
    gone = named("bank1")
    await ask(rows, "update agent_memory_bank_t set active = false where bank_id = $1 returning 1", gone)
    report = await run(world, rows)
    counts = report.tables["agent_memory_bank_t"]
    assert (counts.inactive, counts.written) == (1, 1)
    assert report.tables["agent_memory_doc_t"].orphaned == 5
    # In the living bank: units 25, 50, 75 and 100, their two mentions each, and the links from and to them.
    assert report.tables["agent_memory_unit_entity_t"].orphaned == 200 + 8
    assert report.tables["agent_memory_link_t"].orphaned == 50 + 4
    assert (await run(world, rows, "verify")).mismatches == 0


async def test_a_plan_writes_nothing_and_a_row_that_the_log_does_not_take_is_named(world: World, rows: str) -> None:
    await fill_platform(rows, 1)
    await ask(rows, "update agent_memory_directive_t set name = '' where priority = 1 returning 1")
    await ask(rows, "update agent_memory_link_t set weight = 'NaN' where weight > 0.405 and weight < 0.425 returning 1")
    secret = "sk-ant-api03-" + "Ab3" * 31 + "AA"
    await ask(rows, "update agent_memory_unit_t set content = $1 where fact_type = 'opinion' returning 1", secret)
    planned = await run(world, rows, "plan")
    assert await count_events(world) == 0
    assert (planned.total("refused"), planned.total("written") + planned.total("inactive")) == (3, 366)
    assert [name for name in planned.named if "directive" in name]
    assert not any(secret in name or "Answer" in name for name in planned.named)
    done = await run(world, rows)
    assert done.total("written") == planned.total("written")
    assert not await world.sql(
        "select 1 from afterturn.event_store_t where cast(data as text) like '%' || :said || '%'", said=secret
    )
    assert (await run(world, rows, "verify")).mismatches == 0


#: A message of a time that no year 1 of UTC has.
EARLY = '{"role": "user", "content": "x", "timestamp": "0001-01-01T00:00:00+14:00"}'
#: What is wrong with one row, and the reason that names it: "" where the row comes over.
ODD_ROWS = (
    ("update agent_memory_unit_t set event_date = 'infinity' where unit_id = md5('1unit1')::uuid", "event_date"),
    ("update agent_memory_unit_t set event_date = '4000-01-01 BC' where unit_id = md5('1unit2')::uuid", "event_date"),
    (
        "update agent_memory_unit_t set mentioned_at = '294000-01-01' where unit_id = md5('1unit3')::uuid",
        "mentioned_at",
    ),
    (
        "update agent_memory_unit_t set occurred_start = '0001-01-01 00:00+14' where unit_id = md5('1unit4')::uuid",
        "occurred_start",
    ),
    ("update agent_memory_unit_t set metadata = '\"text\"' where unit_id = md5('1unit6')::uuid", "metadata"),
    ("update agent_memory_unit_t set proof_count = null, metadata = '[]' where unit_id = md5('1unit7')::uuid", ""),
    ("update agent_memory_unit_t set aggregate_version = 2^40 where unit_id = md5('1unit8')::uuid", ""),
    ("update agent_session_history_t set messages = '5' where session_id = md5('1session1')::uuid", "another kind"),
    ("update agent_session_history_t set messages = '{}' where session_id = md5('1session2')::uuid", "another kind"),
    (f"update agent_session_history_t set messages = '[1, {EARLY}]' where session_id = md5('1session3')::uuid", ""),
    ("update agent_memory_bank_t set disposition = '\"text\"' where bank_id = md5('bank2')::uuid", "another kind"),
)


async def test_odd_rows_are_named_or_taken_and_all_others_come_over(world: World, rows: str) -> None:
    """Also where the platform's database has no foreign keys: what hangs on a row that is not there stays behind."""
    await fill_platform(rows, 2)
    for statement, _ in ODD_ROWS:
        assert len(await ask(rows, f"{statement} returning 1")) == 1, statement
    await ask(rows, "alter table agent_memory_unit_t drop constraint agent_memory_unit_t_host_id_bank_id_doc_id_fkey")
    await ask(rows, "delete from agent_memory_doc_t where doc_id = md5('1doc5')::uuid")
    done = await run(world, rows)
    reasons = [why for _, why in ODD_ROWS if why]
    assert done.total("refused") == len(reasons)
    assert all(any(why in one for one in done.named) for why in reasons)
    assert done.tables["agent_memory_unit_t"].orphaned == 97, "of the refused bank 96, and one of the missing document"
    verified = await run(world, rows, "verify")
    assert (verified.mismatches, verified.total("known")) == (0, done.total("written"))
    assert await wrong(world) == []


async def test_the_verification_finds_a_row_that_changed_in_the_platform(world: World, rows: str) -> None:
    await fill_platform(rows, 1)
    await run(world, rows)
    changed = "update agent_memory_unit_t set content = 'Another.' where unit_id = $1 returning 1"
    await ask(rows, changed, named("1unit42"))
    found = await run(world, rows, "verify")
    assert (found.mismatches, found.tables["agent_memory_unit_t"].different) == (1, 1)
    assert str(named("1unit42")) in found.named[0]
    assert "Another" not in found.named[0]


async def test_a_source_that_is_not_the_platforms_is_refused(world: World, rows: str, postgres: TestPostgres) -> None:
    with pytest.raises(UnusableSource, match="is empty"):
        await run(world, rows, "plan")
    elsewhere = postgres.named("template1").superuser_url.replace("+asyncpg", "")
    with pytest.raises(UnusableSource, match="no table agent_memory_bank_t"):
        await run(world, elsewhere, "plan")
    await fill_platform(rows, 1)
    other = (
        "insert into agent_memory_bank_t (host_id, bank_id, bank_name) values (gen_random_uuid(), $1, 'x') returning 1"
    )
    await ask(rows, other, uuid4())
    with pytest.raises(UnusableSource, match="2 hosts: name one of"):
        await run(world, rows, "plan")
    assert (await run(world, rows, "plan", platform_host=named("host"))).total("read") == ROWS_OF_BANK
    with pytest.raises(UnusableSource, match=r"no row of the host .* name one of"):
        await run(world, rows, "verify", platform_host=uuid4())
