"""The chore of `afterturn up` and of workers with the owner's URL: it builds what is needed until it is ended."""

import asyncio
from uuid import uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import NullPool, text

from deploy.components import indexing
from deploy.components.indexing import index_as_owner, keep_indexed
from deploy.local.postgres import PostgresEndpoint
from deploy.settings import Settings
from store.connections import create_owner_engine
from store.derived.vector_indexes import VectorIndexes
from store.recall.settings import RecallSettings
from store.settings import DatabaseSettings
from tests.patience import until
from tests.servers import TestPostgres

LARGE = "insert into afterturn.bank_statistics_t values (:host, :bank, 1000, 1000)"


@pytest.mark.parametrize("by_worker", [False, True])
async def test_a_bank_that_grew_gets_its_index_while_the_service_runs(
    fresh_database: TestPostgres, monkeypatch: pytest.MonkeyPatch, *, by_worker: bool
) -> None:
    monkeypatch.setattr(indexing, "CHECK_INTERVAL_S", 0.05)
    engine = create_owner_engine(fresh_database.owner_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(text(LARGE), {"host": uuid4(), "bank": uuid4()})
    await engine.dispose()
    urls = (fresh_database.owner_url, fresh_database.app_url, fresh_database.operator_url, "")
    owner, app, operator = map(SecretStr, urls[:3])
    own = DatabaseSettings(owner_url=owner, url=app, operator_url=operator)
    settings = Settings(recall=RecallSettings(exact_units=999), database=own if by_worker else DatabaseSettings())
    work = index_as_owner(settings, "w") if by_worker else keep_indexed(settings, PostgresEndpoint("", 0, *urls))
    chore = asyncio.create_task(work)
    indexes = VectorIndexes(fresh_database.owner_url, 999)

    async def built() -> bool:
        return await indexes.needed() == []

    await until(built, "the index is built")
    chore.cancel()
    with pytest.raises(asyncio.CancelledError):
        await chore


async def test_a_worker_without_the_owners_url_indexes_nothing() -> None:
    await index_as_owner(Settings(), "w")
