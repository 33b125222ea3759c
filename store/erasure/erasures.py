"""Runs erasures from request to receipt, in bounded transactions that may be interrupted.

Each step and its progress are committed together, so an erasure resumes where a crash stopped it.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID, uuid4

from sqlalchemy import bindparam, delete, exists, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from embeddings.retry import Backoff, Retry
from store import identity, schema
from store.authority import act_as_service, renew_call
from store.coalescing import Coalescer
from store.database import Database
from store.database_outage import DEADLOCK, retry_after_states
from store.erasure import requests
from store.erasure.banks import ISSUED
from store.erasure.requests import Erasure, ErasureTarget, Kind, Receipt
from store.erasure.retention import convert_to_microseconds, count_old, find_old_turns, has_ended
from store.erasure.steps import (
    begin_target,
    begin_target_again,
    erase_events_of_user,
    erase_in_bank,
    erase_parts_of_user,
    find_target,
    open_named,
)
from store.erasure.units import LOCK_BANK, LOCK_HOST, LOCK_LOG, LOCK_QUOTA, SHARE_QUOTA, LockedBank
from store.erasure.user_names import read_user_names
from store.errors import NotFound
from store.log.append import admit_call

#: An erasure without progress for this long is resumed by the sweeper.
STALLED_AFTER = timedelta(seconds=30)
#: Retries of a step after a deadlock.
GO_ON = Retry(Backoff(base_s=0.05, factor=2.0), attempts=5)

_JOB, _OPEN = schema.RECALL_JOB.c, schema.OPEN_TURN.c
FORGET_JOBS_OF = delete(schema.RECALL_JOB).where(
    _JOB.host_id == bindparam("host"), _JOB.request["user_id"].astext == bindparam("name")
)
# Deletes open turns of the bank, or of the user and in the user's own banks; callers must prepare them again. A row
# without a user was opened by earlier code, which did not note whose turn it is.
CLOSE_TURNS_OF_BANK = delete(schema.OPEN_TURN).where(
    _OPEN.host_id == bindparam("host"), _OPEN.bank_id == bindparam("thing")
)
CLOSE_TURNS_OF_USER = delete(schema.OPEN_TURN).where(
    _OPEN.host_id == bindparam("host"),
    or_(
        _OPEN.user_id == bindparam("thing"),
        _OPEN.user_id.is_(None),
        exists().where(
            schema.BANK.c.host_id == _OPEN.host_id,
            schema.BANK.c.bank_id == _OPEN.bank_id,
            schema.BANK.c.user_id == bindparam("thing"),
        ),
    ),
)
SEES_BANK = select(
    exists().where(schema.BANK.c.host_id == bindparam("host"), schema.BANK.c.bank_id == bindparam("bank"))
)
GIVE_BACK = text("select afterturn.recount_quota(:host, :now, interval '0')")
SAMPLES = text("select afterturn.erase_samples(:erasure)")
_ERASURE = schema.ERASURE.c
LEFT = (
    select(_ERASURE.host_id, _ERASURE.erasure_id)
    .where(
        _ERASURE.status == "running",
        _ERASURE.updated_at < bindparam("before", type_=schema.TIME),
        _ERASURE.parent_id.is_(None),
    )
    .order_by(_ERASURE.updated_at)
    .limit(20)
)


class Erasures:
    """Opens, continues and accounts for erasures. An instance may be shared within one event loop.

    Each call may raise ResourceBusy, where another transaction holds a bank, a session or the host for long; an
    accepted erasure goes on later.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._samples = Coalescer(self._erase_samples, eager=True)

    async def request(self, host: UUID, target: ErasureTarget) -> UUID:
        """Open an erasure and return its id; `run` carries it out. Writes that would bring the target back are refused.

        A second request for the same target while it runs is the same erasure, which then also takes what was written
        since the first. Raises NotFound for an unknown or foreign target, before anything is locked.
        """
        async with self._database.tenant(host) as connection:
            if await requests.find_running(connection, host, target.kind, target.ids(host)[1]) is None:
                await self._require_target(connection, host, target)
            await admit_call(connection, host)
        with act_as_service():
            async with self._database.tenant(host) as connection:
                opened = await self._write_request(connection, host, target)
        renew_call(self._clock())
        return opened

    async def run(self, host: UUID, erasure: UUID, within: timedelta | None = None) -> Receipt:
        """Continue an erasure until it is done, or for about `within`; return the receipt as of then."""
        until = None if within is None else self._clock() + within
        while not await self._continue_after_deadlocks(host, erasure):
            if until is not None and self._clock() >= until:
                break
        return await self.receipt(host, erasure)

    async def receipt(
        self,
        host: UUID,
        erasure: UUID,
        user: UUID | None = None,
        agent: UUID | None = None,
        granted: Sequence[UUID] = (),
    ) -> Receipt:
        """Return the receipt of an erasure, done or not, as `Database.scoped` may see it. Raises NotFound."""
        async with self._database.scoped(host, user, agent, granted) as connection:
            found = await requests.read_receipt(connection, host, erasure)
            seen = (
                found.target_id == user if found.bank_id is None else await _sees_bank(connection, host, found.bank_id)
            )
        if not seen and (user or agent):
            raise NotFound("no such erasure")
        return found

    async def estimate(self, host: UUID, target: ErasureTarget) -> Receipt:
        """Return the receipt that an erasure would have: it is run in one transaction and rolled back.

        The writers of the bank, or of the host for a user, wait meanwhile. Raises NotFound.
        """
        receipt, _ = await self.preview(host, target, None)
        return receipt

    async def preview(self, host: UUID, target: ErasureTarget, within: timedelta | None) -> tuple[Receipt, bool]:
        """Return the receipt as `estimate` does, of about `within`; False: there is more to erase. Raises NotFound."""
        with act_as_service():
            async with self._database.tenant(host, undo=True) as connection:
                await self._require_target(connection, host, target)
                erasure = await self._write_request(connection, host, target)
                until = None if within is None else self._clock() + within
                while more := await self._erase_page(connection, host, erasure):
                    if until is not None and self._clock() >= until:
                        break
                await requests.save_progress(connection, await self._with_parts(connection, host, erasure))
                return await requests.read_receipt(connection, host, erasure), not more

    async def propose_aliases(self, host: UUID, user: str) -> Sequence[str]:
        """Return the names by which others call a user: an erasure of the user leaves messages that use them."""
        async with self._database.tenant(host) as connection:
            return await read_user_names(connection, host, identity.user_id(host, user), self._clock())

    async def request_old_turns(self, host: UUID, bank: UUID, before: datetime) -> UUID | None:
        """Open the erasure of a bank's turns from before a time, a few thousand at most; return its id.

        None when there is none. `run` carries it out; call again for the rest.
        """
        erasure = Erasure(host, uuid4(), Kind.AGE, bank, bank, self._clock())
        async with self._database.tenant(host) as connection:
            erasure.reached, erasure.upto = await find_old_turns(LockedBank(connection, erasure, bank), before)
        if erasure.reached == erasure.upto:
            return await self._find_running_age(host, bank)
        async with self._database.tenant(host) as connection:
            await connection.execute(LOCK_LOG)
            await connection.execute(LOCK_BANK, {"bank": bank})
            if running := await requests.find_running(connection, host, Kind.AGE, bank):
                return running
            await requests.save_progress(connection, await requests.begin_request(connection, erasure))
        return erasure.erasure_id

    async def request_ended_units(self, host: UUID, bank: UUID, before: datetime) -> UUID | None:
        """Open the erasure of a bank's units that expired before a time; return its id, None when there is none."""
        erasure = Erasure(host, uuid4(), Kind.ENDED, bank, bank, self._clock(), upto=convert_to_microseconds(before))
        async with self._database.tenant(host) as connection:
            await connection.execute(LOCK_LOG)
            await connection.execute(LOCK_BANK, {"bank": bank})
            if running := await requests.find_running(connection, host, Kind.ENDED, bank):
                return running
            if not await has_ended(LockedBank(connection, erasure, bank), before):
                return None
            await requests.save_progress(connection, await requests.begin_request(connection, erasure))
        return erasure.erasure_id

    async def count_old_turns(self, host: UUID, bank: UUID, before: datetime) -> int:
        """Return how many turns of a bank `request_old_turns` would erase in all."""
        async with self._database.tenant(host) as connection:
            return await count_old(
                LockedBank(connection, Erasure(host, bank, Kind.AGE, bank, bank, before), bank), before
            )

    async def _find_running_age(self, host: UUID, bank: UUID) -> UUID | None:
        async with self._database.tenant(host) as connection:
            return await requests.find_running(connection, host, Kind.AGE, bank)

    async def list_stalled(self) -> Sequence[tuple[UUID, UUID]]:
        """Return unfinished erasures (host, erasure) without progress for `STALLED_AFTER`."""
        async with self._database.operator() as connection:
            rows = await connection.execute(LEFT, {"before": self._clock() - STALLED_AFTER})
            return [(row.host_id, row.erasure_id) for row in rows]

    async def put_off(self, host: UUID, erasure: UUID, wait: timedelta = STALLED_AFTER) -> None:
        """Postpone an erasure: `list_stalled` returns it only after `wait`."""
        async with self._database.tenant(host) as connection:
            await requests.put_off(connection, host, erasure, self._clock() - STALLED_AFTER + wait)

    async def _continue_after_deadlocks(self, host: UUID, erasure: UUID) -> bool:
        """Continue an erasure by a page, repeated after a deadlock; return whether the erasure is done."""
        return await GO_ON.call(partial(self._continue, host, erasure), retry_after_states(DEADLOCK))

    async def _continue(self, host: UUID, erasure: UUID) -> bool:
        with act_as_service():
            async with self._database.tenant(host) as connection:
                if await self._erase_page(connection, host, erasure):
                    return False
            return await self._finish(host, erasure)

    async def _require_target(self, connection: AsyncConnection, host: UUID, target: ErasureTarget) -> None:
        bank, thing = target.ids(host)
        erasure = Erasure(host, uuid4(), target.kind, bank, thing, self._clock())
        await find_target(LockedBank(connection, erasure, bank or host), target)

    async def _write_request(self, connection: AsyncConnection, host: UUID, target: ErasureTarget) -> UUID:
        """Write the request under locks, so that no write of the target is under way to the log; return its id."""
        bank, thing = target.ids(host)
        await connection.execute(LOCK_HOST if bank is None else LOCK_LOG, {"host": host})
        await connection.execute(LOCK_QUOTA if target.kind is Kind.BANK else SHARE_QUOTA, {"host": host})
        if bank is not None:
            await connection.execute(LOCK_BANK, {"bank": bank})
        running = await requests.find_running(connection, host, target.kind, thing)
        if running is None:
            erasure = await requests.write_request(connection, host, target, self._clock())
        else:
            erasure = await requests.renew_request(connection, host, running, self._clock())
        closing = CLOSE_TURNS_OF_USER if bank is None else CLOSE_TURNS_OF_BANK
        if closed := (await connection.execute(closing, {"host": host, "thing": bank or thing})).rowcount:
            erasure.counts["open_turns"] += closed
        if bank is not None and running is None:
            await begin_target(LockedBank(connection, erasure, bank))
        elif bank is not None:
            await begin_target_again(LockedBank(connection, erasure, bank))
        else:
            forgotten = await connection.execute(FORGET_JOBS_OF, {"host": host, "name": target.name})
            erasure.counts["recall_jobs"] += forgotten.rowcount
            await open_named(connection, erasure, target)
        erasure.upto = int((await connection.execute(ISSUED)).scalar_one())
        await requests.save_progress(connection, erasure)
        return erasure.erasure_id

    async def _erase_page(self, connection: AsyncConnection, host: UUID, erasure_id: UUID) -> bool:
        """Erase the next page; return whether there may be more."""
        await connection.execute(LOCK_LOG)
        erasure = await requests.lock_request(connection, host, erasure_id, self._clock())
        if erasure.done:
            return False
        if erasure.bank is None and await erase_parts_of_user(connection, erasure):
            more = True
        else:
            await connection.execute(SHARE_QUOTA, {"host": host})
            more = await (erase_events_of_user if erasure.bank is None else erase_in_bank)(connection, erasure)
            if not more:
                erasure.reached = erasure.upto
        await requests.save_progress(connection, erasure)
        return more

    async def _finish(self, host: UUID, erasure_id: UUID) -> bool:
        """Recount the quota, refresh the planner's samples, and finish; False: more was requested meanwhile.

        Recount and refresh read much of the database. They hold no lock that writers take, and nothing of another host.
        """
        async with self._database.tenant(host) as connection:
            erasure = await self._with_parts(connection, host, erasure_id)
        if erasure.done:
            return True
        if any(erasure.counts.values()):
            async with self._database.call() as connection:
                await connection.execute(GIVE_BACK, {"host": host, "now": erasure.at})
            await self._samples.ask((host, erasure_id))
        async with self._database.tenant(host) as connection:
            erasure = await self._with_parts(connection, host, erasure_id)
            renewed = erasure.reached < erasure.upto
            if not erasure.done and (renewed or await requests.next_units(connection, erasure, 1)):
                return False
            if not erasure.done:
                await requests.save_progress(connection, erasure)
                await requests.finish_request(connection, erasure)
        return True

    async def _with_parts(self, connection: AsyncConnection, host: UUID, erasure_id: UUID) -> Erasure:
        """Return an erasure, locked, with the counts of its parts."""
        erasure = await requests.lock_request(connection, host, erasure_id, self._clock())
        if not erasure.done:
            await requests.add_parts(connection, erasure)
        return erasure

    async def _erase_samples(self, ended: Sequence[tuple[UUID, UUID]]) -> Sequence[None]:
        """Refresh the planner's samples, once for all erasures whose rows are gone by now."""
        host, erasure = ended[0]
        async with self._database.tenant(host) as connection:
            await connection.execute(SAMPLES, {"erasure": erasure})
        return [None] * len(ended)


async def _sees_bank(connection: AsyncConnection, host: UUID, bank: UUID) -> bool:
    return bool((await connection.execute(SEES_BANK, {"host": host, "bank": bank})).scalar())
