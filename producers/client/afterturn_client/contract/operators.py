"""The operators' view of all tenants: tenants, keys, quotas, calls, work, workers and gateway targets; never content.

Fields that hold a name that a tenant gave say so: they are null unless the call asks for `names` and its key may make
keys of tenants, which reads what they read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant(Shape):
    """A tenant."""

    tenant_id: UUID
    """id of the tenant"""
    name: str
    """name of the tenant"""
    created_at: datetime
    """time of its creation"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPage(Shape):
    """A page of tenants, by name."""

    tenants: tuple[Tenant, ...]
    """tenants, by name"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedTenant(Shape):
    """A tenant, with counts."""

    tenant_id: UUID
    """id of the tenant"""
    name: str
    """name of the tenant"""
    created_at: datetime
    """time of its creation"""
    active_keys: int
    """number of active keys"""
    undone: int
    """number of undone rows of work"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus(Shape):
    """Counts of turns and work over all tenants."""

    turns: int
    """number of turns"""
    stages: Mapping[str, Mapping[str, int]]
    """number of turns by stage and status"""
    rows: Mapping[str, Mapping[str, int]]
    """number of undone and failed rows of work by stage and status, follow-ups included"""
    oldest_undone_s: float
    """age of the oldest undone work in seconds"""
    oldest_by_stage_s: Mapping[str, float]
    """the same by stage; 0: nothing of it is undone"""
    dead: int
    """number of quarantined rows"""
    undone: int
    """number of undone rows"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Shape):
    """A key without its secret."""

    key_id: UUID
    """id of the key"""
    label: str
    """label of the key, its purpose"""
    banks: tuple[str, ...] | None
    """banks that the key reaches, by name; null: all"""
    write: bool
    """whether the key may write"""
    curate: bool
    """whether a key of a user or an agent may set directives and pins in a shared bank"""
    gateway_user: str | None
    """user of the gateway's calls whose key it is; null: none"""
    user: str | None
    """user whose key it is; null: none"""
    agent: str | None
    """agent whose key it is; null: none"""
    created_at: datetime
    """time of its creation"""
    revoked_at: datetime | None
    """time from which on it is revoked; null: it is not"""
    expires_at: datetime | None
    """time of its end; null: it has none"""
    replaced_by: UUID | None
    """id of the key that replaced it; null: none"""
    state: str
    """`active`, `revoked` or `expired`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList(Shape):
    """The keys of a tenant, oldest first."""

    keys: tuple[Key, ...]
    """keys, the oldest first"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey(Shape):
    """A new key."""

    key_id: UUID
    """id of the key"""
    key: str = field(repr=False)
    """the key with its secret, which is not shown again"""
    expires_at: datetime | None
    """time of its end; null: it has none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Shape):
    """Limits and usage of a tenant or of one bank."""

    bank: str | None
    """name of the bank; null: the whole tenant"""
    limits: Mapping[str, int | None]
    """limits by name; null: unlimited"""
    used: Mapping[str, int]
    """usage by name"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaList(Shape):
    """The quotas of a tenant and of its banks."""

    quotas: tuple[Quota, ...]
    """quota of the tenant, and of each bank that has one"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Shape):
    """One call in the audit."""

    at: datetime
    """time of the call"""
    door: str
    """interface that it came in by"""
    operation: str
    """template of the route, or name of the command"""
    took_ms: float
    """milliseconds that it took"""
    tenant: str | None
    """name of the tenant; null: none, or not known"""
    key_id: UUID | None
    """id of the key; null: none"""
    key_label: str | None
    """label of the key; null: there is no key, or no longer one"""
    request_id: str | None
    """id of the request, as its answer and the logs have it; null: none"""
    actor: str | None
    """account that ran an operator's command; null: it was no command"""
    status: int | None
    """HTTP status of the answer; null: it was a command"""
    code: str | None
    """error code of a refused call; null: it was not refused"""
    rows: int | None
    """rows that a command changed, or calls without a valid key that are summed up; null: neither"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallList(Shape):
    """Calls, the newest first."""

    calls: tuple[Call, ...]
    """calls, the newest first"""
    has_more: bool
    """whether there are more"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTarget(Shape):
    """A gateway target, without its key."""

    target_id: UUID
    """id of the target"""
    tenant: str
    """name of the tenant"""
    bank_id: UUID | None
    """id of the bank whose turns it gets; null: all of the tenant's that have none of their own"""
    url: str | None
    """address of the gateway; null: this service itself"""
    state: str
    """state of the target: `in force`, `replaced` (it still receives turns accepted before) or `unset`"""
    set_at: datetime
    """time at which it was set"""
    waiting: int
    """number of deliveries that wait"""
    bank: str | None
    """name of the bank, a name that the tenant gave; null: not asked for, or there is no such bank"""
    user_id: str
    """user at the gateway"""
    app_id: str
    """application scope at the gateway"""
    project_id: str
    """project scope at the gateway"""
    scope: tuple[str, ...]
    """where a recall through it looks"""
    sessions: str
    """form of a session's name at the gateway"""
    key: str
    """where its key is: `sealed` in the database, in the `settings`, or `none`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetList(Shape):
    """Gateway targets."""

    targets: tuple[GatewayTarget, ...]
    """targets that are current, or still receive turns accepted earlier"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetsUnset(Shape):
    """The targets get no more turns."""

    targets: tuple[UUID, ...]
    """ids of the targets that are unset; none: there was none"""
    skipped: int
    """number of waiting deliveries that ended as skipped"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPlace(Shape):
    """Where a turn is delivered to."""

    target_id: UUID
    """id of the target"""
    url: str | None
    """address of the gateway; null: this service itself"""
    user_id: str
    """user at the gateway"""
    session: str
    """name of the session at the gateway, which the tenant gave; empty where it was erased"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Shape):
    """A row of the ledger, without content."""

    id: UUID
    """id of the row"""
    turn_id: UUID
    """id of the turn"""
    stage: str
    """stage of the work"""
    status: str
    """status of the work; `dead` is quarantined"""
    state: str
    """the same in detail: `add_unknown` is an `unknown` delivery"""
    follow_up: bool
    """whether a stage, a correction or an erasure opened it beside the turn's own"""
    tenant: str
    """name of the tenant"""
    bank_id: UUID
    """id of the bank"""
    session_id: UUID
    """id of the session"""
    position: int
    """its position in the event log"""
    attempts: int
    """number of attempts"""
    category: str | None
    """category of the last error; null: there was none"""
    reason: str | None
    """sanitised reason of the last error; null: none is known"""
    age_s: float
    """seconds since the turn was accepted"""
    accepted_at: datetime
    """time at which the turn was accepted"""
    updated_at: datetime
    """time of its last change"""
    next_attempt_at: datetime | None
    """time of the next attempt; null: it has ended"""
    waits_for: str | None
    """stage that must end before it; null: none"""
    worker: str | None
    """worker that has claimed it; null: none"""
    bank: str | None = None
    """name of the bank, which the tenant gave; null: not asked for, or the bank is gone"""
    gateway: DeliveryPlace | None = None
    """where a delivery goes, with a name that the tenant gave; null: not asked for, or it is none"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage(Shape):
    """Undone and failed rows, the oldest first."""

    jobs: tuple[Job, ...]
    """undone and failed rows, the oldest first"""
    cursor: str | None
    """asks for the next page of the same list; null on the last"""
    has_more: bool
    """whether there is a next page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts(Shape):
    """Number of rows by status."""

    pending: int
    """rows that wait"""
    running: int
    """rows that a worker has claimed"""
    unknown: int
    """deliveries that may have arrived"""
    dead: int
    """quarantined rows"""
    counted_at: datetime
    """time of the count: `POST /api/v1/operator/jobs/matching` takes it and changes what was counted"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNote(Shape):
    """A recorded event of a turn's work."""

    at: datetime
    """time of the event"""
    event: str
    """name of the event"""
    details: Mapping[str, Any] | None = None
    """details recorded with it; a delivery's holds a session's name; null: not asked for"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory(Shape):
    """The work of a turn."""

    turn_id: UUID
    """id of the turn"""
    jobs: tuple[Job, ...]
    """its rows in every stage, follow-ups included"""
    history: tuple[JobNote, ...]
    """its recorded events"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsChanged(Shape):
    """The rows are changed."""

    ok: bool = True
    """always true"""
    changed: int
    """number of changed rows"""
    left: int
    """number of the others: they changed meanwhile, or do not allow this change"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingChanged(JobsChanged):
    """The rows that match are changed, as far as they were seen in the time of one call."""

    cursor: str | None
    """asks for the rest with the same body; null: every row was seen"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledDelivery(Shape):
    """A delivery whose outcome an operator found out."""

    turn_id: UUID
    """id of the turn"""
    was: str
    """state of the delivery before"""
    state: str
    """its state now"""
    gateway: DeliveryPlace | None = None
    """where it goes, with a name that the tenant gave; null: the key may not make keys"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(Shape):
    """A worker process."""

    worker: str
    """name of the process: machine, process id and a random part"""
    version: str
    """version that it runs"""
    stages: tuple[str, ...]
    """stages that it works on"""
    started_at: datetime
    """time of its start"""
    seen_at: datetime
    """time of its last heartbeat"""
    state: str
    """`working`, `draining`, `drained`, or `gone`: no heartbeat came for 15 seconds"""
    claims: int
    """number of its claims"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerList(Shape):
    """The worker processes, oldest first."""

    workers: tuple[Worker, ...]
    """worker processes, the oldest first"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining(Shape):
    """The processes drain."""

    ok: bool = True
    """always true"""
    draining: tuple[str, ...]
    """names of the processes that drain; their list shows when they are drained"""
