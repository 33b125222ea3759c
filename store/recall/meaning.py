"""What a question means, as a vector, with those of the fresh tail: one call to the embedder, which may fail."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder
from store.gen_ai_spans import trace_embedding
from store.off_loop import off_loop
from store.recall.preparation import Preparation
from store.recall.question import EFFORT, Question, as_told, named_speakers
from store.recall.settings import RecallSettings
from store.recall.tail import select_affordable, select_urgent
from store.recall.tail_cache import TailCache
from store.recall.vector_writeback import Keeping

#: What answers and metrics call it.
NAME = "embedding"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The question's vector (None: there is none to be had, `wrong` says why) and those of the fresh tail."""

    vector: NDArray[np.float32] | None = field(repr=False)
    tail: Mapping[UUID, NDArray[np.float32]] = field(repr=False)
    wrong: str | None = None


class Meanings:
    """Embeds questions, as their speakers would put them, and what has no vector yet, which is remembered and kept."""

    def __init__(self, embedder: Embedder, settings: RecallSettings, keeping: Keeping | None = None) -> None:
        self._embedder = embedder
        self._settings = settings
        self._keeping = keeping
        self._tails = TailCache()

    async def of(self, question: Question, prepared: Preparation, *, host: UUID, bank: UUID) -> Meaning:
        """Embed the question and the fresh tail together; never raises for what an embedder does or leaves undone."""
        try:
            async with asyncio.timeout(self._settings.embed_deadline_ms / 1000):
                return await self._embedded(question, prepared, host, bank)
        except TimeoutError:
            return Meaning(None, {}, f"{NAME}: late")
        except EmbeddingError as error:
            return Meaning(None, {}, f"{NAME}: {type(error).__name__}")

    async def _embedded(self, question: Question, prepared: Preparation, host: UUID, bank: UUID) -> Meaning:
        names = named_speakers(question, prepared.speakers)
        asked = await off_loop(EFFORT * len(question.text), as_told, question.text, names)
        generation = self._embedder.generation
        known = self._tails.known(prepared.tail, generation)
        wanted = select_urgent(prepared.tail) if self._flooded(prepared) else prepared.tail
        unknown = [fresh for fresh in wanted if fresh.unit_id not in known]
        tail = select_affordable(unknown, asked, self._settings.fresh_tail_ms, self._embedder.estimate_ms)
        with trace_embedding(self._embedder.name, 1 + len(tail)):
            vectors = await self._embedder.embed([asked, *(fresh.content for fresh in tail)])
        embedded = {fresh.unit_id: vector for fresh, vector in zip(tail, vectors[1:], strict=True)}
        self._tails.keep(tail, embedded, generation)
        if self._keeping is not None:
            self._keeping.keep(host, bank, generation, tail, embedded)
        return Meaning(vectors[0], {**known, **embedded})

    def _flooded(self, prepared: Preparation) -> bool:
        """Say whether far more waits than a tail holds."""
        full = len(prepared.tail) >= self._settings.fresh_tail_chunks
        return full and prepared.freshness.pending >= self._settings.fresh_tail_backlog
