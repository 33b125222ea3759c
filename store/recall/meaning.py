"""Embeds the question, and beside the search the fresh tail, whose vectors it caches; the embedder may fail."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder, ReadsSomeScripts
from store.gen_ai_spans import trace_embedding
from store.off_loop import run_off_loop
from store.recall.question import EFFORT, find_named_speakers, put_in_first_person
from store.recall.settings import RecallSettings
from store.recall.state import RecallState
from store.recall.tail import UnembeddedText, select_affordable, select_urgent
from store.recall.vector_writeback import VectorWriteback

#: The embedder's name in `degraded` of an answer, and in metrics.
NAME = "embedding"
#: Most cached vectors, about 3 MB.
MOST_VECTORS = 2048


class TailCache:
    """A cache of the vectors that recalls last embedded, by unit, text and generation; the oldest are dropped.

    No entry can be out of date: a corrected text has another key, and a forgotten unit is in no tail.
    """

    def __init__(self, most: int = MOST_VECTORS) -> None:
        self._most = most
        self._vectors: OrderedDict[tuple[UUID, int, int], NDArray[np.float32]] = OrderedDict()

    def known(self, tail: Iterable[UnembeddedText], generation: int) -> dict[UUID, NDArray[np.float32]]:
        """Return the cached vectors of these units and texts."""
        found = ((fresh.unit_id, self._vectors.get(_cache_key(fresh, generation))) for fresh in tail)
        return {unit: vector for unit, vector in found if vector is not None}

    def keep(
        self, tail: Iterable[UnembeddedText], vectors: Mapping[UUID, NDArray[np.float32]], generation: int
    ) -> None:
        """Cache the vectors of these units."""
        for fresh in tail:
            self._vectors[_cache_key(fresh, generation)] = vectors[fresh.unit_id]
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)


def _cache_key(fresh: UnembeddedText, generation: int) -> tuple[UUID, int, int]:
    """Return the key of a text's vector; it has the text's hash, not its words."""
    return fresh.unit_id, hash(fresh.content), generation


class QuestionEmbedder:
    """Embeds questions, put in the first person, and texts without a vector, whose vectors it stores."""

    def __init__(self, settings: RecallSettings, writeback: VectorWriteback | None = None) -> None:
        self._settings = settings
        self._writeback = writeback
        self._tails = TailCache()

    async def embed(self, state: RecallState, embedder: Embedder) -> None:
        """Fill the question's vector, and begin to embed the fresh texts; note a failed or late embedder.

        `embedder` is the recall's model, of its generation.

        Of a question in a script that the model cannot read, words alone count (`RecallState.is_read`).

        The texts are embedded while the database is searched (`RecallState.tail_embedding`): a question with a
        backlog of texts in a bank of 100,000 units took 46 -> 38 ms.
        """
        text, generation = state.question.text, state.generation
        names = find_named_speakers(state.question, state.speakers)
        question = await run_off_loop(EFFORT * len(text), put_in_first_person, text, names)
        state.is_read = not isinstance(embedder, ReadsSomeScripts) or embedder.can_read(question)
        state.tail_vectors = self._tails.known(state.unembedded, generation)
        wanted = select_urgent(state.unembedded) if self._is_flooded(state) else state.unembedded
        unknown = [fresh for fresh in wanted if fresh.unit_id not in state.tail_vectors]
        tail = select_affordable(unknown, question, self._settings.fresh_tail_ms, embedder.estimate_ms)
        end = asyncio.get_running_loop().time() + self._settings.embed_deadline_ms / 1000
        vectors = await self._embed(state, embedder, [question], end)
        if vectors is None:
            return
        state.vector = vectors[0]
        if tail:
            work = self._embed_tail(state, embedder, tail, end)
            state.tail_embedding = asyncio.create_task(work, name="embed the fresh tail")

    async def _embed_tail(
        self, state: RecallState, embedder: Embedder, tail: Sequence[UnembeddedText], end: float
    ) -> None:
        vectors = await self._embed(state, embedder, [fresh.content for fresh in tail], end)
        if vectors is None:
            return
        embedded = {fresh.unit_id: vector for fresh, vector in zip(tail, vectors, strict=True)}
        self._tails.keep(tail, embedded, state.generation)
        if self._writeback is not None:
            self._writeback.keep(state.host, state.bank, state.generation, tail, embedded)
        state.tail_vectors = {**state.tail_vectors, **embedded}

    async def _embed(
        self, state: RecallState, embedder: Embedder, texts: Sequence[str], end: float
    ) -> NDArray[np.float32] | None:
        """Return the vectors of these texts; None, and a note, if the embedder fails or has not ended by `end`."""
        try:
            async with asyncio.timeout_at(end):
                with trace_embedding(embedder.name, len(texts)):
                    return await embedder.embed(texts)
        except TimeoutError:
            note = f"{NAME}: late"
        except EmbeddingError as error:
            note = f"{NAME}: {type(error).__name__}"
        state.degraded.append(note)
        return None

    def _is_flooded(self, state: RecallState) -> bool:
        """Return whether the bank's backlog is far larger than a tail."""
        full = len(state.unembedded) >= self._settings.fresh_tail_chunks
        return full and state.freshness.pending >= self._settings.fresh_tail_backlog
