"""What fails makes an answer poorer, and is named in it; it never makes it an error."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.errors import EmbeddingError, ModelUnreachable
from store.recall.arms import Arm
from store.recall.pool import CandidatePool
from store.recall.recaller import ARMS, Recaller
from store.recall.settings import RecallSettings
from store.recall.state import ArmResult, RecallState
from tests.store.recall.conftest import Listening, Memory

SAID = ("Biscuit chewed up my slippers, that naughty puppy.", "The printer is out of toner again.")


@dataclass
class Failing:
    """An arm that fails while it searches, in the database or outside, or when it is to score."""

    statement: str = "select 1"
    score: Callable[[CandidatePool], NDArray[np.float64]] = field(default=lambda pool: np.zeros(len(pool)))
    error: Exception | None = None
    asked: int = 0
    name: str = "failing"
    weight: float = 1.0
    needs_vector: bool = False

    async def find(self, connection: AsyncConnection, state: RecallState) -> ArmResult:
        del state
        self.asked += 1
        await connection.execute(text(self.statement))
        if self.error is not None:
            raise self.error
        return ArmResult([], [], self.score)


class Mute(Listening):
    """The real embedder, which has no vectors to give: it fails with `error`, or never ends."""

    error: EmbeddingError | None = None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.heard.append(list(texts))
        if self.error is not None:
            raise self.error
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return] # it never ends


def asking(memory: Memory, *arms: Arm) -> None:
    memory.recaller = Recaller(memory.database, memory.embedder, memory.settings, (*arms, *ARMS))


@pytest.mark.parametrize(
    "arm, told",
    [
        (Failing(statement="select 1/0"), "failing: DBAPIError"),
        (Failing(statement="select nowhere"), "failing: ProgrammingError"),
        (Failing(error=ValueError("Biscuit")), "failing: ValueError"),
        (Failing(score=lambda pool: np.full(len(pool), np.nan)), "failing: ValueError"),
        (Failing(score=lambda _pool: np.zeros(0)), "failing: ValueError"),
    ],
    ids=["division", "statement", "outside", "no numbers", "too few"],
)
async def test_an_arm_that_fails_is_named_and_the_others_answer(memory: Memory, arm: Failing, told: str) -> None:
    await memory.say(*SAID)
    before = await memory.ask("Who chewed the slippers?")
    asking(memory, arm)
    after = await memory.ask("Who chewed the slippers?")
    assert after.degraded == (told,)
    assert [(one.text, one.score, one.arms) for one in after.items] == [
        (one.text, one.score, one.arms) for one in before.items
    ]
    assert "failing" in after.took


async def test_an_arm_that_does_not_fail_is_asked_once(memory: Memory) -> None:
    await memory.say(*SAID)
    arm = Failing()
    asking(memory, arm)
    assert (await memory.ask("Who chewed the slippers?")).degraded == ()
    assert arm.asked == 1


async def test_an_arm_that_fails_while_the_model_works_is_named_and_the_others_answer(memory: Memory) -> None:
    await memory.say(*SAID)
    before = await memory.ask("Who chewed the slippers?")
    arm = Failing()
    asking(memory, arm)
    await memory.ask("Is the printer out of toner?")
    arm.statement = "select 1/0"
    after = await memory.ask("Who chewed the slippers?")
    assert after.degraded == ("failing: DBAPIError",)
    assert [(one.text, one.score, one.arms) for one in after.items] == [
        (one.text, one.score, one.arms) for one in before.items
    ]


async def test_when_every_arm_fails_nothing_is_found_and_every_one_is_named(memory: Memory) -> None:
    await memory.say(*SAID)
    arms = (Failing(statement="select 1/0", name="one"), Failing(error=KeyError(), name="two"))
    memory.recaller = Recaller(memory.database, memory.embedder, memory.settings, arms)
    answer = await memory.ask("Who chewed the slippers?")
    assert (answer.items, answer.degraded) == ((), ("one: DBAPIError", "two: KeyError"))


async def test_a_database_that_goes_away_is_no_arms_failure(memory: Memory) -> None:
    await memory.say(*SAID)
    arm = Failing(statement="do $$ begin raise exception using errcode = '57P01'; end $$")
    asking(memory, arm)
    with pytest.raises(DBAPIError):
        await memory.ask("Who chewed the slippers?")
    assert arm.asked == 1


@pytest.mark.parametrize(
    "error, told", [(ModelUnreachable("away"), "embedding: ModelUnreachable"), (None, "embedding: late")]
)
async def test_without_the_questions_vector_the_words_answer(
    memory: Memory, error: EmbeddingError | None, told: str
) -> None:
    await memory.say(*SAID)
    await memory.embed_all()
    await memory.say("A puppy is a lot of work.")
    mute = Mute(memory.embedder.inner)
    mute.error = error
    memory.settings = RecallSettings(embed_deadline_ms=2000.0 if error else 1.0)
    memory.recaller = Recaller(memory.database, mute, memory.settings)
    answer = await memory.ask("Who is the naughty puppy, and was that a year ago?", explain=True)
    assert answer.degraded == (told,)
    assert answer.items[0].text == SAID[0]
    assert "A puppy is a lot of work." in [one.text for one in answer.items]
    assert all("dense" not in one.arms for one in answer.items)
    assert len(mute.heard) == 1


class MuteForTexts(Listening):
    """The real embedder, which embeds a question and is away when the fresh texts are to follow."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.heard:
            raise ModelUnreachable("away")
        return await super().embed(texts)


async def test_without_the_fresh_texts_vectors_the_stored_units_answer_by_meaning(memory: Memory) -> None:
    await memory.say(*SAID)
    await memory.embed_all()
    await memory.say("A puppy is a lot of work.")
    memory.recaller = Recaller(memory.database, MuteForTexts(memory.embedder.inner), memory.settings)
    answer = await memory.ask("Who is the naughty puppy, and was that a year ago?", explain=True)
    assert answer.degraded == ("embedding: ModelUnreachable",)
    by_text = {one.text: one.arms for one in answer.items}
    assert "dense" in by_text[SAID[0]]
    assert "dense" not in by_text["A puppy is a lot of work."]
