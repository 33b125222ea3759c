"""What one turn may bring about is bounded: rows and events grow with its text, never with the square of it."""

import string
from itertools import product

import pytest

from store.derived import reflections
from store.derived.entity_profiles import COMPARED, EntityName, resolve_aliases
from store.derived.projection import PAIRED
from store.identity import entity_id
from store.ledger.stages import Stage
from store.memory.turns import NewMessage
from store.replay import verify_log
from store.text.rules import MessageText, TurnText, extract, extract_turn
from store.text.rules.extract import (
    CHARACTERS_A_MENTION,
    FREE_MENTIONS,
    MAX_FACTS_OF_TURN,
    MAX_MENTIONS,
    MAX_MENTIONS_OF_TURN,
)
from store.text.terms import MOST_TERMS, analyse_text
from tests.workers.conftest import BANK, World, dialogue
from tests.workers.stages import Crew

#: Names that no list knows: "Qaaax", "Qaabx" and so on.
NAMES = [f"Q{''.join(letters)}x" for letters in product(string.ascii_lowercase, repeat=3)]


def naming(names: list[str]) -> str:
    return " ".join(f"I met {name}." for name in names)


async def test_a_turn_full_of_names_makes_a_bounded_number_of_pairs(world: World) -> None:
    """As was seen: a turn of 107 KiB became two million rows."""
    messages = [NewMessage("user", naming(NAMES[n * 100 : n * 100 + 100])) for n in range(4)]
    await world.append("s", "t", messages=messages)
    crew = Crew(world)
    await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    [row] = await world.sql(
        """select (select count(*) from afterturn.agent_memory_unit_entity_t) as mentions,
                  (select count(*) from afterturn.agent_memory_entity_cooccur_t) as pairs"""
    )
    assert row.mentions == 400
    assert row.pairs == 4 * PAIRED * (PAIRED - 1) // 2
    report = await verify_log(world.postgres.owner_url)
    assert [one.name for one in report.derived if not one.equal] == []
    assert [table.table for table in report.tables if not table.equal] == []


async def test_the_entities_that_a_unit_names_first_make_its_pairs(world: World) -> None:
    names = NAMES[: PAIRED + 3]
    await world.append("s", "t", messages=[NewMessage("user", naming(names), name="Ines")])
    await Crew(world).drain(Stage.EXTRACTION, Stage.PROJECTION)
    rows = await world.sql(
        """select distinct e.canonical_name as name from afterturn.agent_memory_entity_cooccur_t c
             join afterturn.agent_memory_entity_t e on e.entity_id in (c.entity_id_1, c.entity_id_2)"""
    )
    assert {row.name for row in rows} == {"Ines", *names[: PAIRED - 1]}


def test_a_turn_gives_a_bounded_number_of_mentions_and_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    most = MAX_MENTIONS_OF_TURN // 4
    monkeypatch.setattr(extract, "MAX_MENTIONS_OF_TURN", most)
    said = naming(NAMES[:300]) + " I like tea. I love hiking. My sister is Ana. I am allergic to nuts, eggs."
    facts = " ".join(f"I am allergic to {name}." for name in NAMES[:30])
    found = extract_turn(TurnText(tuple(MessageText("user", f"{facts} {said}") for _ in range(40))))
    assert len(found.mentions) == most < 40 * MAX_MENTIONS
    assert len(found.facts) == MAX_FACTS_OF_TURN
    assert {one.normalised for one in found.entities} == {one.entity for one in found.mentions if one.entity}


def test_mentions_grow_with_the_text_of_a_turn() -> None:
    """As was seen: 24 KiB of names became 13 MiB on disk."""
    lists = [f"I met {', '.join(NAMES[n * 60 : n * 60 + 60])}." for n in range(56)]
    found = extract_turn(TurnText(tuple(MessageText("user", said) for said in lists)))
    assert len(found.mentions) == FREE_MENTIONS + sum(map(len, lists)) // CHARACTERS_A_MENTION
    few = extract_turn(TurnText(tuple(MessageText("user", said) for said in lists[:8])))
    assert len(few.mentions) == 8 * 60, "a turn of some length keeps all of its names"


def test_a_text_is_looked_up_by_the_first_of_its_words() -> None:
    words = ["".join(letters) for letters in product("bcdfghjklmnpqrstvwxz", repeat=4)][: MOST_TERMS + 1000]
    terms = analyse_text(" ".join(words)).counts
    assert terms.keys() == analyse_text(" ".join(words[:MOST_TERMS])).counts.keys()
    assert len(terms) == MOST_TERMS


def test_of_a_stem_that_too_many_entities_share_none_is_an_alias() -> None:
    def profiles(count: int) -> list[EntityName]:
        names = ["anna", "anna lima", *(f"anna {n}" for n in range(count - 2))]
        return [
            EntityName(entity_id(BANK, name), name, "person" if n < 2 else "place", name, 1)
            for n, name in enumerate(names)
        ]

    alone, full = entity_id(BANK, "anna"), entity_id(BANK, "anna lima")
    assert resolve_aliases(profiles(COMPARED))[alone] == full
    assert resolve_aliases(profiles(COMPARED + 1))[alone] == alone


async def test_a_reflection_is_drawn_from_the_last_statements_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflections, "STATED", 3)
    crew = Crew(world)
    for n in range(6):
        await world.append("s", f"t{n}", messages=dialogue("I prefer window seats.", "Noted."))
        await crew.drain(Stage.EXTRACTION, Stage.PROJECTION)
    rows = await world.sql(
        """select jsonb_array_length(data->'sourceMemoryIds') as sources
             from afterturn.event_store_t where event_type like 'AgentMemoryReflection%' order by position"""
    )
    assert [row.sources for row in rows][:2] == [2, 3]
    assert max(row.sources for row in rows) == 3
    [told] = await world.sql("select content from afterturn.agent_memory_reflection_t where active")
    assert "stated in 3 turns" in told.content
