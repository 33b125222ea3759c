"""What was just said is likelier asked about: for a few minutes, a few messages, bounded."""

from datetime import timedelta
from typing import Any

from afterturn_client.contract.recall import Explanation
from hypothesis import given
from hypothesis import strategies as st

from store.memory.turns import NewMessage
from store.recall.recaller import Recaller
from store.recall.recent_arm import MESSAGES, SOON, score_newness
from tests.store.conftest import NOON
from tests.store.recall.conftest import Memory


def _at_noon(memory: Memory) -> Memory:
    memory.recaller = Recaller(memory.database, memory.embedder, memory.settings, clock=lambda: NOON)
    return memory


async def _recent(memory: Memory, **more: Any) -> dict[str, float]:
    """Return the score of everything the arm found."""
    answer = await memory.ask("What did I just say about the pond?", explain=True, k=100, **more)
    scores = {}
    for item in answer.items:
        assert isinstance(item.explain, Explanation)
        if score := item.explain.arms["recent"].score:
            scores[item.text] = score
    return scores


async def test_the_newest_messages_of_people_count_the_newer_the_more(memory: Memory) -> None:
    _at_noon(memory)
    for number in range(MESSAGES + 3):
        await memory.say(f"Number {number}", session=f"s{number}", occurred_at=NOON - timedelta(seconds=60 - number))
    await memory.say(NewMessage("assistant", "I see."), occurred_at=NOON)
    found = await _recent(memory)
    newest = [f"Number {number}" for number in range(MESSAGES + 2, 3, -1)]
    assert sorted(found, key=lambda text: -found[text]) == newest


async def test_old_talk_that_is_written_now_is_not_recent(memory: Memory) -> None:
    _at_noon(memory)
    await memory.say("The pond froze", occurred_at=NOON - timedelta(days=400))
    await memory.say("The heron left", session="s2", occurred_at=NOON - 6 * SOON)
    assert await _recent(memory) == {}


async def test_what_shares_no_word_and_no_meaning_is_compared_while_it_is_new(memory: Memory) -> None:
    _at_noon(memory)
    await memory.say(*(f"The pond has {number} fish" for number in range(95)), session="long ago")
    await memory.sql("update afterturn.agent_memory_unit_t set event_date = :then", then=NOON - timedelta(days=9))
    await memory.embed_all()
    await memory.say("Entropy", session="now", occurred_at=NOON)
    await memory.embed_all()
    assert list(await _recent(memory)) == ["Entropy"]


async def test_filters_hold_for_what_is_new(memory: Memory) -> None:
    _at_noon(memory)
    await memory.say("Said here", session="here", occurred_at=NOON)
    await memory.say("Said there", session="there", occurred_at=NOON)
    assert list(await _recent(memory, session_name="here", only_session=True)) == ["Said here"]
    assert list(await _recent(memory, session_name="here", exclude_session=True)) == ["Said there"]


@given(st.integers(0, 20), st.timedeltas(-SOON, timedelta(days=1)))
def test_newness_lies_between_nothing_and_one_and_only_falls(nth: int, age: timedelta) -> None:
    assert 0 <= score_newness(nth + 1, age) <= score_newness(nth, age) <= 1
    assert score_newness(nth, age + SOON) <= score_newness(nth, age)
