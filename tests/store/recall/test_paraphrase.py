"""What was just written is found by other words than its own, as well as when everything has settled (law L4)."""

import pytest

from store import identity
from store.derived import locks, projection
from store.recall.query import RecallAnswer
from store.recall.settings import RecallSettings
from tests.store.recall.conftest import BANK, Memory

#: What a bank holds before, with many of the words that are near the questions'.
BEFORE = (
    "Our dog sleeps on the sofa all afternoon.",
    "The doctor says my cholesterol is a little high.",
    "I read the manual of the new router twice.",
    "We drove the car to the coast and had fish for lunch.",
    "The bank sent new cards, the old ones are cut up.",
    "My sister plays cello in an orchestra in Porto.",
    "Tickets for the opera cost more each year.",
    "The kitchen was painted light green in autumn.",
    "I bought new boots for the walk along the ridge.",
    "There was soup, bread and a lot of cheese.",
)
WRITTEN = {
    "I twisted my knee getting out of the taxi.": "leg injury on a journey",
    "We took in a kitten from the refuge.": "rescued feline",
    "The dishwasher leaked all over the floor.": "kitchen appliance, water damage",
    "My daughter passed her bar exam.": "child qualified as a lawyer",
    "I lost my keys in the park.": "misplaced something outdoors",
    "My landlord wants more rent.": "housing costs are rising",
    "I am afraid of heights.": "phobia",
    "I gave up coffee.": "abstaining from caffeine",
}


async def _settle(memory: Memory) -> None:
    await memory.embed_all()
    bank = identity.bank_id(memory.host, BANK)
    async with memory.database.tenant(memory.host) as connection:
        await locks.lock_bank(connection, bank)
        await projection.index_words(connection, memory.host, bank)


def _place(answer: RecallAnswer, text: str) -> int:
    return [item.text for item in answer.items].index(text)


async def test_what_was_just_written_is_found_by_its_meaning_as_well_as_when_settled(memory: Memory) -> None:
    memory.settings = RecallSettings(fresh_tail_ms=1000.0)
    await memory.say(*BEFORE, session="before")
    await _settle(memory)
    await memory.say(*WRITTEN, session="now")
    fresh = [_place(await memory.ask(ask, session_name="now"), text) for text, ask in WRITTEN.items()]
    await _settle(memory)
    settled = [_place(await memory.ask(ask, session_name="now"), text) for text, ask in WRITTEN.items()]
    assert fresh == settled
    assert max(fresh) < 5


@pytest.mark.parametrize("text", WRITTEN)
async def test_a_single_new_message_is_found_beside_an_older_bank(memory: Memory, text: str) -> None:
    await memory.say(*BEFORE, session="before")
    await _settle(memory)
    await memory.say(text, session="now")
    assert _place(await memory.ask(WRITTEN[text], session_name="now"), text) < 5
