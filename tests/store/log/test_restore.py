"""A log restored into another cluster, whose transactions are numbered otherwise: nothing is read twice or missed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from deploy.components.bootstrap import bootstrap_database
from deploy.local import EmbeddedPostgres, PostgresEndpoint
from store.database import Database
from store.errors import RestoredElsewhere
from store.log.catalog import EventType
from store.log.reader import LogPosition, read_events
from store.replay import verify_log
from tests.dumps import AS_OWNER, EVERY_TENANT, dumped, restored
from tests.servers import TestPostgres
from tests.store.conftest import new_host, settings_of, settled
from tests.store.log.test_append import append, event

E = EventType


@pytest.fixture
async def elsewhere(tmp_path: Path) -> AsyncIterator[TestPostgres]:
    """A second cluster with an empty database, its extension and roles."""
    server = EmbeddedPostgres(tmp_path, durable=False)
    endpoint = await asyncio.to_thread(server.start)
    urls = {name: url for name, url in asdict(endpoint).items() if name.endswith("_url")}
    yield TestPostgres(database="afterturn", **urls)
    await asyncio.to_thread(server.stop)
    server.cluster.remove()


async def connect(postgres: TestPostgres) -> Any:
    driver: Any = asyncpg
    return await driver.connect(postgres.owner_url.replace("+asyncpg", ""), ssl=False)


@pytest.mark.law("L5")
@pytest.mark.live
async def test_a_log_restored_into_a_second_cluster_goes_on(
    lonely: Database, fresh_database: TestPostgres, elsewhere: TestPostgres, tmp_path: Path
) -> None:
    host = await new_host(lonely)
    old = await connect(fresh_database)
    for _ in range(2000):  # the first cluster has seen more transactions than the second
        await old.execute("select pg_current_xact_id()")
    await old.close()
    await append(lonely, host, [event(host, E.BANK_CREATED)])
    docs = [event(host, E.DOC_CREATED, key=f"{n}") for n in range(5)]
    for doc in docs[:4]:
        await append(lonely, host, [doc])
    await settled(lonely, host)
    dump = await dumped(fresh_database.owner_url, *AS_OWNER, environment=EVERY_TENANT)
    await restored(elsewhere.owner_url, dump)
    there = Database(settings_of(elsewhere))
    with pytest.raises(RestoredElsewhere):
        await _read_ids(there, host)
    urls = (elsewhere.owner_url, elsewhere.app_url, elsewhere.operator_url, elsewhere.superuser_url)
    await asyncio.to_thread(bootstrap_database, tmp_path, PostgresEndpoint("127.0.0.1", 0, *urls))
    await append(there, host, [docs[4]])
    assert (await _read_ids(there, host))[1:] == [doc["id"] for doc in docs]
    await there.close()
    assert (await verify_log(elsewhere.owner_url)).equal


async def _read_ids(database: Database, host: UUID) -> list[str]:
    async with database.tenant(host) as connection:
        return [str(event.id) for event in await read_events(connection, host, LogPosition(), 100)]
