"""A fact and its opposite contradict each other: the newer holds, before a worker ran and after it."""

from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from uuid import uuid4

import pytest

from store.derived.persons import PersonKey, Persons
from store.memory.session_history import SessionHistory, WantedFacts
from store.memory.turns import Appended, NewMessage, NewTurn
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.replay import verify_log
from store.tenancy.spaces import Space
from tests.workers.conftest import HOST, World
from tests.workers.stages import Crew, KnownEmbedder

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
#: What is said in turn, and the facts that hold afterwards, by kind and value.
SAID = {
    "likes, dislikes": (["I like jazz.", "I do not like jazz."], ["user_dislike jazz"]),
    "dislikes, likes": (["I hate rain.", "I like rain."], ["user_like rain"]),
    "to and fro": (["I like jazz.", "I hate jazz.", "I like jazz."], ["user_like jazz"]),
    "another value": (["I like jazz.", "I hate rain."], ["user_dislike rain", "user_like jazz"]),
    "the liking denied later": (["I hate jazz.", "I no longer like jazz."], ["user_dislike jazz"]),
    "the dislike denied": (["I like jazz.", "I hate jazz.", "I no longer hate jazz."], []),
    "moved and left": (["I moved to Ghent.", "I left Ghent."], []),
    "married and divorced": (["I am married.", "We got divorced."], ["user_marriage divorced"]),
    "divorced and married": (["I'm divorced.", "I got married."], ["user_marriage married"]),
    "owned and sold": (["I own a boat.", "I sold my boat."], ["user_sold boat"]),
    "sold and owned": (["I sold my boat.", "I own a boat."], ["user_owns boat", "user_sold boat"]),
    "started and stopped": (["I started playing the piano.", "I stopped playing the piano."], []),
    "stopped and started": (["I stopped playing the piano.", "I started playing the piano."], ["user_plays piano"]),
    "employed and left": (["I started working at Nordwind.", "I stopped working at Nordwind."], []),
}


async def held(world: World, case: str) -> list[str]:
    history = SessionHistory(world.database, lambda: NOON)
    found = await history.holding(HOST, case, WantedFacts(50, case), "s")
    return sorted(f"{one.fact_id} {one.value.lower()}" for one in found)


async def known(world: World, case: str) -> list[str]:
    of = Persons(world.database, lambda: NOON).of
    person = await of(HOST, Space(None, None), PersonKey(case), banks=None, history=False, limit=50)
    return sorted(f"{one.fact_id} {one.value.lower()}" for one in person.facts)


async def recalled(world: World, case: str) -> list[str]:
    embedder = KnownEmbedder()
    recaller = Recaller(world.database, embedder, RecallSettings(), clock=lambda: NOON)
    found = await recaller.recall(HOST, RecallQuery(case, "Ann jazz rain boat piano", k=50, kinds=("world",)))
    return sorted(one.text for one in found.items)


async def say(world: World, case: str, n: int, words: str) -> None:
    """Say something in the bank of a case, as its user."""
    at = NOON - timedelta(hours=10 - n)
    turn = NewTurn(case, "s", uuid4().hex, [NewMessage("user", words, occurred_at=at)], user_id=case)
    assert isinstance((await world.turns.append(HOST, [turn]))[0], Appended)


async def see_what_holds(world: World) -> dict[str, tuple[list[str], list[str]]]:
    return {case: (await held(world, case), await known(world, case)) for case in SAID}


@pytest.mark.law("L4")
@pytest.mark.parametrize("workers", ["after each", "after the first", "at the end"])
async def test_the_newer_of_two_opposites_holds(world: World, workers: str) -> None:
    """Each case has a bank and a user of its own; a replay is compared once for all."""
    for n, words in enumerate(zip_longest(*(said for said, _ in SAID.values()))):
        for case, one in zip(SAID, words, strict=True):
            if one is not None:
                await say(world, case, n, one)
        if workers == "after each" or (workers == "after the first" and n == 0):
            await Crew(world).drain()
    expected = {case: (holds, holds) for case, (_, holds) in SAID.items()}
    assert await see_what_holds(world) == expected
    before = {case: await recalled(world, case) for case in SAID}
    await Crew(world).drain()
    assert await see_what_holds(world) == expected
    after = {case: [one for one in await recalled(world, case) if "called" not in one] for case in SAID}
    assert after == before
    assert (await verify_log(world.postgres.owner_url)).equal
