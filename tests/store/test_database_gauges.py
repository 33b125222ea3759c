"""What alerts on the database go by, read as the role that the service has for it."""

import asyncio
from datetime import timedelta

from sqlalchemy import func, text, update

from store.database import POOL_WAIT_SECONDS, Database
from store.database_gauges import GenerationShare, read_database_sample
from store.ledger.workers import WorkerRegistry
from store.schema import WORKER
from store.settings import DatabaseSettings
from tests.generations import make_generation_live
from tests.patience import until
from tests.servers import TestPostgres
from tests.store.conftest import new_host, settings_of


def observed_waits() -> float:
    [metric] = POOL_WAIT_SECONDS.collect()
    return next(one.value for one in metric.samples if one.name.endswith("_count"))


async def test_a_transaction_that_writes_and_stays_is_the_oldest(lonely: Database) -> None:
    async with lonely.operator() as connection:
        own = int((await connection.execute(text("select pg_current_xact_id()::text"))).scalar_one())
        for _ in range(2):
            seen = await read_database_sample(lonely)
            assert seen.oldest_writer is not None
            assert seen.oldest_writer <= own
    async with lonely.call():
        seen = await read_database_sample(lonely)
    assert seen.oldest_writer != own
    assert 2 <= seen.connections < seen.most_connections, "other roles' connections count, too"
    assert (seen.tenants, dict(seen.overdue_s), dict(seen.replicas)) == ((), {}, {})


async def test_a_lease_that_ran_out_is_overdue_and_the_largest_backlogs_come_first(lonely: Database) -> None:
    hosts = [await new_host(lonely) for _ in range(3)]
    for rows, host in enumerate(hosts, 1):
        async with lonely.tenant(host) as connection:
            await connection.execute(
                text("""
                insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id,
                                                position, accepted_at)
                select :host, 'embedding', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(),
                       gen_random_uuid(), n, now() - interval '1 minute' from generate_series(1, :rows) n"""),
                {"host": host, "rows": rows},
            )
            await connection.execute(
                text("""
                insert into afterturn.claim_t (host_id, stage, stream_id, epoch, lease_until, worker)
                values (:host, 'embedding', gen_random_uuid(), :epoch, now() - interval '40 seconds', 'gone')"""),
                {"host": host, "epoch": -rows},
            )
    seen = await read_database_sample(lonely, 2)
    assert [(one.host_id, one.rows) for one in seen.tenants] == [(hosts[2], 3), (hosts[1], 2)]
    assert all(one.oldest_s >= 60 for one in seen.tenants)
    assert seen.overdue_s["embedding"] >= 40


async def test_a_call_that_waits_for_a_connection_is_observed_and_others_are_not(postgres: TestPostgres) -> None:
    few: DatabaseSettings = settings_of(postgres).model_copy(update={"pool_size": 1})
    database = Database(few)
    before = observed_waits()
    async with database.call(), database.call() as last:
        assert observed_waits() == before
        waiting = asyncio.create_task(database.fetch("select 1"))
        pool = database._app.sync_engine.pool
        await until(lambda: pool.checkedout() == pool.size(), "all are lent")  # type: ignore[attr-defined] # a QueuePool
        await asyncio.sleep(0)
        assert not waiting.done()
        assert (await last.execute(text("select 1"))).scalar_one() == 1
    assert await waiting
    await database.close()
    assert observed_waits() == before + 1


async def test_living_workers_are_counted_by_stage_and_the_database_has_a_size(lonely: Database) -> None:
    registry = WorkerRegistry(lonely)
    for name, stages in (("one", ["embedding", "gateway"]), ("two", ["embedding"]), ("drained", ["projection"])):
        await registry.begin(name, "0.1.0", stages)
    await registry.drain(["drained"])
    silent = update(WORKER).where(WORKER.c.worker == "two").values(seen_at=func.now() - timedelta(minutes=1))
    async with lonely.operator() as connection:
        await connection.execute(silent)
    await make_generation_live(lonely, 7)
    seen = await read_database_sample(lonely)
    assert seen.generations == (GenerationShare(7, "live", 1.0),)
    assert seen.workers == {"embedding": 1, "gateway": 1}
    assert seen.bytes > 1_000_000
