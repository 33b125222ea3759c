"""What is said once is answered once, and what the asker has before it not at all."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid5

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from store.memory.turns import NewMessage
from store.recall.deduplication import DistinctUnit, RecentMessages, deduplicate_ranking
from store.recall.dense import compute_products
from store.recall.fusion import Ranking
from store.recall.pool import Candidate, CandidatePool
from tests.store.conftest import NOON
from tests.store.recall.conftest import BANK, Memory

SPACE = UUID(int=3)
ANA, BEN = UUID(int=4), UUID(int=5)


def unit(number: int, text: str = "we talk", **more: Any) -> Candidate:
    known: dict[str, Any] = {
        "unit_id": UUID(int=number),
        "kind": "experience",
        "text": text,
        "whole": True,
        "session_id": uuid5(SPACE, more.get("session_name", "s")),
        "session_name": "s",
        "turn_name": f"t{number}",
        "seq": number,
        "role": "user",
        "name": None,
        "occurred_at": NOON + timedelta(minutes=number),
        "sources": (),
        "user_id": ANA,
    }
    return Candidate(**{**known, **more})


def fold(*units: Candidate, recent: RecentMessages | None = None) -> list[DistinctUnit]:
    nothing = np.zeros((len(units), 4), dtype=np.float32)
    pool = CandidatePool(units, compute_products(np.zeros(4, dtype=np.float32), nothing, nothing, nothing))
    scores = np.zeros(len(units))
    return list(deduplicate_ranking(Ranking(range(len(units)), scores, scores, {}, {}), pool, recent))


def test_facts_fold_into_their_source_where_it_stands() -> None:
    source, fact = unit(1), unit(2, "fact", kind="world", sources=(UUID(int=1),))
    orphan = unit(3, "orphan", kind="world", sources=(UUID(int=77),))
    assert [one.index for one in fold(fact, orphan, source)] == [1, 2]


def test_a_text_said_again_is_one_result_at_the_best_place_and_names_every_turn_the_latest_first() -> None:
    said = fold(unit(2, "I like tea"), unit(9, "no"), unit(1, " I like tea"), unit(5, "I like tea\n"))
    assert said == [DistinctUnit(0, ("t2", "t5", "t1"), NOON), DistinctUnit(1, ("t9",), NOON)]
    assert said[0].said_last == NOON + timedelta(minutes=5)


def test_the_same_words_of_somebody_else_or_of_another_kind_are_something_else() -> None:
    several = (
        unit(1),
        unit(2, user_id=BEN),
        unit(3, role="assistant"),
        unit(4, name="Ana"),
        unit(5, kind="world"),
        unit(6, whole=False),
        unit(7, whole=False),
    )
    assert [one.index for one in fold(*several)] == list(range(7))


def test_what_the_asker_has_before_it_is_not_told_again_in_whatever_turn_it_stands() -> None:
    recent = RecentMessages(uuid5(SPACE, "s"), 8)
    fact = unit(20, "fact", kind="world", seq=None, sources=(UUID(int=9),))
    elsewhere = unit(30, "nine", session_name="other")
    kept, again = unit(7, "seven"), unit(9, "nine")
    assert [one.index for one in fold(elsewhere, fact, kept, unit(8, "eight"), again, recent=recent)] == [2]


texts = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


@given(texts, st.integers(0, 12))
def test_folding_keeps_the_order_loses_no_turn_and_repeats_none(said: list[str], recent: int) -> None:
    units = [unit(n, one) for n, one in enumerate(said)]
    whole = fold(*units)
    assert [one.index for one in whole] == sorted(one.index for one in whole)
    assert sorted(turn for one in whole for turn in one.turns) == sorted(f"t{n}" for n in range(len(said)))
    assert len({said[one.index] for one in whole}) == len(whole)
    left = fold(*units, recent=RecentMessages(uuid5(SPACE, "s"), recent))
    assert left == [one for one in whole if said[one.index] not in said[recent:]]


async def test_what_was_said_in_several_sessions_comes_back_once_with_all_its_turns(memory: Memory) -> None:
    for session, days in (("s1", 0), ("s2", 2), ("s3", 1)):
        await memory.say("I like tea.", session=session, occurred_at=NOON + timedelta(days=days))
    await memory.say("I like tea.", session="s4", user_id="ben")
    found = (await memory.ask("Who likes tea?")).items
    assert [one.text for one in found] == ["I like tea."] * 2
    assert {len(one.turn_names) for one in found} == {1, 3}
    assert all(one.turn_names[0] == one.turn_name for one in found)


async def test_the_newest_messages_of_the_own_session_are_not_told_again(memory: Memory) -> None:
    await memory.say("I like tea.", "I like green tea.", "I like black tea.", session="mine")
    await memory.say("She likes tea.", session="other")
    assert set(await memory.texts("Who likes tea?", session_name="mine", skip_recent=2)) == {
        "I like tea.",
        "She likes tea.",
    }
    assert len(await memory.texts("Who likes tea?", session_name="mine")) == 4
    assert len(await memory.texts("Who likes tea?", session_name="new", skip_recent=2)) == 4
    assert await memory.texts("Who likes tea?", session_name="mine", skip_recent=64) == ["She likes tea."]


async def test_a_fact_says_how_sure_it_is_and_what_was_said_does_not(memory: Memory) -> None:
    said = NewMessage("user", "I like tea.")
    await memory.say(said, metadata={"confidence": "0.1"})
    await memory.sql(
        "update afterturn.agent_memory_unit_t set origin = 'extraction', fact_type = 'world', "
        'metadata = \'{"confidence": "0.78"}\' where bank_id = :bank and content = :text',
        bank=memory.bank,
        text=said.content,
    )
    await memory.say("She likes tea.", metadata={"confidence": "0.1"})
    found = {one.text: one.confidence for one in (await memory.ask("Who likes tea?", bank=BANK)).items}
    assert found == {"I like tea.": 0.78, "She likes tea.": None}
