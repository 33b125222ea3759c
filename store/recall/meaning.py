"""Embeds the question beside the preparation, and the fresh tail beside the search; the embedder may fail."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from embeddings.errors import EmbeddingError
from embeddings.protocol import Embedder
from store.gen_ai_spans import trace_embedding
from store.off_loop import LONG_CHARACTERS, run_off_loop
from store.recall.question import EFFORT, find_asked_people, put_in_first_person
from store.recall.settings import RecallSettings
from store.recall.state import BegunQuestion, RecallState
from store.recall.tail import BACKLOG, UnembeddedText, select_affordable, select_urgent
from store.recall.vector_writeback import VectorWriteback
from store.text.language_detection import detect_language
from store.text.terms import split_words

#: Most banks that are remembered, those that were asked last, and most words of one.
BANKS, WORDS = 1_024, 256


class NamedWords:
    """The words that named speakers in the last questions to each bank."""

    def __init__(self) -> None:
        self._banks: OrderedDict[UUID, set[int]] = OrderedDict()

    def find(self, bank: UUID, words: Collection[str]) -> list[str] | None:
        """Return those of a question's words that named speakers of the bank lately; None if it was not asked."""
        known = self._banks.get(bank)
        return None if known is None else [word for word in words if hash(word) in known]

    def learn(self, bank: UUID, words: Collection[str], named: Collection[str]) -> None:
        """Remember that of a question's words these are the ones that name speakers."""
        known = self._banks.setdefault(bank, set())
        self._banks.move_to_end(bank)
        known.difference_update(map(hash, words))
        if len(known) + len(named) > WORDS:
            known.clear()
        known.update(map(hash, named))
        if len(self._banks) > BANKS:
            self._banks.popitem(last=False)


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
        self._named = NamedWords()

    def begin(self, state: RecallState, embedder: Embedder) -> None:
        """Begin to embed the question as it will probably be put (`RecallState.begun`), before its bank is read.

        Whom it names is known only then: the words are replaced that named speakers in the bank's last questions. The
        first question to a bank waits, and so does a long one, which would take long to embed twice. A prepared turn
        took 22 -> 20 ms, a recall 14.2 -> 13.0 ms, as medians of twelve alternating rounds.
        """
        text = state.question.text
        if EFFORT * len(text) >= LONG_CHARACTERS:
            return
        words = frozenset(split_words(text))
        named = self._named.find(state.bank, words)
        if named is None:
            state.begun = BegunQuestion(words)
            return
        question = put_in_first_person(text, named)
        work = _embed_texts(embedder, [question], self._compute_deadline())
        state.begun = BegunQuestion(words, question, asyncio.create_task(work, name="embed the question"))

    def phrase(self, state: RecallState, embedder: Embedder) -> None:
        """Put a prepared question for the model; work that was begun on another text ends.

        Of a question in a script that the model cannot read, words alone count (`RecallState.is_read`). Of one in a
        language that it does not understand, words alone are evidence (`RecallState.is_understood`).
        """
        text, begun = state.question.text, state.begun
        names = find_asked_people(state.question, state.speakers)
        state.phrased = put_in_first_person(text, names)
        can_read = getattr(embedder, "can_read", None)  # of what `ReadsSomeScripts` says: a protocol is slow to ask for
        state.is_read = can_read is None or can_read(state.phrased)
        is_english = detect_language(text) in {"en", None}
        state.is_understood = is_english or getattr(embedder, "understands", None) != "english"
        if begun is None:
            return
        # A word that preparation replaced is another name of a speaker, or a misspelt one.
        replaced = begun.words.difference(split_words(text))
        named = begun.words.intersection(word for name in names for word in split_words(name))
        self._named.learn(state.bank, begun.words, replaced | named)
        if begun.text != state.phrased:
            state.cancel_begun()

    async def embed(self, state: RecallState, embedder: Embedder) -> None:
        """Fill the question's vector, and begin to embed the fresh texts; note a failed or late embedder.

        `embedder` is the recall's model, of its generation. It waits unless `RecallState.begun` is done.

        The texts are embedded while the database is searched (`RecallState.tail_embedding`): a question with a
        backlog of texts in a bank of 100,000 units took 46 -> 38 ms.
        """
        if not state.phrased:
            await run_off_loop(EFFORT * len(state.question.text), self.phrase, state, embedder)
        question, generation, state.is_embedded = state.phrased, state.generation, True
        state.tail_vectors = self._tails.known(state.unembedded, generation)
        end = self._compute_deadline()
        begun = state.begun and state.begun.work
        found = await (begun or _embed_texts(embedder, [question], end))
        if isinstance(found, str):
            state.degraded.append(found)
            return
        state.vector = found[0]
        wanted = select_urgent(state.unembedded) if self._is_flooded(state) else state.unembedded
        unknown = [fresh for fresh in wanted if fresh.unit_id not in state.tail_vectors]
        if tail := select_affordable(unknown, question, self._settings.fresh_tail_ms, embedder.estimate_ms):
            work = self._embed_tail(state, embedder, tail, end)
            state.tail_embedding = asyncio.create_task(work, name="embed the fresh tail")

    def _compute_deadline(self) -> float:
        """Return when a call of the model that begins now is late, by the loop's clock."""
        return asyncio.get_running_loop().time() + self._settings.embed_deadline_ms / 1000

    async def _embed_tail(
        self, state: RecallState, embedder: Embedder, tail: Sequence[UnembeddedText], end: float
    ) -> None:
        found = await _embed_texts(embedder, [fresh.content for fresh in tail], end)
        if isinstance(found, str):
            state.degraded.append(found)
            return
        embedded = {fresh.unit_id: vector for fresh, vector in zip(tail, found, strict=True)}
        self._tails.keep(tail, embedded, state.generation)
        if self._writeback is not None:
            self._writeback.keep(state.host, state.bank, state.generation, tail, embedded)
        state.tail_vectors = {**state.tail_vectors, **embedded}

    def _is_flooded(self, state: RecallState) -> bool:
        """Return whether the bank's backlog is far larger than a tail."""
        full = len(state.unembedded) >= self._settings.fresh_tail_chunks
        return full and state.freshness.pending >= BACKLOG


async def _embed_texts(embedder: Embedder, texts: Sequence[str], end: float) -> NDArray[np.float32] | str:
    """Return the vectors of these texts; a note if the embedder fails or has not ended by `end`."""
    try:
        async with asyncio.timeout_at(end):
            with trace_embedding(embedder.name, len(texts)):
                return await embedder.embed(texts)
    except TimeoutError:
        return f"{NAME}: late"
    except EmbeddingError as error:
        return f"{NAME}: {type(error).__name__}"
