"""What is pinned comes first in every answer: a few, within the filters, and again after a replay."""

from datetime import timedelta
from uuid import UUID

import pytest

from store.database import Database
from store.memory.units import Units
from store.recall.preparation import PREPARE
from store.recall.rules import PINS
from tests.store.conftest import NOON, new_host, rows
from tests.store.recall.conftest import BANK, Memory
from tests.store.recall.test_plans import generic_plan

pytestmark = pytest.mark.untouched

PIN = {"pinned": "true"}
ASKED = "Which instrument does Ann play?"


async def test_what_is_pinned_stands_first_whatever_is_asked(memory: Memory) -> None:
    await memory.say("Call me Robin.", metadata=PIN)
    await memory.say("Ann plays the trumpet.", "The instrument is in the attic.", metadata={"pinned": "no"})
    answer = await memory.ask(ASKED, explain=True)
    assert [one.text for one in answer.items][:2] == ["Call me Robin.", "Ann plays the trumpet."]
    assert "pinned" in answer.items[0].arms
    assert answer.items[0].explain
    assert answer.items[0].explain.arms["pinned"].rank == 1
    assert answer.items[0].explain.moved["pinned"] == 10.0
    assert all("pinned" not in one.arms for one in answer.items[1:])
    left = await memory.ask(ASKED, explain=True, without=["pinned"])
    assert left.items[0].text == "Ann plays the trumpet."


async def test_only_so_many_are_put_first_the_best_of_them(memory: Memory) -> None:
    await memory.say(*(f"Rule {n} of the house" for n in range(6)), "Ann plays the trumpet.", metadata=PIN)
    await memory.say("Ann plays the trumpet well.")
    answer = await memory.ask(ASKED, explain=True)
    raised = [one.text for one in answer.items if one.explain and "pinned" in one.explain.moved]
    assert raised == [one.text for one in answer.items[:PINS]]
    assert raised[0] == "Ann plays the trumpet."


async def test_pins_take_half_of_an_answer_and_of_a_single_unit_nothing(memory: Memory) -> None:
    await memory.say("Call me Robin.", "The house has rules.", metadata=PIN)
    await memory.say("Ann plays the trumpet.", "The instrument is in the attic.")
    for k, pins in ((1, 0), (2, 1), (3, 1), (4, 2)):
        answer = await memory.ask(ASKED, k=k)
        assert [one.pinned for one in answer.items] == [True] * pins + [False] * (k - pins)
        assert answer.items[pins].text == "Ann plays the trumpet."


async def test_pins_keep_to_filters_and_to_their_bank(memory: Memory) -> None:
    await memory.say("Call me Robin.", metadata=PIN, session="s2")
    await memory.say("Ann plays the trumpet.")
    await memory.say("Elsewhere I am Kim.", metadata=PIN, bank="other")
    assert await memory.texts(ASKED) == ["Call me Robin.", "Ann plays the trumpet."]
    for narrowed in (
        {"session_name": "s1", "only_session": True},
        {"metadata": {"a": "b"}},
        {"kinds": ["world"]},
        {"as_of": NOON - timedelta(days=1)},
    ):
        assert "Call me Robin." not in await memory.texts(ASKED, **narrowed)
    stranger = Memory(memory.database, await new_host(memory.database), memory.embedder)
    await stranger.say("Ann plays the trumpet.")
    assert await stranger.texts(ASKED) == ["Ann plays the trumpet."]


async def test_what_is_forgotten_is_pinned_no_more_and_what_is_corrected_is(memory: Memory) -> None:
    await memory.say("Call me Robin.", "Call me Kim.", metadata=PIN)
    found = await rows(memory.database, memory.host, "select unit_id from afterturn.agent_memory_unit_t order by seq")
    units = Units(memory.database, lambda: NOON)
    await units.forget(memory.host, BANK, found[0][0])
    await memory.sql("update afterturn.ledger_t set status = 'done'")
    await units.correct(memory.host, BANK, found[1][0], "Call me Alex.")
    assert await memory.texts("What is the weather?") == ["Call me Alex."]


async def test_pins_are_found_by_their_own_index(lonely: Database) -> None:
    host: UUID = await new_host(lonely)
    plan = await generic_plan(lonely, host, PREPARE)
    assert "unit_pinned" in plan
