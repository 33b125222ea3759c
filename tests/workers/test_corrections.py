"""A unit that is corrected: its words, its vector, its mentions and what was drawn from it, and the log beside them."""

import asyncio
from uuid import UUID, uuid4

import pytest
from afterturn_client.contract.receipts import CorrectionReceipt

from store.derived import bank_state
from store.errors import ConcurrencyError, NotFound, TurnBusy
from store.ledger.stages import Stage
from store.memory.units import Units
from store.replay import verify_log
from tests.store.derived_rows import read_contents
from tests.workers.conftest import BANK, HOST, World, dialogue, now
from tests.workers.stages import Crew, held

SAID = "I live in Porto. My sister is called Anna."


async def told(world: World) -> tuple[Crew, UUID]:
    """One turn that went through every stage, and its first message."""
    await world.append(messages=dialogue(SAID, "I see."))
    crew = Crew(world)
    await crew.drain()
    [unit] = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content = :said", said=SAID)
    return crew, unit.unit_id


def units(world: World) -> Units:
    return Units(world.database, now)


async def vectors(world: World, unit: UUID) -> list[str]:
    rows = await world.sql(
        "select cast(embedding as text) as v from afterturn.unit_vector_t where unit_id = :unit", unit=unit
    )
    return [row.v for row in rows]


async def words(world: World, unit: UUID) -> set[str]:
    rows = await world.sql(
        "select jsonb_object_keys(terms) as term from afterturn.unit_word_t where unit_id = :unit", unit=unit
    )
    return {row.term for row in rows}


async def test_words_change_at_once_and_the_vector_is_made_anew(world: World) -> None:
    crew, unit = await told(world)
    before = await vectors(world, unit)
    assert "porto" in await words(world, unit)
    corrected = await units(world).correct(HOST, "default", unit, "I live in Lisbon.")
    assert corrected.changed
    assert {"lisbon"} <= await words(world, unit)
    assert "porto" not in await words(world, unit)
    assert await vectors(world, unit) == []
    await crew.drain()
    assert ["I live in Lisbon."] in [batch[:1] for batch in crew.embedder.batches]
    assert await vectors(world, unit) != before
    assert (
        await world.sql("select 1 from afterturn.posting_t where term = 'porto' and unit_id = :unit", unit=unit) == []
    )
    assert await world.sql("select 1 from afterturn.ledger_t where undone") == []


async def test_rows_of_a_correction_count_the_texts_of_the_whole_turn_for_the_size_of_a_claim(world: World) -> None:
    await world.append(messages=dialogue("x" * 3000, "y" * 2000))
    crew = Crew(world)
    await crew.drain()
    said = "select unit_id from afterturn.agent_memory_unit_t where content like 'x%'"
    [unit] = await world.sql(said)
    await units(world).correct(HOST, "default", unit.unit_id, "I live in Lisbon.")
    rows = await world.sql("select stage, bytes from afterturn.ledger_t where undone and stage <> 'projection'")
    assert {row.stage: row.bytes >= 5000 for row in rows} == {"embedding": True, "extraction": True}


async def test_facts_of_the_old_text_end_and_so_do_mentions_of_what_is_not_named_any_more(world: World) -> None:
    crew, unit = await told(world)
    before = await units(world).get(HOST, "default", unit)
    assert {"Porto", "Anna"} <= set(before.entities)
    assert len(before.facts) == 2
    corrected = await units(world).correct(HOST, "default", unit, "I live in Lisbon. Anna is my sister.")
    after = await units(world).get(HOST, "default", unit)
    assert corrected.facts_ended == 2
    assert (after.facts, after.version, after.position) == ((), 2, before.position)
    assert "Porto" not in after.entities
    assert "Anna" in after.entities
    await crew.drain()
    now = await world.sql("select value from afterturn.fact_t")
    assert sorted(row.value for row in now) == ["anna", "lisbon"]


async def test_a_corrected_memory_is_what_its_log_says_and_its_counts_are_exact(world: World) -> None:
    crew, unit = await told(world)
    [fact] = await world.sql("select unit_id from afterturn.fact_t where value = 'porto'")
    await units(world).correct(HOST, "default", fact.unit_id, "The user lives near Porto.")
    await crew.drain()
    await units(world).correct(HOST, "default", unit, "I live in Braga.")
    await units(world).correct(HOST, "default", unit, "I live in Lisbon.")
    await crew.drain()
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    assert all(one.equal for one in report.derived)
    async with world.database.tenant(HOST) as connection:
        counted = await read_contents(connection, HOST, BANK)
        await bank_state.rebuild_bank(connection, HOST, BANK)
        assert await read_contents(connection, HOST, BANK) == counted


async def test_a_corrected_fact_holds_no_place_in_time_and_stays_a_memory(world: World) -> None:
    crew, _ = await told(world)
    [fact] = await world.sql("select unit_id from afterturn.fact_t where value = 'porto'")
    await units(world).correct(HOST, "default", fact.unit_id, "The user lives near Porto.")
    await crew.drain()
    assert [row.value for row in await world.sql("select value from afterturn.fact_t")] == ["anna"]
    assert len(await vectors(world, fact.unit_id)) == 1
    found = await units(world).get(HOST, "default", fact.unit_id)
    assert (found.text, found.metadata["fact_id"]) == ("The user lives near Porto.", "user_home")


async def test_the_same_text_changes_nothing(world: World) -> None:
    _, unit = await told(world)
    events = await world.sql("select position from afterturn.event_store_t")
    found = await units(world).get(HOST, "default", unit)
    assert await units(world).correct(HOST, "default", unit, SAID) == CorrectionReceipt(
        unit_id=unit, position=found.position, changed=False, facts_ended=0
    )
    assert await world.sql("select position from afterturn.event_store_t") == events


async def test_whoever_saw_another_version_is_refused_and_of_many_at_once_one_wins(world: World) -> None:
    _, unit = await told(world)
    tries = (units(world).correct(HOST, "default", unit, f"I live in town {n}.", version=1) for n in range(4))
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(one).__name__ for one in outcomes) == ["ConcurrencyError"] * 3 + ["CorrectionReceipt"]
    assert (await units(world).get(HOST, "default", unit)).version == 2
    with pytest.raises(ConcurrencyError):
        await units(world).correct(HOST, "default", unit, "I live in Faro.", version=1)


async def test_what_is_not_there_is_not_corrected(world: World) -> None:
    _, unit = await told(world)
    for bank, one in (("default", uuid4()), ("other", unit)):
        with pytest.raises(NotFound):
            await units(world).correct(HOST, bank, one, "I live in Faro.")
    await units(world).forget(HOST, "default", unit)
    with pytest.raises(NotFound):
        await units(world).correct(HOST, "default", unit, "I live in Faro.")


async def test_no_fact_of_the_old_text_comes_after_the_correction(world: World) -> None:
    await world.append(messages=dialogue(SAID, "I see."))
    [unit] = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content = :said", said=SAID)
    await world.sql("update afterturn.ledger_t set status = 'running' where stage = 'extraction'")
    with pytest.raises(TurnBusy):
        await units(world).correct(HOST, "default", unit.unit_id, "I live in Lisbon.")
    await world.sql("update afterturn.ledger_t set status = 'pending' where stage = 'extraction'")
    await units(world).correct(HOST, "default", unit.unit_id, "I live in Lisbon.")
    await Crew(world).drain()
    assert [row.value for row in await world.sql("select value from afterturn.fact_t")] == ["lisbon"]


async def test_a_vector_of_the_old_text_is_never_written_after_the_correction(world: World) -> None:
    await world.append(messages=dialogue(SAID, "I see."))
    [unit] = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content = :said", said=SAID)
    crew = Crew(world, held())
    embedding = asyncio.create_task(crew.drain(Stage.EMBEDDING))
    await crew.embedder.begun.wait()
    await units(world).correct(HOST, "default", unit.unit_id, "I live in Lisbon.")
    crew.embedder.may_end.set()
    await embedding
    await crew.drain(Stage.EMBEDDING)
    assert crew.embedder.batches[-1] == ["I live in Lisbon."]
    assert len(await vectors(world, unit.unit_id)) == 1


async def known(world: World) -> list[tuple[str, bool]]:
    """The facts in line, and whether each holds still."""
    rows = await world.sql("select value, valid_to is null as holds from afterturn.fact_t order by 1")
    return [(row.value, row.holds) for row in rows]


async def exact(world: World) -> None:
    """The log says what the tables say, and everything is counted as if from nothing."""
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    assert all(one.equal for one in report.derived)
    assert await world.sql("select 1 from afterturn.ledger_t where undone") == []
    async with world.database.tenant(HOST) as connection:
        counted = await read_contents(connection, HOST, BANK)
        await bank_state.rebuild_bank(connection, HOST, BANK)
        assert await read_contents(connection, HOST, BANK) == counted


async def test_a_corrected_message_is_read_again(world: World) -> None:
    crew, unit = await told(world)
    await units(world).correct(HOST, "default", unit, "I live in Lisbon. My sister is called Anna. Carla was there.")
    await crew.drain()
    assert await known(world) == [("anna", True), ("lisbon", True)]
    found = await units(world).get(HOST, "default", unit)
    assert {"Lisbon", "Anna", "Carla"} <= set(found.entities)
    assert "Porto" not in found.entities
    assert {fact.text for fact in found.facts} == {"The user lives in Lisbon.", "The user's sister is called Anna."}
    for fact in found.facts:
        assert len(await vectors(world, fact.unit_id)) == 1
        assert await words(world, fact.unit_id)
    await exact(world)


async def test_a_text_that_comes_back_says_again_what_it_said(world: World) -> None:
    crew, unit = await told(world)
    before = await units(world).get(HOST, "default", unit)
    for text in ("I live in Lisbon.", SAID):
        await units(world).correct(HOST, "default", unit, text)
        await crew.drain()
    after = await units(world).get(HOST, "default", unit)
    assert {fact.text for fact in after.facts} == {fact.text for fact in before.facts}
    assert set(after.entities) == set(before.entities)
    assert await known(world) == [("anna", True), ("porto", True)]
    links = "select count(*) as n from afterturn.agent_memory_link_t where active and link_type = 'semantic'"
    assert [row.n for row in await world.sql(links)] == [2]
    await exact(world)


async def test_a_text_that_is_corrected_before_it_was_read_is_read_as_it_is_then(world: World) -> None:
    await world.append(messages=dialogue(SAID, "I see."))
    [unit] = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content = :said", said=SAID)
    for text in ("I live in Faro.", "I live in Lisbon."):
        await units(world).correct(HOST, "default", unit.unit_id, text)
    await Crew(world).drain()
    assert await known(world) == [("lisbon", True)]
    await exact(world)


async def test_a_fact_that_was_forgotten_does_not_come_back_with_another_messages_correction(world: World) -> None:
    await world.append(messages=[*dialogue(SAID, "I see."), *dialogue("I like jazz.", "Good.")])
    crew = Crew(world)
    await crew.drain()
    [fact] = await world.sql("select unit_id from afterturn.fact_t where value = 'porto'")
    await units(world).forget(HOST, "default", fact.unit_id)
    [jazz] = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content = 'I like jazz.'")
    await units(world).correct(HOST, "default", jazz.unit_id, "I like tea.")
    await crew.drain()
    assert await known(world) == [("anna", True), ("tea", True)]
    await exact(world)


async def test_what_follows_from_a_correction_follows_once_whatever_is_delivered_again(world: World) -> None:
    crew, unit = await told(world)
    await units(world).correct(HOST, "default", unit, "I live in Lisbon.")
    await crew.drain()
    events = await world.sql("select position from afterturn.event_store_t")
    await world.sql("update afterturn.ledger_t set status = 'pending' where stage = 'extraction'")
    await crew.drain()
    assert await world.sql("select position from afterturn.event_store_t") == events
    await exact(world)


async def test_a_pin_changes_nothing_else_and_is_what_the_log_says(world: World) -> None:
    crew, unit = await told(world)
    before = await vectors(world, unit), await words(world, unit), await units(world).get(HOST, "default", unit)
    pinned = await units(world).pin(HOST, "default", unit, pinned=True)
    again = await units(world).pin(HOST, "default", unit, pinned=True)
    assert (pinned.changed, again.changed) == (True, False)
    after = await units(world).get(HOST, "default", unit)
    assert (after.metadata, after.facts, after.entities) == ({"pinned": "true"}, before[2].facts, before[2].entities)
    assert (await vectors(world, unit), await words(world, unit)) == before[:2]
    await crew.drain()
    assert await world.sql("select 1 from afterturn.ledger_t where undone") == []
    assert (await verify_log(world.postgres.owner_url)).equal
    assert (await units(world).pin(HOST, "default", unit, pinned=False)).changed
    assert (await units(world).get(HOST, "default", unit)).metadata == {}
    assert (await verify_log(world.postgres.owner_url)).equal


async def test_what_is_pinned_while_it_is_being_embedded_still_gets_its_vector(world: World) -> None:
    await world.append(messages=dialogue(SAID, "I see."))
    [row] = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content = :said", said=SAID)
    crew = Crew(world, held())
    embedding = asyncio.create_task(crew.drain(Stage.EMBEDDING))
    await crew.embedder.begun.wait()
    await units(world).pin(HOST, "default", row.unit_id, pinned=True)
    crew.embedder.may_end.set()
    await embedding
    await crew.drain(Stage.EMBEDDING)
    assert len(await vectors(world, row.unit_id)) == 1


async def test_what_is_not_there_is_not_pinned(world: World) -> None:
    for one in (uuid4(), BANK):
        with pytest.raises(NotFound):
            await units(world).pin(HOST, "default", one, pinned=True)
