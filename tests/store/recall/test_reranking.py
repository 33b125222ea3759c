"""Reranking: it moves the order before it is cut, and when it fails the order stays."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from embeddings.errors import RerankerUnusable
from embeddings.protocol import Reranker
from embeddings.rerank import CrossEncoder
from embeddings.settings import RerankerSettings
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings, RerankSettings
from tests.embeddings.cross_encoders import cross_encoder
from tests.store.recall.conftest import Memory

QUESTION = "Which instrument does Ann play?"
SAID = ("Ann plays the trumpet", "Ann plays chess", "Which instrument does Bo play, and does Ann play", "Rain again")
#: The cross-encoder knows these words alone: for it, what repeats the question is best.
WORDS = ("which", "instrument", "does", "ann", "play")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def encoder(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CrossEncoder]:
    folder = cross_encoder(tmp_path_factory.mktemp("reranker") / "tiny", WORDS)
    made = CrossEncoder(RerankerSettings(model=str(folder)), Path())
    await made.load()
    yield made
    await made.close()


@dataclass
class Failing:
    """A reranker that breaks, or never ends."""

    broken: bool
    name: str = "failing"
    cancelled: list[bool] = field(default_factory=list)

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        del question, texts
        if self.broken:
            raise RerankerUnusable("no")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(True)
            raise
        return np.zeros(0, dtype=np.float32)


@dataclass
class Fond:
    """A reranker that likes one text."""

    of: str
    name: str = "fond"

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        del question
        return np.array([text == self.of for text in texts], dtype=np.float32)


def asking(memory: Memory, reranker: Reranker | None, **settings: float) -> None:
    """Have the memory asked with this reranker, with time enough."""
    told = RecallSettings(rerank=RerankSettings(**{"deadline_ms": 60_000.0, **settings}))
    memory.recaller = Recaller(memory.database, memory.embedder, told, reranker=reranker)


async def test_the_cross_encoder_has_the_last_word_and_explains_itself(memory: Memory, encoder: CrossEncoder) -> None:
    await memory.say(*SAID)
    asking(memory, None)
    plain = await memory.ask(QUESTION, explain=True)
    asking(memory, encoder, weight=10)
    answer = await memory.ask(QUESTION, explain=True)
    assert answer.items[0].text == SAID[2]
    assert [item.score for item in answer.items] == sorted((item.score for item in answer.items), reverse=True)
    before = {item.unit_id: item.score for item in plain.items}
    for item in answer.items:
        assert item.explain is not None
        assert item.score == pytest.approx(before[item.unit_id] + item.explain.moved["rerank"])
    assert (answer.degraded, "rerank" in answer.took, "rerank" in plain.took) == ((), True, False)


async def test_it_reads_beyond_the_limit_and_the_answer_is_cut_afterwards(memory: Memory) -> None:
    await memory.say(*SAID)
    asking(memory, None)
    last = (await memory.texts(QUESTION))[-1]
    asking(memory, Fond(last), weight=10)
    assert await memory.texts(QUESTION, k=1) == [last]
    asking(memory, Fond(last), weight=10, candidates=2)
    assert await memory.texts(QUESTION, k=1) != [last]


@pytest.mark.parametrize("broken, reason", [(True, "rerank: RerankerUnusable"), (False, "rerank: late")])
async def test_when_it_breaks_or_is_late_the_order_stays_and_the_answer_says_so(
    memory: Memory, *, broken: bool, reason: str
) -> None:
    await memory.say(*SAID)
    asking(memory, None)
    plain = await memory.ask(QUESTION, k=2)
    failing = Failing(broken)
    asking(memory, failing, deadline_ms=1)
    answer = await memory.ask(QUESTION, k=2)
    assert answer.items == plain.items
    assert answer.degraded == (reason,)
    assert failing.cancelled == ([] if broken else [True])


async def test_a_question_may_leave_it_out_and_an_empty_bank_does_not_ask_it(memory: Memory) -> None:
    asking(memory, Failing(broken=True))
    assert (await memory.ask(QUESTION)).degraded == ()
    await memory.say(*SAID)
    assert (await memory.ask(QUESTION, without=["rerank"])).degraded == ()
