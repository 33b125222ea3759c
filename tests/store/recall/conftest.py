"""A memory that answers: a real database, the real sentence model, and no worker."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from sqlalchemy import text

from embeddings.protocol import Embedder, ReadsSomeScripts
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings, Variant
from store import identity
from store.database import Database
from store.derived.unit_vectors import UnitsToEmbed, insert_vectors, read_missing
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from store.recall.query import RecallAnswer, RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from tests.store.conftest import NOON, new_host, rows

BANK = "home"


@dataclass
class Listening:
    """The real embedder, and a record of what it was asked."""

    inner: Embedder
    heard: list[list[str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def dimensions(self) -> int:
        return self.inner.dimensions

    @property
    def generation(self) -> int:
        return self.inner.generation

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.heard.append(list(texts))
        return await self.inner.embed(texts)

    def can_read(self, text: str) -> bool:
        return not isinstance(self.inner, ReadsSomeScripts) or self.inner.can_read(text)

    def estimate_ms(self, texts: Sequence[str]) -> float:
        """Ten milliseconds a text: tests about time must not depend on the machine's."""
        return 10.0 * len(texts)


@dataclass
class Memory:
    """One host's memory; turns get numbers for names when they are given none."""

    database: Database
    host: UUID
    embedder: Listening
    settings: RecallSettings = field(default_factory=RecallSettings)
    recaller: Recaller | None = None

    @property
    def bank(self) -> UUID:
        return identity.bank_id(self.host, BANK)

    async def say(self, *messages: str | NewMessage, session: str = "s1", bank: str = BANK, **more: Any) -> None:
        """Append a turn for each message."""
        store = TurnStore(self.database, lambda: NOON)
        said = [m if isinstance(m, NewMessage) else NewMessage("user", m) for m in messages]
        turns = [NewTurn(bank, session, f"{session}-{m.content[:40]}", [m], **more) for m in said]
        for answer in await store.append(self.host, turns):
            assert isinstance(answer, Appended), answer

    async def embed_all(self, bank: str = BANK) -> None:
        """Do what the embedding stage would: vectors for everything, ledger rows closed."""
        bank_id = identity.bank_id(self.host, bank)
        found = await rows(
            self.database,
            self.host,
            "select turn_id from afterturn.turn_t where bank_id = :bank",
            bank=bank_id,
        )
        wanted = [UnitsToEmbed(bank_id, turn, facts) for (turn,) in found for facts in (False, True)]
        async with self.database.tenant(self.host) as connection:
            units = await read_missing(connection, self.host, self.embedder.generation, wanted)
        vectors = await self.embedder.inner.embed([unit.content for unit in units])
        async with self.database.tenant(self.host) as connection:
            await insert_vectors(connection, self.host, self.embedder.generation, units, vectors)
        await self.sql("update afterturn.ledger_t set status = 'done' where stage = 'embedding'")

    async def sql(self, statement: str, **arguments: object) -> None:
        async with self.database.tenant(self.host) as connection:
            await connection.execute(text(statement), arguments)

    async def ask(self, question: str, bank: str = BANK, **more: Any) -> RecallAnswer:
        # However busy the machine is, a model that works is not late, unless the test says when it is.
        deadline = {"embed_deadline_ms": 60_000.0} if "embed_deadline_ms" not in self.settings.model_fields_set else {}
        settings = self.settings.model_copy(update=deadline)
        self.recaller = self.recaller or Recaller(self.database, self.embedder, settings)
        sized = more if {"k", "max_tokens"} & more.keys() else {"k": 10, **more}
        return await self.recaller.recall(self.host, RecallQuery(bank, question, **sized))

    async def texts(self, question: str, **more: Any) -> list[str]:
        return [item.text for item in (await self.ask(question, **more)).items]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def model(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedder]:
    embedder = create_embedder(EmbeddingSettings(variant=Variant.WEIGHTS), tmp_path_factory.mktemp("model"))
    await embedder.load()
    yield embedder
    await embedder.close()


@pytest.fixture
def memory(database: Database, host: UUID, model: Embedder) -> Memory:
    return Memory(database, host, Listening(model))


@pytest.fixture
async def first_memory(lonely: Database, model: Embedder) -> Memory:
    """The first memory of a new database: what the planner knows there does not depend on other tests."""
    return Memory(lonely, await new_host(lonely), Listening(model))
