"""A drain that does not end as it began: its lease is over, its database is away, its worker is told to stop."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from structlog.testing import capture_logs

from store.database import Database
from store.ledger.ledger import Claim, Ledger
from store.ledger.stages import Stage
from tests.patience import PATIENCE_S, until
from tests.workers.conftest import World, settings_of
from tests.workers.stages import Crew
from tests.workers.test_runner import Recorder, failing, rows


@pytest.mark.law("L2")
async def test_a_late_finisher_changes_nothing(world: World) -> None:
    """A worker stops for longer than its lease; another does the work; the first wakes up and finishes."""
    await world.append()
    crew = Crew(world, lease=timedelta(seconds=60))
    asleep, awake = asyncio.Event(), asyncio.Event()

    async def sleep(_claim: Claim) -> None:
        asleep.set()
        await awake.wait()

    slow, quick = Recorder(world.database, before=sleep), Recorder(world.database)
    first = asyncio.ensure_future(crew.runner(Stage.EXTRACTION, slow).drain())
    await asleep.wait()
    await world.expire_leases()
    await crew.runner(Stage.EXTRACTION, quick).drain()
    before = await world.sql("select * from afterturn.ledger_t order by stage")
    awake.set()
    await first
    assert slow.late == 1
    assert not slow.finished
    assert await world.sql("select * from afterturn.ledger_t order by stage") == before
    assert await rows(world) == [("done", 2, None, None)]


async def lease_end(world: World) -> datetime:
    [claim] = await world.sql("select lease_until from afterturn.claim_t")
    end: datetime = claim.lease_until
    return end


async def test_work_longer_than_its_lease_keeps_it(world: World) -> None:
    await world.append()

    begun, may_end = asyncio.Event(), asyncio.Event()

    async def long(_claim: Claim) -> None:
        begun.set()
        await may_end.wait()

    crew = Crew(world, lease=timedelta(seconds=6))
    recorder, thief = Recorder(world.database, before=long), Recorder(world.database)
    working = asyncio.ensure_future(crew.runner(Stage.EXTRACTION, recorder).drain())
    await begun.wait()
    first = await lease_end(world)

    async def renewed() -> bool:
        return await lease_end(world) > first

    await until(renewed, "the lease is renewed")
    await crew.runner(Stage.EXTRACTION, thief).drain()
    may_end.set()
    await working
    assert thief.begun == 0
    assert await rows(world) == [("done", 1, None, None)]


async def test_work_whose_lease_was_lost_is_cut_short(world: World) -> None:
    await world.append()

    begun, cut = asyncio.Event(), asyncio.Event()

    async def for_ever(_claim: Claim) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    crew = Crew(world, lease=timedelta(seconds=0.3))
    recorder = Recorder(world.database, before=for_ever)
    working = asyncio.ensure_future(crew.runner(Stage.EXTRACTION, recorder).drain())
    await begun.wait()
    await world.sql("update afterturn.claim_t set epoch = 0, lease_until = now() + interval '1 hour'")
    async with asyncio.timeout(PATIENCE_S / 2):  # a drain is left alone after all of it, whatever becomes of the work
        await cut.wait()
        await working


async def test_a_lost_database_costs_no_attempt_and_no_worker(world: World) -> None:
    await world.append()
    crew = Crew(world)

    async def cut(_claim: Claim) -> None:
        if recorder.begun == 1:
            await world.sql("""
                select pg_terminate_backend(pid) from pg_stat_activity
                 where datname = current_database() and pid <> pg_backend_pid() and usename <> 'postgres'""")

    recorder = Recorder(world.database, before=cut)
    runner = crew.runner(Stage.EXTRACTION, recorder)
    for _ in range(5):
        await runner.drain()
    await world.expire_leases()
    await runner.drain()
    status, attempts, *_ = (await rows(world))[0]
    assert status == "done"
    assert attempts <= 2


async def test_a_database_that_is_away_is_waited_for(world: World) -> None:
    away = Database(settings_of(world.postgres.named("not_there")))
    runner = Crew(world).runner(Stage.EXTRACTION, Recorder(away), Ledger(away))
    with capture_logs() as said:
        await runner.drain()
    await away.close()
    assert [line["event"] for line in said] == ["claim_failed"]


async def test_a_worker_told_to_stop_gives_its_claims_back(world: World) -> None:
    await world.append()

    begun = asyncio.Event()

    async def for_ever(_claim: Claim) -> None:
        begun.set()
        await asyncio.Event().wait()

    runner = Crew(world).runner(Stage.EXTRACTION, Recorder(world.database, before=for_ever))
    draining = asyncio.ensure_future(runner.drain())
    await begun.wait()
    await runner.stop(grace_s=0.1)
    await draining
    assert await rows(world) == [("pending", 0, None, None)]
    assert await world.sql("select 1 from afterturn.claim_t") == []


@dataclass
class Away(Ledger):
    """A ledger whose database is away the first times something is given back."""

    world: World
    away: int = 3

    def __post_init__(self) -> None:
        super().__init__(self.world.database)

    async def release(self, claims: Iterable[Claim], wait: timedelta | None = None) -> None:
        if (claims := list(claims)) and self.away:
            self.away -= 1
            raise ConnectionResetError
        await super().release(claims, wait)


async def test_what_an_outage_interrupted_is_given_back_as_soon_as_the_database_is_there_again(world: World) -> None:
    await world.append()
    crew, ledger = Crew(world, lease=timedelta(seconds=600)), Away(world)

    async def cut(_claim: Claim) -> None:
        if recorder.begun == 1:
            raise ConnectionResetError

    recorder = Recorder(world.database, before=cut)
    await crew.runner(Stage.EXTRACTION, recorder, ledger).drain()
    assert (ledger.away, recorder.begun) == (0, 2)
    assert await rows(world) == [("done", 1, None, None)]


async def test_who_is_told_to_stop_does_not_wait_for_the_database(world: World) -> None:
    await world.append()
    crew, ledger = Crew(world, lease=timedelta(seconds=600)), Away(world, away=1_000_000)
    runner = crew.runner(Stage.EXTRACTION, Recorder(world.database, before=failing(ConnectionResetError())), ledger)
    draining = asyncio.ensure_future(runner.drain())
    await until(lambda: ledger.away < 1_000_000, "it was tried")
    await runner.stop(grace_s=PATIENCE_S)
    await draining
    assert [status for status, *_ in await rows(world)] == ["running"]
