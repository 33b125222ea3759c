"""A bank's language changes: its words follow, recall finds them all the while, and the counts stay exact."""

import asyncio
from uuid import uuid4

import pytest

from store.derived import bank_state
from store.errors import NotFound, TurnBusy
from store.memory.units import Units
from store.replay import verify_log
from store.tenancy.banks import Banks
from store.text.word_rules import AUTO
from tests.store.derived_rows import read_contents
from tests.workers.conftest import BANK, HOST, dialogue, now
from tests.workers.maintenance.conftest import Yard
from tests.workers.stages import Crew

SAID = (
    "Wir fuhren mit den Z\u00fcgen nach Porto.",
    "Die H\u00e4user stehen am Wald.",
    "My sister is called Anna.",
    "Rain again.",
)


async def told(yard: Yard) -> Crew:
    for nth, words in enumerate(SAID):
        await yard.world.append("s", f"t{nth}", messages=dialogue(words, "Gut."))
    crew = Crew(yard.world)
    await crew.drain()
    return crew


def banks(yard: Yard) -> Banks:
    return Banks(yard.world.database, now)


async def terms(yard: Yard) -> set[str]:
    return {row.term for row in await yard.world.sql("select term from afterturn.posting_t")}


async def test_the_words_of_a_bank_follow_its_language_and_are_counted_as_if_from_nothing(yard: Yard) -> None:
    await told(yard)
    assert {"fuhren", "wald"} <= await terms(yard)
    bank = await banks(yard).set_language(HOST, "default", "de")
    assert (bank.language, bank.settled) == ("de", False)
    assert await yard.by_hand("words") > 0
    assert {"fuhr", "zug", "haus"} <= await terms(yard)
    assert {"fuhren", "zugen", "hauser"}.isdisjoint(await terms(yard))
    bank = await banks(yard).get(HOST, "default")
    assert (bank.language, bank.settled) == ("de", True)
    facts = await yard.world.sql("select value from afterturn.fact_t")
    assert [row.value for row in facts] == ["anna"]
    async with yard.world.database.tenant(HOST) as connection:
        counted = await read_contents(connection, HOST, BANK)
        await bank_state.rebuild_bank(connection, HOST, BANK)
        assert await read_contents(connection, HOST, BANK) == counted
    report = await verify_log(yard.world.postgres.owner_url)
    assert report.equal
    assert all(one.equal for one in report.derived)


async def test_back_to_the_usual_way_leaves_what_was_there_before(yard: Yard) -> None:
    await told(yard)
    before = await terms(yard)
    for language in ("de", AUTO):
        await banks(yard).set_language(HOST, "default", language)
        await yard.by_hand("words")
    assert await terms(yard) == before
    assert await yard.world.sql("select 1 from afterturn.bank_language_t") == []
    assert (await banks(yard).get(HOST, "default")).settled


async def test_words_that_come_after_the_change_are_cut_by_it_at_once(yard: Yard) -> None:
    crew = await told(yard)
    await banks(yard).set_language(HOST, "default", "de")
    new = await yard.world.sql("select unit_id from afterturn.agent_memory_unit_t where content = :said", said=SAID[3])
    await Units(yard.world.database, now).correct(HOST, "default", new[0].unit_id, "Die Katzen schliefen.")
    await crew.drain()
    assert {"katz", "schlief"} <= await terms(yard)


async def test_one_change_follows_another_only_when_the_words_have_followed(yard: Yard) -> None:
    await told(yard)
    await banks(yard).set_language(HOST, "default", "de")
    again = await banks(yard).set_language(HOST, "default", "de")
    assert not again.settled
    with pytest.raises(TurnBusy):
        await banks(yard).set_language(HOST, "default", "fr")
    await yard.by_hand("words")
    assert (await banks(yard).set_language(HOST, "default", "fr")).language == "fr"
    events = await yard.world.sql(
        "select data->'disposition'->>'language' as told from afterturn.event_store_t"
        " where event_type = 'AgentMemoryBankUpdatedEvent' order by position"
    )
    assert [row.told for row in events] == ["de", "fr"]


async def test_a_unit_that_is_corrected_or_forgotten_meanwhile_has_no_words_twice(yard: Yard) -> None:
    crew = await told(yard)
    units = Units(yard.world.database, now)
    found = await yard.world.sql(
        "select unit_id from afterturn.agent_memory_unit_t where origin = 'message' order by seq"
    )
    await banks(yard).set_language(HOST, "default", "de")
    await asyncio.gather(
        yard.by_hand("words"),
        units.correct(HOST, "default", found[0].unit_id, "Die Katzen schliefen."),
        units.forget(HOST, "default", found[2].unit_id),
    )
    await crew.drain()
    report = await verify_log(yard.world.postgres.owner_url)
    assert report.equal
    assert all(one.equal for one in report.derived)
    async with yard.world.database.tenant(HOST) as connection:
        counted = await read_contents(connection, HOST, BANK)
        await bank_state.rebuild_bank(connection, HOST, BANK)
        assert await read_contents(connection, HOST, BANK) == counted


async def test_a_bank_that_is_not_there_has_no_language(yard: Yard) -> None:
    with pytest.raises(NotFound):
        await banks(yard).set_language(HOST, f"none-{uuid4()}", "de")
