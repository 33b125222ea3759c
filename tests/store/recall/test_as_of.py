"""What was known at a moment: a text that was corrected since says what it said then, found by what it said then."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from store.database import Database
from store.erasure import Erasures, ErasureTarget, Kind
from store.memory.units import Units
from store.recall.as_of import CHANGED
from store.recall.ended_units import ENDED
from tests.store.conftest import NOON, new_host, rows
from tests.store.recall.conftest import BANK, Memory
from tests.store.recall.test_plans import generic_plan

OLD, NEW = "The ferry leaves from the Harbour.", "The ferry leaves from the Citadel."
ASKED = "Where does the ferry leave from?"
#: The text was said at noon, and corrected an hour and two hours later.
CORRECTED = NOON + timedelta(hours=1)
AGAIN = NOON + timedelta(hours=2)


async def said(memory: Memory, text: str = OLD) -> UUID:
    await memory.say(text, "I like trains.")
    await memory.sql("update afterturn.ledger_t set status = 'done' where undone")
    statement = "select unit_id from afterturn.agent_memory_unit_t where content = :said"
    [(unit,)] = await rows(memory.database, memory.host, statement, said=text)
    assert isinstance(unit, UUID)
    return unit


async def corrected(memory: Memory, text: str = OLD, new: str = NEW) -> UUID:
    unit = await said(memory, text)
    await Units(memory.database, lambda: CORRECTED).correct(memory.host, BANK, unit, new)
    return unit


async def test_before_its_correction_a_text_says_what_it_said_then(memory: Memory) -> None:
    await corrected(memory)
    assert (await memory.texts(ASKED))[0] == NEW
    assert (await memory.texts(ASKED, known_at=CORRECTED))[0] == NEW
    assert (await memory.texts(ASKED, known_at=NOON))[0] == OLD
    assert NEW not in await memory.texts(ASKED, known_at=NOON)
    assert await memory.texts(ASKED, known_at=NOON - timedelta(hours=1)) == []


async def test_of_many_corrections_the_last_one_before_that_moment_counts(memory: Memory) -> None:
    unit = await corrected(memory)
    await memory.sql("update afterturn.ledger_t set status = 'done' where undone")
    await Units(memory.database, lambda: AGAIN).correct(memory.host, BANK, unit, "The ferry is gone.")
    told = [(await memory.texts(ASKED, known_at=at))[0] for at in (NOON, CORRECTED, AGAIN)]
    assert told == [OLD, NEW, "The ferry is gone."]


async def test_it_is_found_by_the_words_of_then_and_not_by_those_of_later(memory: Memory) -> None:
    unit = await corrected(memory)
    words: dict[str, Any] = {"without": ["dense", "recent", "time"]}
    then = (await memory.ask("Harbour", known_at=NOON, **words)).items[0]
    assert (then.unit_id, then.text, "lexical" in then.arms) == (unit, OLD, True)
    assert not await memory.texts("Citadel", known_at=NOON, **words)
    assert (await memory.texts("Citadel", **words))[0] == NEW


async def test_a_pin_hides_nothing_of_what_was_known_before_it(memory: Memory) -> None:
    unit = await said(memory)
    await Units(memory.database, lambda: CORRECTED).pin(memory.host, BANK, unit, pinned=True)
    assert (await memory.texts(ASKED, known_at=NOON))[0] == OLD


async def test_what_was_erased_is_told_as_of_no_moment(memory: Memory) -> None:
    unit = await corrected(memory)
    erasures = Erasures(memory.database, lambda: AGAIN)
    await erasures.run(memory.host, await erasures.request(memory.host, ErasureTarget(Kind.UNIT, BANK, str(unit))))
    for at in (NOON, CORRECTED, AGAIN):
        assert not {OLD, NEW} & set(await memory.texts(ASKED, known_at=at))


async def test_what_was_changed_since_is_found_by_its_own_index(lonely: Database) -> None:
    assert "unit_changed" in await generic_plan(lonely, await new_host(lonely), CHANGED)


async def test_what_has_ended_since_is_found_by_its_own_index(lonely: Database) -> None:
    assert "unit_expired" in await generic_plan(lonely, await new_host(lonely), ENDED)
