"""Work of all tenants as an operator sees and changes it: rows of the ledger and worker processes, never content."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from producers.errors import FieldProblem, Invalid
from producers.service.bodies import parse_body
from producers.service.fields import BankName, Name, Text
from producers.service.paging import (
    Cursor,
    Limit,
    ListOrder,
    PageAnswer,
    read_moment,
    read_position,
)
from producers.service.wire import Done, LogPosition, RequestModel, WireModel
from store import identity
from store.database import Database
from store.errors import NotFound
from store.ledger.listing import OPEN_STATUSES, Backlog, LedgerCursor, LedgerEntry, Selection
from store.ledger.quarantine import Quarantine
from store.ledger.stages import Stage
from store.ledger.workers import WorkerRegistry
from store.tenancy.call_audit import NO_HOST

#: Rows that one call changes, and worker processes that one call names.
MOST_CHANGED = 200

TENANT_ID = "0d5f6f2d-9c11-5c5b-9a55-6d3c5f0e8a41"
KEY_ID = "3f6a1c9b-7e20-4a3e-8d51-0b7c1f5e52a7"
AT = "2026-03-02T09:30:00+00:00"
WORKER = "app-1:4711:0b7c11aa"

TenantName = Annotated[Name, Field(description="name of the tenant")]
AnyTenant = Annotated[Name | None, Field(description="name of a tenant; left out: all tenants")]


class JobFilter(BaseModel):
    """Filter of ledger rows: tenant, bank, stage, status, error category, age."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: AnyTenant = None
    bank: BankName | None = Field(None, description="name of a bank of `tenant`, which it needs; left out: all banks")
    stage: Stage | None = Field(None, description="stage of the work; left out: all stages")
    status: Literal["pending", "running", "unknown", "dead"] | None = Field(
        None, description="status of the work: `dead` is quarantined; left out: each of these"
    )
    category: Name | None = Field(None, description="category of the last error; left out: with and without one")
    older_than_s: float | None = Field(
        None, ge=0, le=10 * 366 * 86_400, description="seconds since the turn was accepted, at least; left out: any age"
    )

    def select(self, after: LedgerCursor | None = None) -> Selection:
        """Return the selection of rows after a place. Raises Invalid."""
        if self.bank is not None and self.tenant is None:
            raise Invalid(FieldProblem("bank", "is a bank of a tenant: name the tenant, too"))
        host = None if self.tenant is None else identity.host_id(self.tenant)
        return Selection(
            stages=tuple(Stage) if self.stage is None else (self.stage,),
            statuses=OPEN_STATUSES if self.status is None else (self.status,),
            host=host,
            bank=None if host is None or self.bank is None else identity.bank_id(host, self.bank),
            category=self.category,
            older_than=None if self.older_than_s is None else timedelta(seconds=self.older_than_s),
            after=after,
        )


class JobsParameters(JobFilter):
    """Filter and page of ledger rows, the oldest first."""

    limit: Limit = 50
    cursor: Cursor = None


class JobsBody(RequestModel):
    """Quarantined rows, and what to do with them."""

    action: Literal["retry", "drop"] = Field(
        description="whether to requeue the rows (`retry`) or to mark them as skipped"
    )
    tenant: TenantName
    stage: Stage = Field(strict=False, description="stage of the rows")
    ids: list[str] = Field(min_length=1, max_length=MOST_CHANGED, description="ids of quarantined rows")
    reason: Text = Field("", max_length=200, description="why they are dropped")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "action": "retry",
        "tenant": "acme",
        "stage": "extraction",
        "ids": [KEY_ID],
    }


class DrainBody(RequestModel):
    """The worker processes to drain."""

    workers: list[Name] = Field(
        default_factory=list, max_length=MOST_CHANGED, description="names of the worker processes"
    )
    everyone: bool = Field(False, description="whether to drain all of them instead")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"workers": [WORKER]}


class JobAnswer(WireModel):
    """A row of the ledger, without content."""

    id: UUID = Field(description="id of the row")
    turn_id: UUID = Field(description="id of the turn")
    stage: str = Field(description="stage of the work")
    status: str = Field(description="status of the work; `dead` is quarantined")
    state: str = Field(description="the same in detail: `add_unknown` is an `unknown` delivery")
    follow_up: bool = Field(description="whether a stage, a correction or an erasure opened it beside the turn's own")
    tenant: str = Field(description="name of the tenant")
    bank_id: UUID = Field(description="id of the bank")
    session_id: UUID = Field(description="id of the session")
    position: LogPosition
    attempts: int = Field(description="number of attempts")
    category: str | None = Field(description="category of the last error; null: there was none")
    reason: str | None = Field(description="sanitised reason of the last error; null: none is known")
    age_s: float = Field(description="seconds since the turn was accepted")
    accepted_at: datetime = Field(description="time at which the turn was accepted")
    updated_at: datetime = Field(description="time of its last change")
    next_attempt_at: datetime | None = Field(description="time of the next attempt; null: it has ended")
    waits_for: str | None = Field(description="stage that must end before it; null: none")
    worker: str | None = Field(description="worker that has claimed it; null: none")


JOB: Mapping[str, Any] = {
    "id": KEY_ID,
    "turn_id": KEY_ID,
    "stage": "extraction",
    "status": "dead",
    "state": "dead",
    "follow_up": False,
    "tenant": "acme",
    "bank_id": TENANT_ID,
    "session_id": TENANT_ID,
    "position": 42,
    "attempts": 5,
    "category": "timeout",
    "reason": None,
    "age_s": 12.5,
    "accepted_at": AT,
    "updated_at": AT,
    "next_attempt_at": None,
    "waits_for": None,
    "worker": None,
}


class JobsAnswer(PageAnswer):
    """Undone and failed rows, the oldest first."""

    jobs: list[JobAnswer] = Field(description="undone and failed rows, the oldest first")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"jobs": [JOB], **PageAnswer.EXAMPLE}


class JobCounts(WireModel):
    """Number of rows by status."""

    pending: int = Field(description="rows that wait")
    running: int = Field(description="rows that a worker has claimed")
    unknown: int = Field(description="deliveries that may have arrived")
    dead: int = Field(description="quarantined rows")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"pending": 12, "running": 4, "unknown": 0, "dead": 1}


class NoteAnswer(WireModel):
    """A recorded event of a turn's work."""

    at: datetime = Field(description="time of the event")
    event: str = Field(description="name of the event")


class JobHistoryAnswer(WireModel):
    """The work of a turn."""

    turn_id: UUID = Field(description="id of the turn")
    jobs: list[JobAnswer] = Field(description="its rows in every stage, follow-ups included")
    history: list[NoteAnswer] = Field(description="its recorded events")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "turn_id": KEY_ID,
        "jobs": [JOB],
        "history": [{"at": AT, "event": "extraction.failed"}],
    }


class JobsChanged(Done):
    """The rows are changed."""

    changed: int = Field(description="number of changed rows")
    left: int = Field(description="number of the others: they changed meanwhile, or do not allow this change")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"ok": True, "changed": 1, "left": 0}


class WorkerAnswer(WireModel):
    """A worker process."""

    worker: str = Field(description="name of the process: machine, process id and a random part")
    version: str = Field(description="version that it runs")
    stages: list[str] = Field(description="stages that it works on")
    started_at: datetime = Field(description="time of its start")
    seen_at: datetime = Field(description="time of its last heartbeat")
    state: str = Field(description="`working`, `draining`, `drained` or `gone`")
    claims: int = Field(description="number of its claims")


class WorkersAnswer(WireModel):
    """The worker processes, oldest first."""

    workers: list[WorkerAnswer] = Field(description="worker processes, the oldest first")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "workers": [
            {
                "worker": WORKER,
                "version": "0.1.0",
                "stages": ["embedding"],
                "started_at": AT,
                "seen_at": AT,
                "state": "working",
                "claims": 0,
            }
        ]
    }


class DrainAnswer(Done):
    """The processes drain."""

    draining: list[str] = Field(description="names of the processes that drain; their list shows when they are drained")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"ok": True, "draining": [WORKER]}


JOBS: ListOrder[LedgerEntry] = ListOrder("jobs", lambda entry: entry.place, (read_moment, read_position, Stage, UUID))


class OperatorWork:
    """Operations on work for operators; the caller is already authenticated."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._backlog = Backlog(database)
        self._workers = WorkerRegistry(database)

    async def list_jobs(self, asked: JobsParameters) -> dict[str, Any]:
        """Return a page of ledger rows. Raises Invalid."""
        scope = asked.model_dump_json(exclude={"limit", "cursor"})
        place = JOBS.open(NO_HOST, scope, asked.cursor)
        rows, _ = await self._backlog.rows(asked.select(LedgerCursor(*place) if place else None), asked.limit + 1)
        page = JOBS.close(NO_HOST, scope, rows, asked.limit)
        return page.as_json("jobs", [describe_job(row) for row in page.rows])

    async def count_jobs(self, asked: JobFilter) -> dict[str, int]:
        """Return the number of rows by status; a status that the filter leaves out is 0. Raises Invalid."""
        chosen = asked.select()
        counts = await self._backlog.count_by_status(chosen)
        return {status: number if status in chosen.statuses else 0 for status, number in counts.items()}

    async def show_job(self, item: UUID, tenant: str | None) -> tuple[UUID, dict[str, Any]]:
        """Return a turn's rows, by its id or that of one of them, and its tenant's id. Raises NotFound."""
        rows = await self._backlog.of_turn(item, None if tenant is None else identity.host_id(tenant))
        if not rows:
            raise NotFound("there is no such turn")
        notes = await self._backlog.history(rows[0].host_id, rows[0].turn_id)
        history = [{"at": note.at, "event": note.event} for note in notes]
        jobs = [describe_job(row) for row in rows]
        return rows[0].host_id, {"turn_id": rows[0].turn_id, "jobs": jobs, "history": history}

    async def change_jobs(self, by: UUID, asked: Any) -> tuple[UUID, dict[str, Any]]:
        """Retry or drop rows; return the counts and the tenant's id. Raises Invalid, NotFound."""
        body = parse_body(JobsBody, asked)
        host, wanted = identity.host_id(body.tenant), {_parse_id(one) for one in body.ids}
        chosen = await self._backlog.with_ids(host, body.stage, wanted)
        quarantine = Quarantine(self._database, f"operator key {by}")
        done = await (quarantine.drop(chosen, body.reason) if body.action == "drop" else quarantine.retry(chosen))
        return host, {"ok": True, "changed": done.changed, "left": len(wanted) - done.changed}

    async def list_workers(self) -> dict[str, Any]:
        """Return the worker processes."""
        return {"workers": [asdict(one) for one in await self._workers.list()]}

    async def drain_workers(self, asked: Any) -> dict[str, Any]:
        """Mark worker processes for draining. Raises Invalid."""
        body = parse_body(DrainBody, asked)
        if bool(body.workers) is body.everyone:
            raise Invalid(FieldProblem("workers", "name worker processes, or say everyone: true"))
        return {"ok": True, "draining": await self._workers.drain(body.workers, everyone=body.everyone)}


def describe_job(row: LedgerEntry) -> dict[str, Any]:
    """Return a row of work as the operators' API tells it: ids and times, no content."""
    waits = row.status in {"pending", "running"}
    return {
        "id": row.item_id,
        "turn_id": row.turn_id,
        "stage": row.stage.value,
        "status": row.status,
        "state": row.state,
        "follow_up": row.is_follow_up,
        "tenant": row.host,
        "bank_id": row.bank_id,
        "session_id": row.session_id,
        "position": row.position,
        "attempts": row.attempts,
        "category": row.category,
        "reason": row.reason,
        "age_s": round(row.age_s, 3),
        "accepted_at": row.accepted_at,
        "updated_at": row.updated_at,
        "next_attempt_at": row.next_attempt_at if waits else None,
        "waits_for": row.waits_for and row.waits_for.value,
        "worker": row.worker,
    }


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(FieldProblem("ids", "must be ids that the list of jobs shows")) from None
