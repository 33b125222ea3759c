"""What a user told an agent is found among the long output of tools, and so is what only such an output tells."""

from collections.abc import Sequence
from itertools import islice

from deploy.lab.bench.quality.material import Dialogue
from deploy.lab.bench.quality.tool_output import CATEGORY, FILE, read_tool_outputs
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from tests.store.conftest import NOON
from tests.store.recall.conftest import Memory

#: Conversations that are asked, and shares of their questions whose answer must stand among the first five.
TALKS, TOLD, PUT_OUT = 3, 0.85, 1.0


async def _measure_first_five(memory: Memory, talks: Sequence[Dialogue], *, output: bool, without: str = "") -> float:
    found = [
        any(one.text in texts for one in talk.said if one.id in asked.evidence)
        for talk in talks
        for asked in talk.asked
        if (asked.category == CATEGORY) is output
        for texts in [await memory.texts(asked.text, bank=talk.name, k=5, without=[without])]
    ]
    return sum(found) / len(found)


async def test_what_was_told_is_not_crowded_out_by_what_tools_put_out(memory: Memory) -> None:
    talks = list(islice(read_tool_outputs(FILE), TALKS))
    for talk in talks:
        turns = [NewTurn(talk.name, one.session, one.id, [NewMessage(one.role, one.text)]) for one in talk.said]
        for answer in await TurnStore(memory.database, lambda: NOON).append(memory.host, turns):
            assert isinstance(answer, Appended), answer
        await memory.embed_all(talk.name)
    told = await _measure_first_five(memory, talks, output=False)
    assert told >= TOLD
    assert await _measure_first_five(memory, talks, output=True) >= PUT_OUT
    assert await _measure_first_five(memory, talks, output=False, without="tool output") <= told - 0.1
