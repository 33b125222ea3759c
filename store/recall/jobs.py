"""Recalls asked for now and answered by a worker: question and answer wait in a row of the tenant, and expire.

What was asked and answered is wiped when the job expires; the empty row goes a day later. Attempts are counted when a
job is taken and fence its result: a worker that lost its lease writes nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy import text

from store.database import Database
from store.errors import NotFound, RateLimited
from store.log.refusals import translate_refusals
from store.tenancy.quotas import within_quota
from store.tracing import current_traceparent

#: Attempts before a job has failed.
MAX_ATTEMPTS = 3
#: How long an expired job still says that it expired.
REMEMBERED = timedelta(days=1)
SWEEP_LIMIT = 500

#: Bytes that the jobs of a tenant, their answers included, may hold until they expire; and when to come again.
MOST_KEPT_BYTES, RETRY_AFTER_S = 67_108_864, 5

HELD = text("""
    select count(*) filter (where status in ('pending', 'running')) as waiting, coalesce(sum(bytes), 0) as bytes
      from afterturn.recall_job_t where host_id = :host and expires_at > :now""")
OPEN = text("""
    insert into afterturn.recall_job_t (host_id, job_id, request, created_at, expires_at)
    values (:host, :job, cast(:request as jsonb), :now, :expires_at)
    on conflict (host_id, job_id) do nothing""")
KEEP_TRACEPARENT = text("""
    update afterturn.recall_job_t set traceparent = :traceparent where host_id = :host and job_id = :job""")
TRACEPARENT_OF = text("select traceparent from afterturn.recall_job_t where host_id = :host and job_id = :job")
READ = text("""
    select coalesce(request->'banks', jsonb_build_array(request->'bank')) as banks, status,
           cast(result as text) as result, error_category, expires_at
      from afterturn.recall_job_t where host_id = :host and job_id = :job""")
CANCEL = text("delete from afterturn.recall_job_t where host_id = :host and job_id = :job")
TAKE = text("""
    update afterturn.recall_job_t
       set status = case when attempts < :max_attempts then 'running' else 'failed' end,
           error_category = case when attempts < :max_attempts then null else 'exhausted' end,
           attempts = attempts + (attempts < :max_attempts)::int, lease_until = now() + :lease
     where host_id = :host and job_id = :job and status in ('pending', 'running') and expires_at > :now
       and (lease_until is null or lease_until <= now())
    returning status, cast(request as text) as request, attempts""")
RENEW = text("""
    update afterturn.recall_job_t set lease_until = now() + :lease
     where host_id = :host and job_id = :job and status = 'running' and attempts = :attempt""")
# The banks stay: they decide who may read the row.
_WIPED = "jsonb_strip_nulls(jsonb_build_object('bank', request->'bank', 'banks', request->'banks'))"
FINISH = text(f"""
    update afterturn.recall_job_t
       set status = :status, result = cast(:result as jsonb), error_category = :category, lease_until = null,
           request = {_WIPED}
     where host_id = :host and job_id = :job and status = 'running' and attempts = :attempt""")  # noqa: S608 - constants
# WHY the attempt may be taken back although it is the fence: a worker that gives a job back never writes its answer.
GIVE_BACK = text("""
    update afterturn.recall_job_t set status = 'pending', attempts = attempts - 1, lease_until = null
     where host_id = :host and job_id = :job and status = 'running' and attempts = :attempt""")
WAITING = text("""
    select host_id, job_id from afterturn.recall_job_t
     where status in ('pending', 'running') and expires_at > :now and (lease_until is null or lease_until <= now())
     order by created_at limit :limit""")
EXPIRED = text("""
    select host_id, job_id from afterturn.recall_job_t
     where expires_at <= :now and (status <> 'failed' or lease_until is not null) order by expires_at limit :limit""")
COUNT_EXPIRED = text("""
    select count(*) from afterturn.recall_job_t
     where expires_at <= :before or (expires_at <= :now and (status <> 'failed' or lease_until is not null))""")
WIPE = text(f"""
    update afterturn.recall_job_t
       set status = 'failed', error_category = 'expired', result = null, lease_until = null,
           request = {_WIPED}
     where host_id = :host and job_id = any(:jobs)""")  # noqa: S608 - constants
FORGET = text("""
    delete from afterturn.recall_job_t j
     using (select host_id, job_id from afterturn.recall_job_t
             where expires_at <= :before order by expires_at limit :limit) o
     where j.host_id = o.host_id and j.job_id = o.job_id""")


@dataclass(frozen=True, slots=True)
class RecallJob:
    """How a job stands: pending, done, failed or expired; `result` as the worker left it, JSON, when done."""

    banks: tuple[str, ...]
    status: str
    result: bytes | None = field(repr=False)
    error_category: str | None


@dataclass(frozen=True, slots=True)
class TakenJob:
    """A job under a lease; `attempt` is its fence."""

    host_id: UUID
    job_id: UUID
    attempt: int
    request: Mapping[str, Any] = field(repr=False)


class RecallJobs:
    """Keeps recall jobs; `clock` says what has expired."""

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
        """Open a job; returns its id and when it expires. The request must name its `bank`, or its `banks`.

        A `job` that is open already stays as it is.

        Raises QuotaExceeded, and RateLimited where too many jobs of the tenant wait already, or hold too many bytes.
        """
        job, now = job or uuid4(), self._clock()
        arguments = {"host": host, "job": job, "request": orjson.dumps(request).decode()}

        async def write() -> None:
            with translate_refusals():
                async with self._database.tenant(host) as connection:
                    held = (await connection.execute(HELD, {"host": host, "now": now})).one()
                    if most_waiting is not None and held.waiting >= most_waiting:
                        raise RateLimited("max_recall_jobs", "host", most_waiting, RETRY_AFTER_S)
                    if held.bytes >= MOST_KEPT_BYTES:
                        raise RateLimited("max_bytes_of_recall_jobs", "host", MOST_KEPT_BYTES, RETRY_AFTER_S)
                    opened = await connection.execute(OPEN, {**arguments, "now": now, "expires_at": now + ttl})
                    if opened.rowcount and (traceparent := current_traceparent()):
                        named = {"host": host, "job": job, "traceparent": traceparent}
                        await connection.execute(KEEP_TRACEPARENT, named)

        await within_quota(self._database, host, now, write)
        return job, now + ttl

    async def read(self, host: UUID, job: UUID) -> RecallJob:
        """Say how a job stands. Raises NotFound, for foreign jobs too."""
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
        """Take a job under a lease; None when it is done, expired, cancelled, exhausted or another worker's now."""
        arguments = {"host": host, "job": job, "lease": lease, "max_attempts": MAX_ATTEMPTS, "now": self._clock()}
        async with self._database.tenant(host) as connection:
            row = (await connection.execute(TAKE, arguments)).one_or_none()
        if row is None or row.status != "running":
            return None
        return TakenJob(host, job, row.attempts, orjson.loads(row.request))

    async def read_traceparent(self, taken: TakenJob) -> str | None:
        """Return what continues the trace of the request that asked, if it was traced."""
        async with self._database.tenant(taken.host_id) as connection:
            named = {"host": taken.host_id, "job": taken.job_id}
            found: str | None = (await connection.execute(TRACEPARENT_OF, named)).scalar()
            return found

    async def renew(self, taken: TakenJob, lease: timedelta) -> bool:
        """Prolong a lease. False: the job was lost or cancelled meanwhile."""
        arguments = {"host": taken.host_id, "job": taken.job_id, "attempt": taken.attempt, "lease": lease}
        async with self._database.tenant(taken.host_id) as connection:
            return bool((await connection.execute(RENEW, arguments)).rowcount)

    async def finish(self, taken: TakenJob, result: bytes) -> bool:
        """Store the answer (JSON) for the caller. False: the job was lost or cancelled meanwhile."""
        return await self._end(taken, "done", result, None)

    async def fail(self, taken: TakenJob, category: str) -> bool:
        """Say that there will be no answer, and what kind of fault it was. False: the job was lost."""
        return await self._end(taken, "failed", None, category)

    async def give_back(self, taken: TakenJob) -> None:
        """Leave a job that could not be worked on for the next, at once and with its attempt."""
        arguments = {"host": taken.host_id, "job": taken.job_id, "attempt": taken.attempt}
        async with self._database.tenant(taken.host_id) as connection:
            await connection.execute(GIVE_BACK, arguments)

    async def waiting(self) -> list[tuple[UUID, UUID]]:
        """Name jobs (host, job) without a live lease, oldest first: the sweeper notifies workers of them."""
        async with self._database.operator() as connection:
            rows = await connection.execute(WAITING, {"now": self._clock(), "limit": SWEEP_LIMIT})
            return [(row.host_id, row.job_id) for row in rows]

    async def sweep(self) -> int:
        """Wipe what expired and forget what expired long ago, a batch of each; returns how many jobs that were."""
        now = self._clock()
        async with self._database.operator() as connection:
            forgotten = await connection.execute(FORGET, {"before": now - REMEMBERED, "limit": SWEEP_LIMIT})
            expired = (await connection.execute(EXPIRED, {"now": now, "limit": SWEEP_LIMIT})).all()
        by_host: dict[UUID, list[UUID]] = defaultdict(list)
        for row in expired:
            by_host[row.host_id].append(row.job_id)
        for host, jobs in by_host.items():
            async with self._database.tenant(host) as connection:
                await connection.execute(WIPE, {"host": host, "jobs": jobs})
        return forgotten.rowcount + len(expired)

    async def expired(self) -> int:
        """Count what `sweep` would wipe or forget in the end."""
        now = self._clock()
        async with self._database.operator() as connection:
            found = await connection.execute(COUNT_EXPIRED, {"now": now, "before": now - REMEMBERED})
            return int(found.scalar_one())

    async def _end(self, taken: TakenJob, status: str, result: bytes | None, category: str | None) -> bool:
        arguments = {
            "host": taken.host_id,
            "job": taken.job_id,
            "attempt": taken.attempt,
            "status": status,
            "result": result and result.decode(),
            "category": category,
        }
        async with self._database.tenant(taken.host_id) as connection:
            return bool((await connection.execute(FINISH, arguments)).rowcount)
