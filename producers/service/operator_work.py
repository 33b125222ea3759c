"""Work of all tenants as an operator sees and changes it: rows of the ledger and worker processes, never content.

Names that tenants gave, of banks and of sessions at a gateway, are told only to those who ask for them with a key that
may make keys of tenants, and so read what they read.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from afterturn_client.contract.operators import (
    DeliveryPlace,
    Draining,
    Job,
    JobCounts,
    JobHistory,
    JobNote,
    JobPage,
    JobsChanged,
    MatchingChanged,
    SettledDelivery,
    WorkerList,
)
from afterturn_client.moments import parse_zoned
from pydantic import Field

from producers.errors import FieldProblem, Invalid
from producers.service.bodies import parse_body
from producers.service.fields import BankName, Moment, Name, Text
from producers.service.paging import Cursor, Limit, ListOrder, read_position
from producers.service.wire import Parameters, RequestModel
from store import identity
from store.database import Database
from store.errors import NotFound
from store.ledger.listing import OPEN_STATUSES, Backlog, LedgerCursor, LedgerEntry, Selection
from store.ledger.quarantine import UNSETTLED, ChangeCount, DeliveryFinding, NextStep, Quarantine
from store.ledger.stages import Stage
from store.ledger.workers import WorkerRegistry
from store.page_bytes import PageRows
from store.tenancy.banks import Banks
from store.tenancy.call_audit import NO_HOST
from store.tenancy.gateway_targets import Destination
from store.tenancy.tenants import Tenants

#: Rows that one call changes by their ids, and worker processes that one call names.
MOST_CHANGED = 200
#: Seconds for which one call changes rows that match; the next goes on behind the last of them.
TOGETHER_S = 10.0


TenantName = Annotated[Name, Field(description="name of the tenant")]
AnyTenant = Annotated[Name | None, Field(description="name of a tenant; left out: all tenants")]
WithNames = Annotated[
    bool,
    Field(
        description="whether to answer names that tenants gave, too: of banks, and of sessions at a gateway; they stay "
        "null for an operator's key that may not make keys"
    ),
]


class TargetsParameters(Parameters):
    """A tenant, all tenants without one; whether to answer names that tenants gave."""

    tenant: AnyTenant = None
    names: WithNames = False


class JobFilter(Parameters):
    """Filter of ledger rows: tenant, bank, stage, status, state, error category, age."""

    tenant: AnyTenant = None
    bank: BankName | None = Field(None, description="name of a bank of `tenant`, which it needs; left out: all banks")
    stage: Stage | None = Field(None, description="stage of the work; left out: all stages")
    status: Literal["pending", "running", "unknown", "dead"] | None = Field(
        None, description="status of the work: `dead` is quarantined; left out: each of these"
    )
    state: Literal["add_unknown", "add_failed", "flush_failed", "dead"] | None = Field(
        None, description="state of a failed delivery; `dead`: it failed before its first call; left out: by `status`"
    )
    category: Name | None = Field(None, description="category of the last error; left out: with and without one")
    older_than_s: float | None = Field(
        None, ge=0, le=10 * 366 * 86_400, description="seconds since the turn was accepted, at least; left out: any age"
    )

    def select(self, after: LedgerCursor | None = None) -> Selection:
        """Return the selection of rows after a place. Raises Invalid."""
        if self.bank is not None and self.tenant is None:
            raise Invalid(FieldProblem("bank", "is a bank of a tenant: name the tenant, too"))
        if self.state is not None and (self.status is not None or self.stage is not Stage.GATEWAY):
            raise Invalid(FieldProblem("state", "is one of the stage `gateway`: name that, and no status"))
        host = None if self.tenant is None else identity.host_id(self.tenant)
        return Selection(
            stages=tuple(Stage) if self.stage is None else (self.stage,),
            statuses=OPEN_STATUSES if self.status is None else (self.status,),
            states=None if self.state is None else (self.state,),
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
    names: WithNames = False


class JobsBody(RequestModel):
    """Quarantined rows, and what to do with them."""

    action: Literal["retry", "drop"] = Field(
        description="whether to requeue the rows (`retry`) or to mark them as skipped"
    )
    tenant: TenantName
    stage: Stage = Field(strict=False, description="stage of the rows")
    ids: list[str] = Field(min_length=1, max_length=MOST_CHANGED, description="ids of quarantined rows")
    reason: Text = Field("", max_length=200, description="why they are dropped")


class MatchingBody(RequestModel):
    """What to do with every row that matches a filter and was there when it was counted."""

    action: Literal["retry", "drop", "settle"] = Field(
        description="whether to requeue dead rows (`retry`), mark rows as skipped, or settle deliveries of a `state`"
    )
    where: JobFilter = Field(
        description="filter of the rows; `retry` needs `status` `dead` or a `state`, `settle` a `state`"
    )
    counted_at: Moment = Field(description="time of the count that the caller saw: rows that failed later are left out")
    reason: Text = Field("", max_length=200, description="why they are dropped")
    found: DeliveryFinding | None = Field(
        None, strict=False, description="what was found out at the gateway, of all of them: `settle` needs it"
    )
    then: NextStep | None = Field(None, strict=False, description="next step of each, as one delivery is settled")
    cursor: Cursor = None


class SettleBody(RequestModel):
    """What an operator found out about a delivery, and what happens next to it."""

    found: DeliveryFinding = Field(strict=False, description="what was found out at the gateway")
    then: NextStep | None = Field(
        None,
        strict=False,
        description="next step. `delivered`: `flush` or `done`; left out: `flush`, and `done` after a failed flush. "
        "`not-delivered`: `retry` or `skip`, which must be said",
    )
    tenant: AnyTenant = None


class DrainBody(RequestModel):
    """The worker processes to drain."""

    workers: list[Name] = Field(
        default_factory=list, max_length=MOST_CHANGED, description="names of the worker processes"
    )
    everyone: bool = Field(False, description="whether to drain all of them instead")


JOBS: ListOrder[LedgerEntry] = ListOrder("jobs", lambda entry: entry.place, (parse_zoned, read_position, Stage, UUID))


class OperatorWork:
    """Operations on work for operators; the caller is already authenticated. `names`: names of tenants are told."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._backlog = Backlog(database)
        self._banks = Banks(database, clock)
        self._workers = WorkerRegistry(database)

    async def list_jobs(self, asked: JobsParameters, *, names: bool) -> JobPage:
        """Return a page of ledger rows. Raises Invalid."""
        scope = asked.model_dump_json(exclude={"limit", "cursor", "names"})
        place = JOBS.open(NO_HOST, scope, asked.cursor)
        chosen = await self._select(asked, LedgerCursor(*place) if place else None)
        rows, _ = await self._backlog.rows(chosen, asked.limit + 1)
        page = JOBS.close(NO_HOST, scope, rows, asked.limit)
        jobs = await self._describe_jobs(page.rows, names=names and asked.names)
        return JobPage(jobs=jobs, **page.describe_end())

    async def count_jobs(self, asked: JobFilter) -> JobCounts:
        """Return the number of rows by status; a status that the filter leaves out is 0. Raises Invalid."""
        chosen = await self._select(asked)
        counted_at = await self._backlog.read_time()
        if asked.state is not None:
            counted = {"unknown" if asked.state == "add_unknown" else "dead": await self._backlog.count(chosen)}
        else:
            counted = await self._backlog.count_by_status(chosen)
        shown = OPEN_STATUSES if asked.state is not None else chosen.statuses
        told = {status: counted.get(status, 0) if status in shown else 0 for status in OPEN_STATUSES}
        return JobCounts(**told, counted_at=counted_at)

    async def show_job(self, item: UUID, tenant: str | None, *, names: bool) -> tuple[UUID, JobHistory]:
        """Return a turn's rows, by its id or that of one of them, and its tenant's id. Raises NotFound."""
        rows = await self._read_turn(item, tenant)
        notes = await self._backlog.history(rows[0].host_id, rows[0].turn_id)
        history = (
            JobNote(at=note.at, event=note.event, details=orjson.loads(note.payload) if names else None)
            for note in notes
        )
        jobs = await self._describe_jobs(rows, names=names)
        return rows[0].host_id, JobHistory(turn_id=rows[0].turn_id, jobs=jobs, history=tuple(history))

    async def change_jobs(self, by: str, asked: Any) -> tuple[UUID, JobsChanged]:
        """Retry or drop rows, as `by`; return the counts and the tenant's id. Raises Invalid, NotFound."""
        body = parse_body(JobsBody, asked)
        host, wanted = identity.host_id(body.tenant), {_parse_id(one) for one in body.ids}
        chosen = await self._backlog.with_ids(host, body.stage, wanted)
        quarantine = Quarantine(self._database, by)
        done = await (quarantine.drop(chosen, body.reason) if body.action == "drop" else quarantine.retry(chosen))
        return host, JobsChanged(changed=done.changed, left=len(wanted) - done.changed)

    async def change_matching(self, by: str, asked: Any) -> tuple[UUID, MatchingChanged]:
        """Change every row that matches, as `by`, for `TOGETHER_S` at most; return the counts and the tenant's id.

        The tenant's id is that of none where all of them are meant. Raises Invalid.
        """
        body = parse_body(MatchingBody, asked)
        change = self._choose_change(by, body)
        scope = repr(body.model_copy(update={"cursor": None}))
        place = JOBS.open(NO_HOST, scope, body.cursor)
        chosen = await self._select(body.where, LedgerCursor(*place) if place else None)
        until, done = time.monotonic() + TOGETHER_S, ChangeCount()
        more = True
        while more and (not done.seen or time.monotonic() < until):
            rows, more = await self._backlog.rows(replace(chosen, counted_at=body.counted_at), MOST_CHANGED)
            if rows:
                done += await change(rows)
                chosen = replace(chosen, after=rows[-1].place)
        cursor = JOBS.end(NO_HOST, scope, PageRows(rows, more=more)).cursor
        return chosen.host or NO_HOST, MatchingChanged(changed=done.changed, left=done.refused, cursor=cursor)

    def _choose_change(self, by: str, body: MatchingBody) -> Callable[[Sequence[LedgerEntry]], Awaitable[ChangeCount]]:
        """Return what changes rows. Raises Invalid where the body does not say what is needed for it."""
        quarantine = Quarantine(self._database, by)
        if body.action == "drop":
            return lambda rows: quarantine.drop(rows, body.reason)
        if body.action == "retry":
            if body.where.status != "dead" and body.where.state is None:
                raise Invalid(FieldProblem("where.status", "must be dead, or `state` named: nothing else is retried"))
            return quarantine.retry
        found, state = body.found, body.where.state
        if state not in UNSETTLED:
            raise Invalid(FieldProblem("where.state", f"must be one of {', '.join(UNSETTLED)}"))
        if found is None:
            raise Invalid(FieldProblem("found", "must say what was found out at the gateway"))
        then = _choose_step(state, found, body.then)
        return lambda rows: quarantine.resolve_all(rows, found, then)

    async def settle_delivery(self, by: str, item: UUID, asked: Any, *, names: bool) -> tuple[UUID, SettledDelivery]:
        """Settle a turn's delivery by a person's finding, as `by`; return it and its tenant's id.

        Raises Invalid, NotFound, and NotSettled where its state does not allow that (any more).
        """
        body = parse_body(SettleBody, asked)
        rows = await self._read_turn(item, body.tenant)
        row = next((one for one in rows if one.stage is Stage.GATEWAY and one.state in UNSETTLED), None)
        if row is None:
            raise NotFound("there is no failed or unknown delivery of this turn")
        then = _choose_step(row.state, body.found, body.then)
        state = await Quarantine(self._database, by).resolve(row, body.found, then)
        to = await self._backlog.deliveries([row]) if names else {}
        settled = SettledDelivery(
            turn_id=row.turn_id, was=row.state, state=state, gateway=_describe_destination(to.get(row.item_id))
        )
        return row.host_id, settled

    async def list_workers(self) -> WorkerList:
        """Return the worker processes."""
        return WorkerList(workers=tuple(await self._workers.list()))

    async def drain_workers(self, asked: Any) -> Draining:
        """Mark worker processes for draining. Raises Invalid."""
        body = parse_body(DrainBody, asked)
        if bool(body.workers) is body.everyone:
            raise Invalid(FieldProblem("workers", "name worker processes, or say everyone: true"))
        return Draining(draining=tuple(await self._workers.drain(body.workers, everyone=body.everyone)))

    async def _select(self, asked: JobFilter, after: LedgerCursor | None = None) -> Selection:
        """Return the selected rows. Raises Invalid, also for an unknown tenant or bank."""
        chosen = asked.select(after)
        await require_tenant(self._database, asked.tenant)
        if asked.bank is not None and chosen.host is not None and not await self._banks.known(chosen.host, asked.bank):
            raise Invalid(FieldProblem("bank", "is no bank of this tenant, as it is spelt"))
        return chosen

    async def _read_turn(self, item: UUID, tenant: str | None) -> list[LedgerEntry]:
        await require_tenant(self._database, tenant)
        rows = await self._backlog.of_turn(item, None if tenant is None else identity.host_id(tenant))
        if not rows:
            raise NotFound("there is no such turn")
        return rows

    async def _describe_jobs(self, rows: Sequence[LedgerEntry], *, names: bool) -> tuple[Job, ...]:
        banks = await self._backlog.bank_names(rows) if names else {}
        to = await self._backlog.deliveries(rows) if names else {}
        return tuple(_describe_job(row, banks.get(row.bank_id), to.get(row.item_id)) for row in rows)


def _choose_step(state: str, found: DeliveryFinding, then: NextStep | None) -> NextStep:
    """Return the next step of a delivery. Raises Invalid where it must be said."""
    if then is not None:
        return then
    if found is DeliveryFinding.NOT_DELIVERED:
        raise Invalid(FieldProblem("then", "must be retry or skip where it was not delivered"))
    # A delivered turn continues with its flush, unless the flush is what failed.
    return NextStep.DONE if state == "flush_failed" else NextStep.FLUSH


async def require_tenant(database: Database, tenant: str | None) -> None:
    """Raise Invalid for a tenant that does not exist: a misspelt filter is an error, not an empty answer."""
    if tenant is not None:
        try:
            await Tenants(database).get(identity.host_id(tenant))
        except NotFound:
            raise Invalid(FieldProblem("tenant", "names no tenant")) from None


def _describe_job(row: LedgerEntry, bank: str | None, to: Destination | None) -> Job:
    """Return a row of work as operators see it: ids and times, no content."""
    return Job(
        id=row.item_id,
        turn_id=row.turn_id,
        stage=row.stage.value,
        status=row.status,
        state=row.state,
        follow_up=row.is_follow_up,
        tenant=row.host,
        bank_id=row.bank_id,
        session_id=row.session_id,
        position=row.position,
        attempts=row.attempts,
        category=row.category,
        reason=row.reason,
        age_s=round(row.age_s, 3),
        accepted_at=row.accepted_at,
        updated_at=row.updated_at,
        next_attempt_at=row.next_attempt_at if row.status in {"pending", "running"} else None,
        waits_for=row.waits_for and row.waits_for.value,
        worker=row.worker,
        bank=bank,
        gateway=_describe_destination(to) if row.stage is Stage.GATEWAY else None,
    )


def _describe_destination(to: Destination | None) -> DeliveryPlace | None:
    if to is None:
        return None
    user = to.target.user
    return DeliveryPlace(target_id=to.target.target_id, url=user.base_url, user_id=user.user_id, session=to.session)


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(FieldProblem("ids", "must be ids that the list of jobs shows")) from None
