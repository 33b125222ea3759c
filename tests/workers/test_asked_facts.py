"""A question for a fact about oneself finds the message that states it, before a worker ran and after it."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from store.identity import user_id
from store.memory.turns import Appended, NewMessage, NewTurn
from store.recall.asked_facts import AskedFacts, find_asked_facts
from store.recall.fact_arm import NAME
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from tests.tables import each_row
from tests.workers.conftest import HOST, World
from tests.workers.stages import Crew, KnownEmbedder

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
ASKED = {
    "What's my name?": ("user_name",),
    "What is the user's name": ("user_name",),
    "Who am I?": ("user_name",),
    "Wie hei\u00dfe ich?": ("user_name",),
    "Where do I live now?": ("user_home", "user_origin"),
    "where does the user live": ("user_home", "user_origin"),
    "Which city do I live in?": ("user_home", "user_origin"),
    "Where do I work?": ("user_employer", "user_job"),
    "Which hospital do I work at?": ("user_employer", "user_job"),
    "What do I do for a living?": ("user_job", "user_employer"),
    "what is my job": ("user_job", "user_employer"),
    "When is my birthday?": ("user_birthday", "user_age"),
    "How old am I?": ("user_age", "user_birthday"),
    "What am I allergic to?": ("user_allergy",),
    "Is the user vegetarian?": ("user_diet", "user_allergy", "user_condition"),
    "What kind of car do I drive?": ("user_car",),
    "Which laptop do I use?": ("user_laptop",),
    "What phone do I have?": ("user_phone",),
    "Who is my wife?": ("user_wife",),
    "What\u2019s my dog called?": ("user_dog",),
    "What's the name of my sister?": ("user_sister",),
    "What languages do I speak?": ("user_speaks",),
    "What do I like?": ("user_like", "user_preference"),
    "What do I hate?": ("user_dislike",),
}
NOT_ASKED = (
    "",
    "What is my name tag made of?",
    "What did my wife cook?",
    "Where did I put my keys?",
    "Where does Ana work?",
    "How old is Ella?",
    "When did I buy the car?",
    "my " * 5_000,
)


@each_row("question,fact_ids", ASKED.items())
def test_a_question_for_an_own_fact_is_known(question: str, fact_ids: tuple[str, ...]) -> None:
    assert find_asked_facts(question) == AskedFacts(fact_ids)


@each_row("question", NOT_ASKED)
def test_a_question_for_something_else_is_none(question: str) -> None:
    assert find_asked_facts(question) is None


def test_a_favourite_is_asked_for_by_its_key() -> None:
    assert find_asked_facts("What is my favourite colour?") == AskedFacts(("user_favourite",), "colour")


async def say(world: World, hours: int, words: str, user: str = "ann", name: str | None = None) -> None:
    message = NewMessage("user", words, name, occurred_at=NOON - timedelta(hours=hours))
    turn = NewTurn("default", uuid4().hex, uuid4().hex, [message], user_id=user)
    assert isinstance((await world.turns.append(HOST, [turn]))[0], Appended)


async def find_stating(world: World, question: str, user: str | None = "ann", **more: object) -> list[str]:
    """Return the texts that the arm found, the best first."""
    recaller = Recaller(world.database, KnownEmbedder(), RecallSettings(), clock=lambda: NOON)
    asked_by = None if user is None else user_id(HOST, user)
    query = RecallQuery("default", question, k=50, user=asked_by, explain=True, **more)  # type: ignore[arg-type]
    found = (await recaller.recall(HOST, query)).items
    scores = {one.text: one.explain.arms[NAME].score for one in found if one.explain and NAME in one.explain.arms}
    return sorted((text for text, score in scores.items() if score), key=lambda text: -scores[text])


@pytest.mark.parametrize("workers", ["no worker", "workers"])
async def test_the_message_that_states_an_own_fact_is_found(world: World, workers: str) -> None:
    await say(world, 9, "Hi, I'm Nora, and I'm a nurse at St. Vincent.")
    await say(world, 8, "I live with my husband Paul in Leeds.")
    await say(world, 7, "I moved to York.")
    await say(world, 6, "A beagle named Waffles came by, and a nurse works in Leeds.")
    await say(world, 5, "I live in Oslo, and I am called Ben.", user="ben")
    if workers == "workers":
        await Crew(world).drain()
    assert await find_stating(world, "What's my name?") == ["Hi, I'm Nora, and I'm a nurse at St. Vincent."]
    assert await find_stating(world, "Where do I work?") == ["Hi, I'm Nora, and I'm a nurse at St. Vincent."]
    assert (await find_stating(world, "Where do I live?"))[0] == "I moved to York."
    assert await find_stating(world, "Who is my husband?") == ["I live with my husband Paul in Leeds."]
    assert await find_stating(world, "Where do I live?", "ben") == ["I live in Oslo, and I am called Ben."]
    assert await find_stating(world, "Where did the beagle live?") == []


async def test_speakers_with_and_without_a_name_state_facts_and_the_newest_goes_first(world: World) -> None:
    """A user asks about the own messages, whoever spoke in them; a question without a user about those of all."""
    await say(world, 9, "I live in Leeds.")
    await say(world, 8, "I live in York.", name="Nora")
    await say(world, 7, "I live in Oslo.", user="ben")
    await Crew(world).drain()
    assert await find_stating(world, "Where do I live?") == ["I live in York.", "I live in Leeds."]
    assert await find_stating(world, "Where do I live?", None) == [
        "I live in Oslo.",
        "I live in York.",
        "I live in Leeds.",
    ]


@pytest.mark.parametrize("workers", ["no worker", "workers"])
async def test_what_is_denied_or_forgotten_is_not_stated(world: World, workers: str) -> None:
    await say(world, 9, "I work at Nordwind.")
    await say(world, 8, "I no longer work at Nordwind.")
    if workers == "workers":
        await Crew(world).drain()
    assert await find_stating(world, "Where do I work?") == []


async def test_at_an_earlier_moment_the_arm_says_nothing(world: World) -> None:
    await say(world, 9, "I live in Leeds.")
    await Crew(world).drain()
    assert await find_stating(world, "Where do I live?", as_of=NOON - timedelta(hours=1)) == []
