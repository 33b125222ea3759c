"""What a bank's derived state lacks is made by one function, for the events of every writer."""

from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import pytest

from deploy.lab.bench.history import History
from store import identity
from store.derived.completion import Completion, complete_bank
from store.ledger.stages import Stage
from store.log.bulk import append_bulk
from store.memory.memories import Memories, NewMemory
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.replay import ReplayScope, repair_scope, verify_log
from tests.workers.conftest import BANK, HOST, World, dialogue, now
from tests.workers.stages import Crew, KnownEmbedder

pytestmark = pytest.mark.law("L5")

NAME = "generated"
GENERATED = identity.bank_id(HOST, NAME)
WAITING = """
    select count(*) from afterturn.ledger_t where stage = :stage and status = 'pending'"""
TEXTS = """
    select content from afterturn.agent_memory_unit_t where active and bank_id = :bank order by unit_id limit 40"""
#: What finds a text by anything but its meaning.
WORDS = ("lexical", "entity", "time", "recent", "pinned", "tail")
WITHOUT_VECTOR = """
    select count(*) from afterturn.agent_memory_unit_t u
     where u.active and u.content <> '' and not exists (
           select from afterturn.unit_vector_t v where v.bank_id = u.bank_id and v.unit_id = u.unit_id)"""
WITHOUT_VECTOR_REFLECTIONS = """
    select count(*) from afterturn.agent_memory_reflection_t u
     where u.active and u.content <> '' and not exists (
           select from afterturn.unit_vector_t v where v.bank_id = u.bank_id and v.unit_id = u.reflection_id)"""


async def complete(world: World, bank: object = GENERATED) -> Completion:
    assert isinstance(bank, type(GENERATED))
    return await complete_bank(partial(world.database.tenant, HOST), HOST, bank, now())


async def wrong(world: World) -> list[str]:
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    return [one.name for one in report.derived if not one.equal]


async def count(world: World, statement: str, **arguments: object) -> int:
    return int((await world.sql(statement, **arguments))[0][0])


async def test_events_written_in_bulk_are_as_derived_before_and_after_the_workers(world: World) -> None:
    await append_bulk(world.database, HOST, History(HOST, NAME, 5).events(2000))
    for bank in await world.sql("select bank_id from afterturn.agent_memory_bank_t"):
        made = await complete(world, bank.bank_id)
        assert made.guards == 0
    assert await wrong(world) == []
    links = "select count(*) from afterturn.agent_memory_unit_entity_t where"
    assert await count(world, f"{links} removed_at is null") > 200
    assert await count(world, f"{links} counted <> (removed_at is null)") == 0
    await Crew(world).drain(Stage.EMBEDDING)
    assert (await count(world, WITHOUT_VECTOR), await count(world, WITHOUT_VECTOR_REFLECTIONS)) == (0, 0)
    assert await wrong(world) == []


async def test_what_was_generated_is_found_by_its_words_at_once_and_by_its_meaning_after_the_workers(
    world: World,
) -> None:
    await append_bulk(world.database, HOST, History(HOST, NAME, 8).events(900))
    await complete(world)
    texts = [row.content for row in await world.sql(TEXTS, bank=GENERATED)]
    recaller = Recaller(world.database, KnownEmbedder(), RecallSettings())
    assert (await recaller.recall(HOST, RecallQuery(NAME, texts[0], k=5, without=WORDS))).items == ()
    found = await recaller.recall(HOST, RecallQuery(NAME, texts[0], k=5))
    assert texts[0] in [one.text for one in found.items]
    await Crew(world).drain(Stage.EMBEDDING)
    found = await recaller.recall(HOST, RecallQuery(NAME, texts[0], k=5, without=WORDS))
    assert ["dense" in one.arms for one in found.items] == [True] * 5


async def test_dates_of_units_that_changed_in_bulk_are_those_of_their_pairs(world: World) -> None:
    history = History(HOST, NAME, 4)
    await append_bulk(world.database, HOST, history.events(1500))
    await complete(world)
    await append_bulk(world.database, HOST, history.events(1000))
    for bank in await world.sql("select bank_id from afterturn.agent_memory_bank_t"):
        await complete(world, bank.bank_id)
    assert await wrong(world) == []


async def test_a_memory_that_happened_at_another_time_dates_its_pairs(world: World) -> None:
    memories = Memories(world.database, now)
    said = "Ann Moore met Karl Berger in Kyoto."

    async def permit(_: UUID) -> None:
        return None

    for day in (5, 2):
        when = datetime(2026, 3, day, tzinfo=UTC)
        await memories.keep(HOST, NewMemory("default", "m", said, occurred_at=when), permit)
        await Crew(world).drain()
        dates = await world.sql("select distinct last_cooccurred from afterturn.agent_memory_entity_cooccur_t")
        assert [row[0] for row in dates] == [when]
        assert await wrong(world) == []


async def test_a_second_completion_makes_nothing(world: World) -> None:
    await append_bulk(world.database, HOST, History(HOST, NAME, 6).events(600))
    first, again = await complete(world), await complete(world)
    assert first.words > 100
    assert first.vectors >= first.words
    assert again == Completion()


async def test_guards_that_are_missing_are_made_and_their_facts_become_work(world: World) -> None:
    words = "Hey Kate! My name is Karl Berger. I live in Kyoto."
    await world.append("s", "t", messages=dialogue(words, "Noted."), gateway=False)
    await Crew(world).drain()
    facts = await world.sql("select unit_id, subject, key, value from afterturn.fact_t order by unit_id")
    assert facts
    for table in ("turn_t", "ledger_t", "fact_t", "unit_word_t", "posting_t", "term_t", "unit_vector_t"):
        await world.sql(f"delete from afterturn.{table}")
    await world.sql("delete from afterturn.bank_statistics_t")
    made = await complete(world, BANK)
    assert (made.guards, made.words > 2, made.vectors) == (1, True, 1)
    assert await world.statuses(Stage.EXTRACTION) == ["done"]
    assert await wrong(world) == []
    await Crew(world).drain()
    assert await wrong(world) == []
    assert await world.sql("select unit_id, subject, key, value from afterturn.fact_t order by unit_id") == facts
    assert await count(world, WITHOUT_VECTOR) == 0


async def test_a_repair_opens_the_work_of_vectors_that_are_missing(world: World) -> None:
    await world.append("s", "t", gateway=False)
    await Crew(world).drain()
    await world.sql("delete from afterturn.unit_vector_t")
    assert await wrong(world) == ["vectors"]
    await repair_scope(world.postgres.owner_url, ReplayScope(HOST, BANK))
    assert await count(world, WAITING, stage="embedding") == 1
    await Crew(world).drain()
    assert (await wrong(world), await count(world, WITHOUT_VECTOR)) == ([], 0)


async def test_a_repair_of_messages_and_facts_of_one_turn_leaves_none_without_vector(world: World) -> None:
    await world.append("s", "t", messages=dialogue("My name is Karl Berger. I live in Kyoto.", "Noted."), gateway=False)
    await Crew(world).drain()
    for origin in ("message", "extraction"):
        planted = "update afterturn.agent_memory_unit_t set content = 'x' where origin = :origin returning unit_id"
        assert await world.sql(planted, origin=origin)
    await repair_scope(world.postgres.owner_url, ReplayScope(HOST, BANK))
    assert await count(world, WITHOUT_VECTOR) > 2
    await Crew(world).drain()
    assert (await wrong(world), await count(world, WITHOUT_VECTOR)) == ([], 0)
