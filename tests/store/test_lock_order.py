"""Everybody takes locks in one order: the log, the host, its quota, its banks by the keys of their locks, the rest."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import combinations
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from store import identity
from store.database import Database
from store.derived import locks
from store.erasure import Erasures, ErasureTarget, Kind
from store.ledger.ledger import Claim, Ledger, lock_held_claims
from store.ledger.stages import Stage
from store.log.bulk import append_bulk
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer
from store.memory.offered_turns import OfferContext, build_offered_turns
from store.memory.turn_writes import APPEND, append_arguments
from store.memory.turns import TurnStore
from store.off_loop import run_steps
from store.tenancy.banks import Banks
from store.tenancy.keys import Keys
from store.tenancy.quotas import QuotaLimits, Quotas
from tests.store.conftest import NOON, blocked, new_host, rows, turn

LEASE = timedelta(minutes=5)
WRITES = text("select pg_advisory_xact_lock_shared(afterturn.lock_key('quota', :host))")
SHARE = text("select pg_advisory_xact_lock_shared(afterturn.lock_key('bank', :bank))")
TRY_SHARE = text("select pg_try_advisory_xact_lock_shared(afterturn.lock_key('bank', :bank))")
TRY_ALONE = text("select pg_try_advisory_xact_lock(afterturn.lock_key('bank', :bank))")


async def new_bank(database: Database, host: UUID) -> None:
    await Banks(database, lambda: NOON).create(host, None, "new")


async def ended_bank(database: Database, host: UUID) -> None:
    await Erasures(database, lambda: NOON).request(host, ErasureTarget(Kind.BANK, "home"))


async def erased_session(database: Database, host: UUID) -> None:
    erasures = Erasures(database, lambda: NOON)
    assert (await erasures.run(host, await erasures.request(host, ErasureTarget(Kind.SESSION, "home", "s1")))).done


async def loaded(database: Database, host: UUID) -> None:
    origin = Origin(host, identity.bank_id(host, "new"), host, NOON)
    await append_bulk(database, host, [build_offer(origin, EventType.BANK_CREATED, (), {"bankName": "new"})])


@pytest.mark.parametrize("counting", [new_bank, ended_bank, loaded])
async def test_a_writer_that_meets_who_counts_the_quota_is_served(
    database: Database, counting: Callable[[Database, UUID], Awaitable[Any]]
) -> None:
    name = f"host-{counting.__name__}"
    await Keys(database).create(name, "test")
    host = identity.host_id(name)
    await TurnStore(database, lambda: NOON).append(host, [turn()])
    await Quotas(database, lambda: NOON).set(name, None, QuotaLimits(max_banks=9))
    bank = "new" if counting in {new_bank, loaded} else "home"
    offered = run_steps(build_offered_turns(host, [turn("t2", bank=bank)], NOON, OfferContext(b"", (), {})))
    async with database.tenant(host) as writer:
        await writer.execute(WRITES, {"host": host})
        task = asyncio.ensure_future(counting(database, host))
        await blocked(database, host)
        driver: Any = (await writer.get_raw_connection()).driver_connection
        assert await driver.fetchval(APPEND, *append_arguments(host, offered, wait=True)) == ["accepted"]
    await task
    living = await rows(database, host, "select count(*) from agent_memory_bank_t where active")
    counted = await Quotas(database, lambda: NOON).show(name)
    assert counted[0].banks == living[0][0]


async def test_what_is_free_after_an_erasure_is_counted_while_writers_go_on(database: Database) -> None:
    name = f"host-{uuid4().hex}"
    await Keys(database).create(name, "test")
    host = identity.host_id(name)
    await TurnStore(database, lambda: NOON).append(host, [turn(), turn("t2", session="s2")])
    await Quotas(database, lambda: NOON).set(name, None, QuotaLimits(max_turns=9))
    offered = run_steps(
        build_offered_turns(host, [turn("t3", session="s3", bank="other")], NOON, OfferContext(b"", (), {}))
    )
    async with database.tenant(host) as writer:
        driver: Any = (await writer.get_raw_connection()).driver_connection
        assert await driver.fetchval(APPEND, *append_arguments(host, offered, wait=True)) == ["accepted"]
        # The writer has paid for its turn and not committed yet: only the quota's row is waited for.
        task = asyncio.ensure_future(erased_session(database, host))
        await blocked(database, host)
    await task
    assert (await Quotas(database, lambda: NOON).show(name))[0].turns == 2


async def test_who_erases_in_many_banks_holds_none_that_a_writer_takes_after_the_one_it_holds(
    database: Database, host: UUID
) -> None:
    """A batch takes its banks by the keys of their locks; here the other order would be by the banks' ids."""
    keys = "select bank_id, afterturn.lock_key('bank', bank_id) from agent_memory_bank_t order by 2"
    names = [f"bank {n}" for n in range(20)]
    await TurnStore(database, lambda: NOON).append(host, [turn(bank=name, user_id="ann") for name in names])
    in_order = [bank for bank, _ in await rows(database, host, keys)]
    first, last = next((a, b) for a, b in combinations(in_order, 2) if b < a)
    erasures = Erasures(database, lambda: NOON)
    erasure = await erasures.request(host, ErasureTarget(Kind.USER, None, "ann"))
    async with database.tenant(host) as writer:
        await writer.execute(SHARE, {"bank": first})
        task = asyncio.create_task(erasures.run(host, erasure))
        await blocked(database, host)
        free = (await writer.execute(TRY_SHARE, {"bank": last})).scalar_one()
    assert (await task).done
    assert free


async def test_who_derives_holds_no_bank_while_it_waits_for_the_log(lonely: Database) -> None:
    host, bank = await new_host(lonely), uuid4()

    async def derives() -> None:
        async with lonely.tenant(host) as connection:
            await locks.lock_bank(connection, bank)

    async with lonely.tenant(host) as swap:
        await swap.execute(text("select pg_advisory_xact_lock(afterturn.log_lock())"))
        task = asyncio.create_task(derives())
        await blocked(lonely, host)
        assert (await swap.execute(TRY_ALONE, {"bank": bank})).scalar_one()
    await task


async def test_leases_are_renewed_in_the_order_in_which_claims_are_closed(lonely: Database) -> None:
    host, ledger, claims = await new_host(lonely), Ledger(lonely), list[Claim]()
    bank = identity.bank_id(host, "home")
    for name in sorted(("s1", "s2"), key=lambda name: identity.session_id(bank, name), reverse=True):
        await TurnStore(lonely, lambda: NOON).append(host, [turn(session=name)])
        claims += await ledger.claim(Stage.EXTRACTION, streams=1, rows=1, lease=LEASE, worker="w", max_attempts=5)
    last, first = claims
    assert first.stream_id < last.stream_id
    async with lonely.tenant(host) as closing:
        await lock_held_claims(closing, [first])
        renewing = asyncio.create_task(ledger.renew(claims, LEASE))
        await blocked(lonely, host)
        assert await lock_held_claims(closing, [last]) == [last]
    assert await renewing == {first.epoch, last.epoch}
