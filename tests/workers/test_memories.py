"""A single memory passes the stages as a turn does, is replaced while they work, and leaves nothing behind."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from afterturn_client.contract.receipts import MemoryReceipt

from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import NotFound
from store.ledger.stages import Stage
from store.memory.memories import Memories, NewMemory
from store.replay import verify_log
from tests.store.derived_rows import read_contents
from tests.workers.conftest import BANK, HOST, World, now
from tests.workers.stages import Crew, held

TEXT = "Karl Berger met Ann Moore in Kyoto."
OTHER = "Karl Berger sold the boat to Boris Novak."
PEOPLE = "select name from afterturn.entity_profile_t where kind = 'person' order by 1"


async def permit(_unit: UUID) -> None:
    """Let anything be replaced."""


async def keep(world: World, content: str = TEXT, memory_id: str = "met", **more: object) -> MemoryReceipt:
    memory = replace(NewMemory("default", memory_id, content), **more)  # type: ignore[arg-type]
    return await Memories(world.database, now).keep(HOST, memory, permit)


async def test_a_memory_is_embedded_extracted_and_counted_and_the_same_again_changes_nothing(world: World) -> None:
    crew = Crew(world)
    kept = await keep(world)
    again = await keep(world)
    assert (kept.created, kept.changed) == (True, True)
    assert again == replace(kept, created=False, changed=False)
    await crew.drain()
    for stage in (Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION):
        assert await world.statuses(stage) == ["done"]
    counted = await world.sql("select units from afterturn.bank_statistics_t")
    vectors = await world.sql("select unit_id from afterturn.unit_vector_t")
    assert (counted[0].units, [row.unit_id for row in vectors]) == (1, [kept.unit_id])
    assert [row.name for row in await world.sql(PEOPLE)] == ["Ann Moore", "Karl Berger"]


async def test_a_memory_that_is_replaced_keeps_its_creation_and_is_replaced_in_every_field(world: World) -> None:
    crew = Crew(world)
    first = await keep(world, title="trip", occurred_at=datetime(2025, 1, 1, tzinfo=UTC), metadata={"a": "1"})
    await crew.drain()
    other = await keep(world, OTHER, kind="opinion")
    assert (other.unit_id, other.created, other.changed) == (first.unit_id, False, True)
    assert other.position > first.position
    again = await keep(world, OTHER, kind="opinion")
    assert (again.created, again.changed) == (False, False)
    assert first.position < again.position <= other.position
    await crew.drain()
    [row] = await world.sql("select * from afterturn.agent_memory_unit_t where active")
    assert (row.content, row.fact_type, row.context, row.metadata) == (OTHER, "opinion", None, {})
    assert row.mentioned_at == row.event_date > datetime(2026, 1, 1, tzinfo=UTC)
    assert row.mentioned_at < row.update_ts
    assert [one.name for one in await world.sql(PEOPLE)] == ["Boris Novak", "Karl Berger"]
    assert len(await world.sql("select unit_id from afterturn.unit_vector_t")) == 1
    # A title stands among the words, though the text is the same.
    await keep(world, OTHER, title="harbour")
    found = await world.sql("select terms ? 'harbour' as found from afterturn.unit_word_t")
    assert [one.found for one in found] == [True]


async def test_a_memory_is_replaced_while_a_worker_reads_it_and_only_its_last_text_is_read(world: World) -> None:
    await keep(world)
    slow = Crew(world, embedder=held())
    async with asyncio.TaskGroup() as group:
        group.create_task(slow.drain(Stage.EMBEDDING))
        await slow.embedder.begun.wait()
        assert (await keep(world, OTHER)).changed
        slow.embedder.may_end.set()
    crew = Crew(world)
    await crew.drain()
    [vector] = await world.sql("select embedding::text as numbers from afterturn.unit_vector_t")
    expected = await world.sql(
        "select cast(:v as public.halfvec)::text as numbers", v=str(crew.embedder.vector(OTHER).tolist())
    )
    assert vector.numbers == expected[0].numbers


async def test_writers_of_one_id_at_once_leave_one_memory(world: World) -> None:
    texts = [f"{TEXT} {n}" for n in range(6)]
    kept = await asyncio.gather(*(keep(world, text) for text in texts))
    assert len({one.unit_id for one in kept}) == 1
    assert sum(one.created for one in kept) == 1
    [row] = await world.sql("select content from afterturn.agent_memory_unit_t where active")
    assert row.content in texts


async def test_a_memory_that_ended_is_gone_and_begins_anew_under_its_id(world: World) -> None:
    memories, crew = Memories(world.database, now), Crew(world)
    first = await keep(world)
    await crew.drain()
    await memories.end(HOST, "default", "met")
    for gone in (memories.find(HOST, "default", "met"), memories.end(HOST, "default", "met")):
        with pytest.raises(NotFound):
            await gone
    await crew.drain()
    async with world.database.tenant(HOST) as connection:
        left = await read_contents(connection, HOST, BANK)
    assert left.pop("bank_statistics_t") == [(0, 0)]
    assert {mentions for _, mentions in left.pop("agent_memory_entity_t")} == {0}
    assert not any(left.values())
    second = await keep(world, OTHER)
    assert second.created
    assert second.unit_id != first.unit_id
    assert (await keep(world, OTHER)) == replace(second, created=False, changed=False)


async def test_an_erased_memory_leaves_no_text_in_the_log_and_a_replay_is_equal(world: World) -> None:
    crew = Crew(world)
    await keep(world, memory_id="stays")
    gone = await keep(world, "The word is Zanzibar.", title="Zanzibar", metadata={"said": "Zanzibar"})
    await keep(world, "The word was Zanzibar.", title="Zanzibar")
    await crew.drain()
    erasures = Erasures(world.database, now)
    target = ErasureTarget(Kind.UNIT, "default", str(gone.unit_id))
    receipt = await erasures.run(HOST, await erasures.request(HOST, target))
    assert receipt.counts["memories"] == 1
    for table in ("event_store_t", "agent_memory_unit_t", "unit_word_t", "posting_t"):
        left = await world.sql(f"select count(*) as n from afterturn.{table} t where t::text ilike '%zanzibar%'")
        assert left[0].n == 0, table
    assert (await keep(world, "The word is Bergen.")).created
    await crew.drain()
    report = await verify_log(world.postgres.owner_url)
    assert report.equal, [one for one in report.tables if not one.equal]
    assert all(one.equal for one in report.derived)
