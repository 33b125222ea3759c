"""Words that wait are read once a recall; what happens to them meanwhile loses and doubles nothing."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived import projection
from store.recall.lexical_arm import LexicalArm
from store.recall.pool import CandidatePool
from store.recall.recaller import Recaller
from store.recall.state import ArmResult, RecallState
from tests.store.conftest import rows
from tests.store.recall.conftest import Memory

SAID = (
    "The quokka sleeps beside the fence.",
    "A lighthouse keeper counts ships.",
    "The quokka ate the keeper's lunch.",
    "Ships pass at night.",
)


class Carrier:
    """Stands before the arm that knows words, and carries them while a recall is under way."""

    name = "carrier"
    weight = 0.0
    needs_vector = False

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def find(self, _connection: AsyncConnection, _state: RecallState) -> ArmResult:
        async with self._memory.database.tenant(self._memory.host) as connection:
            await projection.index_words(connection, self._memory.host, self._memory.bank)

        def nothing(pool: CandidatePool) -> NDArray[np.float64]:
            return np.zeros(len(pool))

        return ArmResult([], [], nothing)


@pytest.mark.parametrize("filtered", [False, True])
async def test_words_that_are_carried_while_a_recall_is_under_way_count_once(memory: Memory, *, filtered: bool) -> None:
    await memory.say(*SAID)
    more: dict[str, Any] = {"kinds": ("experience",)} if filtered else {}
    memory.recaller = Recaller(memory.database, memory.embedder, memory.settings, [LexicalArm()])
    waiting = await memory.ask("Which quokka and which keeper?", **more)
    memory.recaller = Recaller(memory.database, memory.embedder, memory.settings, [Carrier(memory), LexicalArm()])
    meanwhile = await memory.ask("Which quokka and which keeper?", **more)
    assert await rows(memory.database, memory.host, "select count(*) from unit_word_t where not posted") == [(0,)]
    assert [(one.text, one.score) for one in meanwhile.items] == [(one.text, one.score) for one in waiting.items]
    assert {one.text for one in waiting.items} >= set(SAID[:3])


async def test_a_word_is_found_however_many_units_wait_beside_it_and_whichever_of_them_is_last(memory: Memory) -> None:
    await memory.say("The quokka sleeps beside the fence.", session="first")
    await memory.say(*(f"Ship number {n} passes at night." for n in range(600)), session="many")
    await memory.say("A wombat ate my lunch.", session="last")
    memory.recaller = Recaller(memory.database, memory.embedder, memory.settings, [LexicalArm()])
    assert (await memory.texts("the quokka"))[0] == "The quokka sleeps beside the fence."
    assert (await memory.texts("the wombat"))[0] == "A wombat ate my lunch."
