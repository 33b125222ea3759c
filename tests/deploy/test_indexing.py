"""The chore of `afterturn up`: it builds what is needed, and ends when the stack does."""

import asyncio
from uuid import uuid4

import pytest
from sqlalchemy import NullPool, text

from deploy import indexing
from deploy.indexing import keep_indexed
from deploy.local.postgres import PostgresEndpoint
from deploy.settings import Settings
from store.connections import create_owner_engine
from store.derived.vector_indexes import VectorIndexes
from store.recall.settings import RecallSettings
from tests.patience import until
from tests.servers import TestPostgres

LARGE = "insert into afterturn.bank_statistics_t values (:host, :bank, 1000, 1000)"


async def test_a_bank_that_grew_gets_its_index_while_the_stack_runs(
    fresh_database: TestPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "CHECK_INTERVAL_S", 0.05)
    engine = create_owner_engine(fresh_database.owner_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(text(LARGE), {"host": uuid4(), "bank": uuid4()})
    await engine.dispose()
    urls = (fresh_database.owner_url, fresh_database.app_url, fresh_database.operator_url, "")
    settings = Settings(recall=RecallSettings(exact_units=999))
    chore = asyncio.create_task(keep_indexed(settings, PostgresEndpoint("", 0, *urls)))
    indexes = VectorIndexes(fresh_database.owner_url, 999)

    async def built() -> bool:
        return await indexes.needed() == []

    await until(built, "the index is built")
    chore.cancel()
    with pytest.raises(asyncio.CancelledError):
        await chore
