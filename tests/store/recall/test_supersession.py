"""The newest value comes first, and the one that it takes the place of is marked."""

from datetime import timedelta
from typing import Any

from store.memory.turns import NewMessage
from store.memory.units import Units
from store.recall.query import Recalled
from store.recall.supersession import NEWER
from tests.store.conftest import NOON
from tests.store.recall.conftest import BANK, Memory

OLD, NEW = "The standup is at 9:30 in the morning.", "The standup is at 10:15 in the morning."


async def tell(memory: Memory, *texts: str, user: str | None = None) -> None:
    """Say each text a day after the one before it."""
    for day, one in enumerate(texts):
        said = NewMessage("user", one, occurred_at=NOON - timedelta(days=9 - day))
        await memory.say(said, session=f"day-{day}-{user}", user_id=user)


async def ask(memory: Memory, question: str = "When is the standup?", **more: Any) -> list[Recalled]:
    return list((await memory.ask(question, **more)).items)


def shown(items: list[Recalled]) -> list[tuple[str, bool]]:
    return [(item.text, item.former) for item in items]


async def test_the_newer_statement_stands_before_the_older_which_is_marked(memory: Memory) -> None:
    await tell(memory, OLD, "I water the plants on Monday.", NEW)
    found = await ask(memory, "At 9:30, when is the standup?", k=2)
    assert shown(found) == [(NEW, False), (OLD, True)]
    assert found[0].score > found[1].score


async def test_without_it_the_older_one_stands_first(memory: Memory) -> None:
    """So the test before this one can fail."""
    await tell(memory, OLD, NEW)
    assert shown(await ask(memory, "At 9:30, when is the standup?", without=[NEWER])) == [(OLD, False), (NEW, False)]


async def test_an_answer_of_one_is_the_newer_statement(memory: Memory) -> None:
    await tell(memory, OLD, NEW)
    assert shown(await ask(memory, "At 9:30, when is the standup?", k=1)) == [(NEW, False)]


async def test_an_answer_of_an_open_size_holds_the_newer_statement_too(memory: Memory) -> None:
    await tell(memory, OLD, NEW)
    found = list((await memory.ask("At 9:30, when is the standup?", max_tokens=500, helpful=True)).items)
    assert shown(found) == [(NEW, False), (OLD, True)]


async def test_what_each_part_gave_sums_up_to_the_score(memory: Memory) -> None:
    await tell(memory, OLD, NEW)
    newer, _ = await ask(memory, "At 9:30, when is the standup?", explain=True)
    assert newer.explain is not None
    assert newer.explain.moved[NEWER] > 0
    parts = sum(one.score * one.weight for one in newer.explain.arms.values())
    assert abs(parts + sum(newer.explain.moved.values()) - newer.score) < 1e-9


async def test_three_values_stand_in_the_order_of_time(memory: Memory) -> None:
    last = "The standup is at 11:00 in the morning."
    await tell(memory, OLD, NEW, last)
    assert shown(await ask(memory, "At 9:30, when is the standup?")) == [(last, False), (NEW, True), (OLD, True)]


async def test_what_is_said_again_later_holds_again(memory: Memory) -> None:
    await tell(memory, OLD, NEW, OLD)
    assert shown(await ask(memory)) == [(OLD, False), (NEW, True)]


async def test_what_a_message_says_beside_what_changed_is_not_former(memory: Memory) -> None:
    told = "I live in Graz and I have two cats, Pixel and Byte."
    await tell(memory, told, "I moved to Vienna last week.")
    assert (await ask(memory, "What are my cats called?"))[0].text == told
    assert (told, False) in shown(await ask(memory, "What are my cats called?"))
    assert (told, True) in shown(await ask(memory, "Where do I live?"))
    assert (await ask(memory, "Where do I live?"))[0].text == "I moved to Vienna last week."


async def test_another_speaker_and_another_user_change_nobodys_statement(memory: Memory) -> None:
    await tell(memory, "I live in Ghent.", user="ann")
    await tell(memory, "I live in Porto.", "I like tea.", user="bob")
    said = NewMessage("user", "I live in Riga.", occurred_at=NOON, name="Olga")
    await memory.say(said, session="olga", user_id="ann")
    found = await ask(memory, "Where do I live?")
    told = {f"I live in {one}." for one in ("Ghent", "Porto", "Riga")}
    assert told <= {item.text for item in found}
    assert [item.text for item in found if item.former] == []


async def test_a_question_as_of_before_the_change_knows_nothing_of_it(memory: Memory) -> None:
    await tell(memory, OLD, NEW)
    before = NOON - timedelta(days=8, hours=12)
    assert shown(await ask(memory, as_of=before)) == [(OLD, False)]


async def test_a_pinned_statement_is_never_former(memory: Memory) -> None:
    await tell(memory, OLD, NEW)
    [pinned] = [item for item in await ask(memory) if item.text == OLD]
    await Units(memory.database, lambda: NOON).pin(memory.host, BANK, pinned.unit_id, pinned=True)
    assert shown(await ask(memory)) == [(OLD, False), (NEW, False)]


FORMERLY, SINCE = "Peter writes my training plans.", "Bojana writes my new training plans."


async def test_of_two_that_are_alike_the_newer_goes_first_where_no_rule_sees_a_change(memory: Memory) -> None:
    await tell(memory, FORMERLY, "I water the plants on Monday.", SINCE)
    question = "Who writes my training plans?"
    assert shown(await ask(memory, question, without=[NEWER]))[0] == (FORMERLY, False)
    assert shown(await ask(memory, question))[:2] == [(SINCE, False), (FORMERLY, False)]


async def test_of_two_of_other_users_or_on_another_subject_the_better_one_goes_first(memory: Memory) -> None:
    await tell(memory, FORMERLY, user="ann")
    await tell(memory, "I water the plants on Monday.", SINCE, user="bob")
    assert shown(await ask(memory, "Who writes my training plans?"))[0] == (FORMERLY, False)


async def test_a_value_without_a_subject_ends_what_its_speaker_told_just_before(memory: Memory) -> None:
    for hour, text in enumerate(["Dinner is at 7.", "Noted.", "8 it is.", "The demo is at 9.", "Thanks.", "A tea."]):
        role = "assistant" if text == "Noted." else "user"
        await memory.say(NewMessage(role, text, occurred_at=NOON - timedelta(hours=9 - hour)), session="plans")
    await memory.say(NewMessage("user", "Make it 10 instead.", occurred_at=NOON), session="plans")
    dinner = shown(await ask(memory, "When is dinner at 7?", k=5))
    demo = shown(await ask(memory, "When is the demo?", k=5))
    assert ("Dinner is at 7.", True) in dinner
    assert ("8 it is.", False) in dinner
    assert ("The demo is at 9.", False) in demo
