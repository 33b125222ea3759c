"""Stores recall jobs: each is a row of the tenant that holds question and answer, and expires.

Question and answer are wiped when the job expires; the empty row is deleted a day later. The number of attempts,
counted when a job is taken, is its fencing token: a worker that lost its lease writes no result.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy import (
    Interval,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    cast,
    delete,
    func,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert

from store import identity
from store.database import Database
from store.errors import NotFound, RateLimited
from store.log.append import admit_call
from store.log.refusals import translate_refusals
from store.schema import RECALL_JOB, TIME
from store.tenancy.banks import space_ids
from store.tenancy.quotas import run_within_quota
from store.tenancy.spaces import parse_space
from store.tracing import current_traceparent

#: Attempts after which a job has failed.
MAX_ATTEMPTS = 3
#: How long the row of an expired job is kept, so that its caller learns that it expired.
REMEMBERED = timedelta(days=1)
SWEEP_LIMIT = 500

#: Most bytes of a tenant's unexpired jobs, answers included, and seconds until a refused caller may retry.
MOST_KEPT_BYTES, RETRY_AFTER_S = 67_108_864, 5

_JOB = RECALL_JOB.c
_NOW = bindparam("now", type_=TIME)
_LEASE = func.now() + bindparam("lease", type_=Interval())
_NAMED = and_(_JOB.host_id == bindparam("host"), _JOB.job_id == bindparam("job"))
#: The attempt is the fencing token: a worker that lost its lease changes nothing.
_HELD_BY = and_(_NAMED, _JOB.status == "running", _JOB.attempts == bindparam("attempt"))
_UNDONE = _JOB.status.in_(("pending", "running"))
_FREE = or_(_JOB.lease_until.is_(None), _JOB.lease_until <= func.now())
_TO_WIPE = and_(_JOB.expires_at <= _NOW, or_(_JOB.status != "failed", _JOB.lease_until.is_not(None)))
#: The names of the banks stay: they decide which keys may read the row.
_WIPED = func.jsonb_strip_nulls(
    func.jsonb_build_object("bank", _JOB.request["bank"], "banks", _JOB.request["banks"]), type_=JSONB
)

HELD = select(
    func.count().filter(_UNDONE).label("waiting"), func.coalesce(func.sum(_JOB.bytes), 0).label("bytes")
).where(_JOB.host_id == bindparam("host"), _JOB.expires_at > _NOW)
OPEN = (
    insert(RECALL_JOB)
    .values(
        host_id=bindparam("host"),
        job_id=bindparam("job"),
        request=cast(bindparam("question", type_=Text), JSONB),
        created_at=_NOW,
        expires_at=bindparam("until"),
    )
    .on_conflict_do_nothing(index_elements=[_JOB.host_id, _JOB.job_id])
)
KEEP_TRACEPARENT = update(RECALL_JOB).where(_NAMED).values(traceparent=bindparam("trace"))
TRACEPARENT_OF = select(_JOB.traceparent).where(_NAMED)
READ = select(
    func.coalesce(_JOB.request["banks"], func.jsonb_build_array(_JOB.request["bank"])).label("banks"),
    _JOB.status,
    cast(_JOB.result, Text).label("result"),
    _JOB.error_category,
    _JOB.expires_at,
).where(_NAMED)
CANCEL = delete(RECALL_JOB).where(_NAMED)
_HAS_ATTEMPTS = _JOB.attempts < bindparam("max_attempts")
TAKE = (
    update(RECALL_JOB)
    .where(_NAMED, _UNDONE, _JOB.expires_at > _NOW, _FREE)
    .values(
        status=case((_HAS_ATTEMPTS, "running"), else_="failed"),
        error_category=case((_HAS_ATTEMPTS, None), else_="exhausted"),
        attempts=_JOB.attempts + case((_HAS_ATTEMPTS, 1), else_=0),
        lease_until=_LEASE,
    )
    .returning(_JOB.status, cast(_JOB.request, Text).label("request"), _JOB.attempts)
)
RENEW = update(RECALL_JOB).where(_HELD_BY).values(lease_until=_LEASE)
FINISH = (
    update(RECALL_JOB)
    .where(_HELD_BY)
    .values(
        status=bindparam("outcome"),
        result=cast(bindparam("answer", type_=Text), JSONB),
        error_category=bindparam("category"),
        lease_until=None,
        request=_WIPED,
    )
)
# The attempt may be decremented although it is the fencing token: a worker that gives a job back never writes a result.
GIVE_BACK = update(RECALL_JOB).where(_HELD_BY).values(status="pending", attempts=_JOB.attempts - 1, lease_until=None)
WAITING = (
    select(_JOB.host_id, _JOB.job_id)
    .where(_UNDONE, _JOB.expires_at > _NOW, _FREE)
    .order_by(_JOB.created_at)
    .limit(SWEEP_LIMIT)
)
EXPIRED = select(_JOB.host_id, _JOB.job_id).where(_TO_WIPE).order_by(_JOB.expires_at).limit(SWEEP_LIMIT)
_FORGOTTEN = _JOB.expires_at <= bindparam("before")
COUNT_EXPIRED = select(func.count()).select_from(RECALL_JOB).where(or_(_FORGOTTEN, _TO_WIPE))
WIPE = (
    update(RECALL_JOB)
    .where(_JOB.host_id == bindparam("host"), _JOB.job_id == any_(bindparam("jobs", type_=ARRAY(Uuid))))
    .values(status="failed", error_category="expired", result=null(), lease_until=None, request=_WIPED)
)
_OLDEST = select(_JOB.host_id, _JOB.job_id).where(_FORGOTTEN).order_by(_JOB.expires_at).limit(SWEEP_LIMIT).subquery("o")
FORGET = delete(RECALL_JOB).where(_JOB.host_id == _OLDEST.c.host_id, _JOB.job_id == _OLDEST.c.job_id)


@dataclass(frozen=True, slots=True)
class RecallJob:
    """The state of a job: pending, done, failed or expired; `result` is the worker's answer, as JSON, if done."""

    banks: tuple[str, ...]
    status: str
    result: bytes | None = field(repr=False)
    error_category: str | None


@dataclass(frozen=True, slots=True)
class TakenJob:
    """A job under a lease; `attempt` is its fencing token."""

    host_id: UUID
    job_id: UUID
    attempt: int
    request: Mapping[str, Any] = field(repr=False)


def _concerned_by(host: UUID, request: Mapping[str, Any]) -> tuple[list[UUID], list[UUID]]:
    """Return the ids of the banks and of the users that a question names."""
    banks = request.get("banks") or [request["bank"]]
    owners = [owner for bank in banks if (owner := space_ids(host, parse_space(bank))[0])]
    user = request.get("user_id")
    return [identity.bank_id(host, bank) for bank in banks], [
        *owners,
        *([identity.user_id(host, user)] if user else []),
    ]


class RecallJobs:
    """The store of recall jobs; `clock` decides which have expired."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def open(
        self,
        host: UUID,
        request: Mapping[str, Any],
        ttl: timedelta,
        *,
        most_waiting: int | None = None,
        job: UUID | None = None,
    ) -> tuple[UUID, datetime]:
        """Open a job; return its id and when it expires. The request must name its `bank`, or its `banks`.

        A `job` that exists already stays unchanged. Raises QuotaExceeded, and RateLimited if `most_waiting` jobs of the
        tenant are undone already, or its jobs hold too many bytes.
        """
        job, now = job or uuid4(), self._clock()
        arguments = {"host": host, "job": job, "question": orjson.dumps(request).decode()}

        async def write() -> None:
            with translate_refusals():
                async with self._database.tenant(host) as connection:
                    await admit_call(connection, host, *_concerned_by(host, request))
                    held = (await connection.execute(HELD, {"host": host, "now": now})).one()
                    if most_waiting is not None and held.waiting >= most_waiting:
                        raise RateLimited("max_recall_jobs", "host", most_waiting, RETRY_AFTER_S)
                    if held.bytes >= MOST_KEPT_BYTES:
                        raise RateLimited("max_bytes_of_recall_jobs", "host", MOST_KEPT_BYTES, RETRY_AFTER_S)
                    opened = await connection.execute(OPEN, {**arguments, "now": now, "until": now + ttl})
                    if opened.rowcount and (traceparent := current_traceparent()):
                        named = {"host": host, "job": job, "trace": traceparent}
                        await connection.execute(KEEP_TRACEPARENT, named)

        await run_within_quota(self._database, host, now, write)
        return job, now + ttl

    async def read(self, host: UUID, job: UUID) -> RecallJob:
        """Return the state of a job. Raises NotFound, for other tenants' jobs too."""
        async with self._database.tenant(host) as connection:
            row = (await connection.execute(READ, {"host": host, "job": job})).one_or_none()
        if row is None:
            raise NotFound("no such recall job")
        if row.expires_at <= self._clock():
            return RecallJob(tuple(row.banks), "expired", None, "expired")
        status = "pending" if row.status == "running" else row.status
        return RecallJob(tuple(row.banks), status, row.result and row.result.encode(), row.error_category)

    async def cancel(self, host: UUID, job: UUID) -> None:
        """Remove a job and its answer at once. Raises NotFound."""
        async with self._database.tenant(host) as connection:
            gone = await connection.execute(CANCEL, {"host": host, "job": job})
        if not gone.rowcount:
            raise NotFound("no such recall job")

    async def take(self, host: UUID, job: UUID, lease: timedelta) -> TakenJob | None:
        """Take a job under a lease; return None if it is done, expired, cancelled, exhausted or leased by another."""
        arguments = {"host": host, "job": job, "lease": lease, "max_attempts": MAX_ATTEMPTS, "now": self._clock()}
        async with self._database.tenant(host) as connection:
            row = (await connection.execute(TAKE, arguments)).one_or_none()
        if row is None or row.status != "running":
            return None
        return TakenJob(host, job, row.attempts, orjson.loads(row.request))

    async def read_traceparent(self, taken: TakenJob) -> str | None:
        """Return the traceparent of the request that opened the job, None if it was not traced."""
        async with self._database.tenant(taken.host_id) as connection:
            named = {"host": taken.host_id, "job": taken.job_id}
            found: str | None = (await connection.execute(TRACEPARENT_OF, named)).scalar()
            return found

    async def renew(self, taken: TakenJob, lease: timedelta) -> bool:
        """Extend a lease; return False if the lease was lost or the job was cancelled meanwhile."""
        arguments = {"host": taken.host_id, "job": taken.job_id, "attempt": taken.attempt, "lease": lease}
        async with self._database.tenant(taken.host_id) as connection:
            return bool((await connection.execute(RENEW, arguments)).rowcount)

    async def finish(self, taken: TakenJob, result: bytes) -> bool:
        """Store the answer (JSON) for the caller; return False if the lease was lost or the job was cancelled."""
        return await self._end(taken, "done", result, None)

    async def fail(self, taken: TakenJob, category: str) -> bool:
        """Mark a job as failed, with the category of its error; return False if the lease was lost."""
        return await self._end(taken, "failed", None, category)

    async def give_back(self, taken: TakenJob) -> None:
        """Return a job that could not be worked on to pending, at once and without counting the attempt."""
        arguments = {"host": taken.host_id, "job": taken.job_id, "attempt": taken.attempt}
        async with self._database.tenant(taken.host_id) as connection:
            await connection.execute(GIVE_BACK, arguments)

    async def waiting(self) -> list[tuple[UUID, UUID]]:
        """Return undone jobs (host, job) without a live lease, oldest first, for the sweeper's notifications."""
        async with self._database.operator() as connection:
            rows = await connection.execute(WAITING, {"now": self._clock()})
            return [(row.host_id, row.job_id) for row in rows]

    async def sweep(self) -> int:
        """Wipe a batch of expired jobs and delete a batch of those REMEMBERED long enough; return their number."""
        now = self._clock()
        async with self._database.operator() as connection:
            forgotten = await connection.execute(FORGET, {"before": now - REMEMBERED})
            expired = (await connection.execute(EXPIRED, {"now": now})).all()
        by_host: dict[UUID, list[UUID]] = defaultdict(list)
        for row in expired:
            by_host[row.host_id].append(row.job_id)
        for host, jobs in by_host.items():
            async with self._database.tenant(host) as connection:
                await connection.execute(WIPE, {"host": host, "jobs": jobs})
        return forgotten.rowcount + len(expired)

    async def expired(self) -> int:
        """Return how many jobs `sweep` would wipe or delete in all its batches."""
        now = self._clock()
        async with self._database.operator() as connection:
            found = await connection.execute(COUNT_EXPIRED, {"now": now, "before": now - REMEMBERED})
            return int(found.scalar_one())

    async def _end(self, taken: TakenJob, status: str, result: bytes | None, category: str | None) -> bool:
        arguments = {
            "host": taken.host_id,
            "job": taken.job_id,
            "attempt": taken.attempt,
            "outcome": status,
            "answer": result and result.decode(),
            "category": category,
        }
        async with self._database.tenant(taken.host_id) as connection:
            return bool((await connection.execute(FINISH, arguments)).rowcount)
