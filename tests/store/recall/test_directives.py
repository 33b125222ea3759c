"""What a bank's keepers have laid down comes with every answer: the most important first, and only so much of it."""

from datetime import timedelta
from typing import Any

import pytest

from store.memory.directives import Curation, NewDirective
from store.recall.settings import RecallSettings
from tests.store.conftest import NOON, new_host
from tests.store.recall.conftest import BANK, Memory


async def lay_down(memory: Memory, *named: tuple[str, str, int], bank: str = BANK) -> Curation:
    curation = Curation(memory.database, lambda: NOON)
    for name, content, priority in named:
        await curation.lay_down(memory.host, bank, NewDirective(name, content, priority))
    return curation


async def names(memory: Memory, **more: Any) -> list[str]:
    return [one.name for one in (await memory.ask("What about the trip?", **more)).directives]


async def test_the_most_important_come_first_and_withdrawn_ones_no_more(memory: Memory) -> None:
    await memory.say("The trip is on Friday.")
    curation = await lay_down(memory, ("tone", "Be brief.", 1), ("language", "German.", 5), ("units", "Metric.", 3))
    assert await names(memory) == ["language", "units", "tone"]
    gone = (await curation.directives(memory.host, BANK, 1)).rows[0]
    await curation.withdraw(memory.host, BANK, gone.directive_id)
    assert await names(memory) == ["units", "tone"]


async def test_they_are_of_one_bank_and_one_tenant(memory: Memory) -> None:
    await memory.say("The trip is on Friday.")
    await memory.say("Elsewhere.", bank="other")
    await lay_down(memory, ("tone", "Be brief.", 1), bank="other")
    assert await names(memory) == []
    stranger = Memory(memory.database, await new_host(memory.database), memory.embedder)
    await stranger.say("Elsewhere.", bank="other")
    assert await names(stranger, bank="other") == []


async def test_only_so_many_come_and_none_where_they_are_left_out(memory: Memory) -> None:
    await memory.say("The trip is on Friday.")
    await lay_down(memory, *((f"rule {n}", "Be brief.", n) for n in range(4)))
    memory.settings = RecallSettings(directives=2)
    assert await names(memory) == ["rule 3", "rule 2"]
    assert await names(memory, without=["directives"]) == []


async def test_they_take_a_share_of_the_budget_and_the_rest_is_for_what_is_found(memory: Memory) -> None:
    await memory.say("The trip is on Friday, " + "and on and on, " * 5, "Never mind.")
    await lay_down(memory, ("long", "very " * 80, 9), ("tone", "Be brief.", 1))
    answer = await memory.ask("What about the trip?", max_tokens=240)
    # A quarter of the tokens: the long one has no room, the short one behind it has.
    assert [one.name for one in answer.directives] == ["tone"]
    assert [one.text for one in answer.items] == ["The trip is on Friday, " + "and on and on, " * 5, "Never mind."]
    assert sum(one.tokens or 0 for one in answer.items) < answer.tokens <= 240
    assert len((await memory.ask("What about the trip?", max_tokens=answer.tokens - 1)).items) == 1


@pytest.mark.parametrize("days", [-1, 0])
async def test_of_what_was_known_then_nothing_laid_down_later_is_told(memory: Memory, days: int) -> None:
    await memory.say("The trip is on Friday.", occurred_at=NOON - timedelta(days=9))
    await lay_down(memory, ("tone", "Be brief.", 1))
    assert await names(memory, known_at=NOON + timedelta(days=days)) == ["tone"][: days + 1]
