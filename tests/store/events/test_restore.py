"""A log restored into another cluster, whose transactions are numbered otherwise: nothing is read twice or missed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from deploy.bootstrap import bootstrap
from deploy.embedded import EmbeddedPostgres, PostgresEndpoint
from store import migrations
from store.database import Database
from store.errors import RestoredElsewhere
from store.events.catalog import EventType
from store.events.reader import Subscription
from store.replay import verify
from tests.servers import TestPostgres
from tests.store.conftest import new_host, settings_of, settled
from tests.store.events.test_append import append, event

E = EventType
RESTORED = ("host_t", "agent_memory_bank_t", "agent_memory_doc_t", "event_store_t", "subscription_t")
SEQUENCE = "select setval('afterturn.log_position_seq', (select max(position) from afterturn.event_store_t))"


@pytest.fixture
async def elsewhere(tmp_path: Path) -> AsyncIterator[TestPostgres]:
    """A second cluster with an empty database of our schema."""
    server = EmbeddedPostgres(tmp_path, durable=False)
    endpoint = await asyncio.to_thread(server.start)
    await asyncio.to_thread(migrations.upgrade, endpoint.owner_url)
    urls = {name: url for name, url in asdict(endpoint).items() if name.endswith("_url")}
    yield TestPostgres(database="afterturn", **urls)
    await asyncio.to_thread(server.stop)
    server.cluster.remove()


async def connect(postgres: TestPostgres) -> Any:
    driver: Any = asyncpg
    return await driver.connect(postgres.owner_url.replace("+asyncpg", ""), ssl=False)


async def dump_and_restore(source: TestPostgres, target: TestPostgres) -> None:
    """Carry the rows over as a dump does: xids and the name of their cluster with them."""
    old, new = await connect(source), await connect(target)
    await new.execute("delete from public.afterturn_cluster")
    for schema, table in (*(("afterturn", table) for table in RESTORED), ("public", "afterturn_cluster")):
        carried = BytesIO()
        await old.copy_from_table(table, schema_name=schema, output=carried, format="binary")
        carried.seek(0)
        await new.copy_to_table(table, schema_name=schema, source=carried, format="binary")
    await new.execute(SEQUENCE)
    await old.close()
    await new.close()


@pytest.mark.slow
@pytest.mark.law("L5")
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
    async with Subscription(lonely, host, "reader").page(3) as (_, events):
        assert len(events) == 3
    await dump_and_restore(fresh_database, elsewhere)
    there = Database(settings_of(elsewhere))
    with pytest.raises(RestoredElsewhere):
        async with Subscription(there, host, "reader").page():
            pass
    urls = (elsewhere.owner_url, elsewhere.app_url, elsewhere.operator_url, elsewhere.superuser_url)
    await asyncio.to_thread(bootstrap, tmp_path, PostgresEndpoint("127.0.0.1", 0, *urls))
    await append(there, host, [docs[4]])
    async with Subscription(there, host, "reader").page() as (_, events):
        assert [str(e.id) for e in events] == [doc["id"] for doc in docs[2:]]
    await there.close()
    assert (await verify(elsewhere.owner_url)).equal
