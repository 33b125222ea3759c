"""Asks a question in three ways: by our recall in process, by its floor of bare calls, and over HTTP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import httpx

from embeddings.protocol import Embedder
from store import identity
from store.database import Database
from store.recall import dense_arm, lexical_arm
from store.recall.dense_arm import search_settings
from store.recall.lexical import choose_terms
from store.recall.preparation import prepare_search
from store.recall.query import RecallQuery
from store.recall.question import parse_question
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.recall.state import RecallState
from store.recall.stored_vectors import IndexedVectors

#: Number of units asked for.
K = 20


class NothingRecalled(Exception):
    """A question of the benchmark found nothing, so its figures would be meaningless."""


@dataclass(frozen=True, slots=True)
class BenchQuestion:
    """A question to a bank, and what recall reads for it: its terms' postings, and a number of vector lists."""

    bank: str
    text: str = field(repr=False)
    terms: Sequence[str] = field(repr=False)
    lists: int


class RecallProbe:
    """Asks the banks of one host; recall and the floor share embedder and connection pool."""

    def __init__(self, database: Database, embedder: Embedder, settings: RecallSettings, host: UUID) -> None:
        self._database, self.embedder, self._settings, self._host = database, embedder, settings, host
        self._recaller = Recaller(database, embedder, settings)

    async def understood(self, bank: str, text: str) -> BenchQuestion:
        """Return the question with the terms and lists that recall would read, so that the floor reads the same."""
        question = parse_question(text)
        state = RecallState(
            host=self._host,
            bank=identity.bank_id(self._host, bank),
            query=RecallQuery(bank, text),
            question=question,
            settings=self._settings,
            generation=self.embedder.generation,
            now=datetime.now(UTC),
        )
        async with self._database.tenant(self._host) as connection:
            if not await prepare_search(connection, state):
                raise NothingRecalled("a bank of the bench is not there")
        terms = choose_terms(question.words, state.statistics, self._settings.postings)
        return BenchQuestion(bank, text, terms, state.lists)

    async def ours(self, question: BenchQuestion) -> None:
        """Run our recall in this process. Raises NothingRecalled."""
        if not (await self._recaller.recall(self._host, RecallQuery(question.bank, question.text, K))).items:
            raise NothingRecalled("a question of the bench found nothing")

    async def floor(self, question: BenchQuestion) -> None:
        """Run the floor: embed the question, read the postings of its terms and the nearest vectors."""
        vector = (await self.embedder.embed([question.text]))[0]
        bank = {"host": self._host, "bank": identity.bank_id(self._host, question.bank)}
        words = {**bank, "terms": list(question.terms), "postings": self._settings.postings}
        near = {
            **bank,
            "generation": self.embedder.generation,
            "vector": vector,
            "candidates": self._settings.candidates,
            **({"looked_at": self._settings.candidates} if question.lists else {}),
        }
        vectors = IndexedVectors(self.embedder.generation, len(vector))
        nearest = dense_arm.search_lists(vectors).plain if question.lists else dense_arm.PLAIN
        async with self._database.tenant(self._host, search_settings(question.lists)) as connection:
            (await connection.execute(lexical_arm.PLAIN, words)).all()
            (await connection.execute(nearest, near)).all()


@dataclass(frozen=True, slots=True)
class RecallEndpoint:
    """A client of the stack's HTTP API, and its key."""

    client: httpx.AsyncClient
    key: str = field(repr=False)

    async def ask(self, question: BenchQuestion) -> None:
        """Recall K units over HTTP."""
        await self._ask({"bank": question.bank, "query": question.text, "k": K})

    async def ask_tokens(self, question: BenchQuestion) -> None:
        """Recall over HTTP as many passages as fit into the default token budget."""
        await self._ask({"bank": question.bank, "query": question.text})

    async def _ask(self, body: Mapping[str, object]) -> None:
        answer = await self.client.post("/api/v1/recall", json=body)
        if not answer.raise_for_status().json()["results"]:
            raise NothingRecalled("a question of the bench found nothing over HTTP")
