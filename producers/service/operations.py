"""Operations of an operator over all tenants; never content or names given by tenants.

Everything is read and written as afterturn_operator, who sees no column that holds content; rows are changed as the
tenant who owns them, and audited under the operator's key.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import IntegrityError

from producers.errors import FieldProblem, Invalid
from producers.service.bodies import parse_body
from producers.service.fields import BankName, Name, Text
from producers.service.operator_work import AT, KEY_ID, TENANT_ID, AnyTenant, OperatorWork, TenantName
from producers.service.paging import Limit, ListOrder, Page, PageAnswer, PageParameters, read_name
from producers.service.wire import RequestModel, WireModel
from store import identity
from store.database import Database
from store.errors import NotFound
from store.ledger.ledger import Ledger
from store.ledger.stages import TURN_STAGES, Stage
from store.tenancy.call_audit import NO_HOST, CallAudit, CallFilter, Interface
from store.tenancy.gateway_targets import GatewayTargets
from store.tenancy.keys import Keys
from store.tenancy.operator_keys import OperatorKeys
from store.tenancy.quotas import QuotaLimits, Quotas
from store.tenancy.tenants import Tenant, Tenants

TENANT: Mapping[str, Any] = {"tenant_id": TENANT_ID, "name": "acme", "created_at": AT}
LIMITS: Mapping[str, Any] = {"max_turns": 1000, "max_bytes": None, "max_banks": None, "turns_per_minute": None}


class TenantParameters(BaseModel):
    """A tenant, by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: TenantName


class AuditParameters(BaseModel):
    """Filter of calls: tenant, interface, key, operation, refused ones, age; at most `limit`, the newest first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: AnyTenant = None
    door: Interface | None = Field(None, description="interface that the calls came in by; left out: each")
    key_id: UUID | None = Field(None, description="id of the key that made the calls; left out: every caller")
    operation: Name | None = Field(
        None, description="template of the route, or name of the command: `POST /api/v1/turns`; left out: each"
    )
    refused: bool = Field(False, description="whether to list refused calls alone, of a status from 400 on")
    since_s: float | None = Field(
        None, ge=0, le=36_500 * 86_400, allow_inf_nan=False, description="greatest age in seconds; left out: any"
    )
    limit: Limit = 50


class TargetsParameters(BaseModel):
    """A tenant; without one, all tenants."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: AnyTenant = None


class NewKeyBody(RequestModel):
    """A key to create; the first key creates the tenant."""

    tenant: TenantName
    label: Text = Field("", max_length=256, description="what the key is for")
    banks: list[BankName] | None = Field(
        None, max_length=64, description="banks that the key reaches, by name; left out: all"
    )
    user: Name | None = Field(None, description="user whose banks alone it reaches beside shared ones; left out: none")
    agent: Name | None = Field(
        None, description="agent whose banks alone it reaches beside shared ones; left out: none"
    )
    write: bool = Field(True, description="whether the key may write")
    curate: bool = Field(
        False, description="whether a key of a user or an agent may set directives and pins in a shared bank"
    )
    expires_s: int | None = Field(
        None, ge=1, le=10 * 366 * 86_400, description="lifetime of the key in seconds; left out: no end"
    )

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"tenant": "acme", "label": "support bot", "banks": ["support"]}


class RotateBody(RequestModel):
    """How to rotate a key."""

    tenant: TenantName
    overlap_s: int = Field(86_400, ge=0, le=366 * 86_400, description="seconds for which the old key still works")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"tenant": "acme", "overlap_s": 3600}


class QuotaBody(RequestModel):
    """All limits of a tenant or bank; one that is left out is unlimited."""

    tenant: TenantName
    bank: BankName | None = Field(None, description="name of the bank; left out: the whole tenant")
    max_turns: int | None = Field(None, ge=0, lt=2**63, description="most turns that are remembered")
    max_bytes: int | None = Field(
        None, ge=0, lt=2**63, description="most bytes that callers wrote, in UTF-8, for what is remembered"
    )
    max_banks: int | None = Field(None, ge=0, lt=2**63, description="most banks; of a whole tenant only")
    turns_per_minute: int | None = Field(None, ge=0, lt=2**63, description="most turns that are accepted in a minute")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"tenant": "acme", "max_turns": 1000}


class TenantAnswer(WireModel):
    """A tenant."""

    tenant_id: UUID = Field(description="id of the tenant")
    name: str = Field(description="name of the tenant")
    created_at: datetime = Field(description="time of its creation")

    EXAMPLE: ClassVar[Mapping[str, Any]] = TENANT


class TenantsAnswer(PageAnswer):
    """A page of tenants, by name."""

    tenants: list[TenantAnswer] = Field(description="tenants, by name")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"tenants": [TENANT], **PageAnswer.EXAMPLE}


class TenantShownAnswer(TenantAnswer):
    """A tenant, with counts."""

    active_keys: int = Field(description="number of active keys")
    undone: int = Field(description="number of undone rows of work")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {**TENANT, "active_keys": 2, "undone": 0}


class StatusAnswer(WireModel):
    """Counts of turns and work over all tenants."""

    turns: int = Field(description="number of turns")
    stages: dict[str, dict[str, int]] = Field(description="number of turns by stage and status")
    rows: dict[str, dict[str, int]] = Field(
        description="number of undone and failed rows of work by stage and status, follow-ups included"
    )
    oldest_undone_s: float = Field(description="age of the oldest undone work in seconds")
    oldest_by_stage_s: dict[str, float] = Field(description="the same by stage; 0: nothing of it is undone")
    dead: int = Field(description="number of quarantined rows")
    undone: int = Field(description="number of undone rows")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "turns": 400,
        "stages": {"extraction": {"pending": 0, "running": 0, "done": 400, "skipped": 0, "unknown": 0, "dead": 0}},
        "rows": {"extraction": {"pending": 0, "running": 0, "done": 0, "skipped": 0, "unknown": 0, "dead": 0}},
        "oldest_undone_s": 0.0,
        "oldest_by_stage_s": {"extraction": 0.0},
        "dead": 0,
        "undone": 0,
    }


class KeyAnswer(WireModel):
    """A key without its secret."""

    key_id: UUID = Field(description="id of the key")
    label: str = Field(description="what the key is for")
    banks: list[str] | None = Field(description="banks that the key reaches, by name; null: all")
    write: bool = Field(description="whether the key may write")
    curate: bool = Field(description="whether a key of a user or an agent may set directives and pins in a shared bank")
    gateway_user: str | None = Field(description="user of the gateway's calls whose key it is; null: none")
    user: str | None = Field(description="user whose key it is; null: none")
    agent: str | None = Field(description="agent whose key it is; null: none")
    created_at: datetime = Field(description="time of its creation")
    revoked_at: datetime | None = Field(description="time from which on it is revoked; null: it is not")
    expires_at: datetime | None = Field(description="time of its end; null: it has none")
    replaced_by: UUID | None = Field(description="id of the key that replaced it; null: none")
    state: str = Field(description="`active`, `revoked` or `expired`")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "key_id": KEY_ID,
        "label": "support bot",
        "banks": ["support"],
        "write": True,
        "curate": False,
        "gateway_user": None,
        "user": None,
        "agent": None,
        "created_at": AT,
        "revoked_at": None,
        "expires_at": None,
        "replaced_by": None,
        "state": "active",
    }


class KeysAnswer(WireModel):
    """The keys of a tenant, oldest first."""

    keys: list[KeyAnswer] = Field(description="keys, the oldest first")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"keys": [KeyAnswer.EXAMPLE]}


class MadeKey(WireModel):
    """A new key."""

    key: str = Field(description="the key with its secret, which is not shown again")
    expires_at: datetime | None = Field(description="time of its end; null: it has none")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"key": "at_...", "expires_at": None}


class QuotaAnswer(WireModel):
    """Limits and usage of a tenant or of one bank."""

    bank: str | None = Field(description="name of the bank; null: the whole tenant")
    limits: dict[str, int | None] = Field(description="limits by name; null: unlimited")
    used: dict[str, int] = Field(description="usage by name")


class QuotasAnswer(WireModel):
    """The quotas of a tenant and of its banks."""

    quotas: list[QuotaAnswer] = Field(description="quota of the tenant, and of each bank that has one")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "quotas": [{"bank": None, "limits": LIMITS, "used": {"turns": 7, "bytes": 900, "banks": 1}}]
    }


class CallAnswer(WireModel):
    """One call in the audit."""

    at: datetime = Field(description="time of the call")
    door: str = Field(description="interface that it came in by")
    operation: str = Field(description="template of the route, or name of the command")
    took_ms: float = Field(description="milliseconds that it took")
    tenant: str | None = Field(description="name of the tenant; null: none, or not known")
    key_id: UUID | None = Field(description="id of the key; null: none")
    key_label: str | None = Field(description="what the key is for; null: there is no key, or not any more")
    request_id: str | None = Field(description="id of the request, as its answer and the logs have it; null: none")
    actor: str | None = Field(description="account that ran an operator's command; null: it was no command")
    status: int | None = Field(description="HTTP status of the answer; null: it was a command")
    code: str | None = Field(description="error code of a refused call; null: it was not refused")
    rows: int | None = Field(
        description="rows that a command changed, or calls without a valid key that are summed up; null: neither"
    )


class AuditAnswer(WireModel):
    """Calls, the newest first."""

    calls: list[CallAnswer] = Field(description="calls, the newest first")
    has_more: bool = Field(description="whether there are more")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "calls": [
            {
                "at": AT,
                "door": "http",
                "operation": "POST /api/v1/turns",
                "took_ms": 4.2,
                "tenant": "acme",
                "key_id": KEY_ID,
                "key_label": "support bot",
                "request_id": "0b7c1f5e52a74a3e8d513f6a1c9b7e20",
                "actor": None,
                "status": 201,
                "code": None,
                "rows": None,
            }
        ],
        "has_more": False,
    }


class TargetAnswer(WireModel):
    """A gateway target, without its key."""

    target_id: UUID = Field(description="id of the target")
    tenant: str = Field(description="name of the tenant")
    bank_id: UUID | None = Field(
        description="id of the bank whose turns it gets; null: all of the tenant's that have none of their own"
    )
    url: str | None = Field(description="address of the gateway")
    state: str = Field(description="state of the target")
    set_at: datetime = Field(description="time at which it was set")
    waiting: int = Field(description="number of deliveries that wait")


class TargetsAnswer(WireModel):
    """Gateway targets."""

    targets: list[TargetAnswer] = Field(description="targets that are current, or still receive turns accepted earlier")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "targets": [
            {
                "target_id": KEY_ID,
                "tenant": "acme",
                "bank_id": None,
                "url": "https://gateway.example.com",
                "state": "active",
                "set_at": AT,
                "waiting": 0,
            }
        ]
    }


def _tenant_place(tenant: Tenant) -> tuple[object, ...]:
    return (tenant.name,)


TENANTS: ListOrder[Tenant] = ListOrder("tenants", _tenant_place, (read_name,))


class Operations:
    """Operations for operators; the caller is already authenticated."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        """Keep the database and the clock."""
        self.keys = OperatorKeys(database)
        self.work = OperatorWork(database)
        self._database = database
        self._clock = clock
        self._tenant_keys = Keys(database)

    async def tenants(self, asked: PageParameters) -> Page[Tenant]:
        """Return a page of tenants by name. Raises Invalid."""
        place = TENANTS.open(NO_HOST, "", asked.cursor)
        found = await Tenants(self._database).list(place[0] if place else "", asked.limit + 1)
        return TENANTS.close(NO_HOST, "", found, asked.limit)

    async def tenant(self, tenant: UUID) -> dict[str, Any]:
        """Return one tenant. Raises NotFound."""
        return asdict(await Tenants(self._database).get(tenant))

    async def status(self) -> dict[str, Any]:
        """Return the counts of turns and work."""
        ledger = Ledger(self._database)
        turns, rows = await ledger.counts(), await ledger.gauges()
        shown = [stage for stage in Stage if stage in TURN_STAGES or any(turns[stage].counts.values())]
        totals = {name: sum(stage.counts[name] for stage in rows.values()) for name in ("pending", "running", "dead")}
        return {
            "turns": max(sum(stage.counts.values()) for stage in turns.values()),
            "stages": {stage.value: dict(turns[stage].counts) for stage in shown},
            "rows": {stage.value: dict(rows[stage].counts) for stage in shown},
            "oldest_undone_s": round(max(stage.oldest_undone_s for stage in rows.values()), 3),
            "oldest_by_stage_s": {stage.value: round(rows[stage].oldest_undone_s, 3) for stage in shown},
            "dead": totals["dead"],
            "undone": totals["pending"] + totals["running"],
        }

    async def tenant_keys(self, tenant: str) -> dict[str, Any]:
        """Return a tenant's keys."""
        return {"keys": [asdict(key) for key in await self._tenant_keys.list(tenant)]}

    async def create_key(self, asked: Any) -> tuple[UUID, dict[str, Any]]:
        """Create a key of a tenant, and the tenant with its first key. Raises Invalid."""
        body = parse_body(NewKeyBody, asked)
        if body.curate and not body.write:
            raise Invalid(FieldProblem("curate", "a read-only key cannot write directives"))
        until = None if body.expires_s is None else self._clock() + timedelta(seconds=body.expires_s)
        token = await self._tenant_keys.create(
            body.tenant,
            body.label,
            banks=body.banks,
            write=body.write,
            curate=body.curate,
            user=body.user,
            agent=body.agent,
            expires_at=until,
        )
        return identity.host_id(body.tenant), {"key": token, "expires_at": until}

    async def rotate_key(self, key: UUID, asked: Any) -> tuple[UUID, dict[str, Any]]:
        """Create a successor of a key. Raises Invalid, NotFound."""
        body = parse_body(RotateBody, asked)
        made = await self._tenant_keys.rotate(body.tenant, key, timedelta(seconds=body.overlap_s))
        return identity.host_id(body.tenant), {"key": made.token, "expires_at": made.expires_at}

    async def revoke_key(self, key: UUID, tenant: str) -> UUID:
        """Revoke a tenant's key. Raises NotFound."""
        await self._tenant_keys.revoke(tenant, key)
        return identity.host_id(tenant)

    async def quotas(self, tenant: str) -> dict[str, Any]:
        """Return a tenant's quotas."""
        shown = [
            {
                "bank": one.bank,
                "limits": asdict(one.limits),
                "used": {"turns": one.turns, "bytes": one.bytes, **({"banks": one.banks} if one.bank is None else {})},
            }
            for one in await Quotas(self._database, self._clock).show(tenant)
        ]
        return {"quotas": shown}

    async def set_quota(self, asked: Any) -> tuple[UUID, dict[str, Any]]:
        """Set all limits of a tenant or bank; without any there is no quota. Raises Invalid, NotFound."""
        body = parse_body(QuotaBody, asked)
        if body.bank is not None and body.max_banks is not None:
            raise Invalid(FieldProblem("max_banks", "is a limit of the tenant, not of a bank"))
        limits = QuotaLimits(body.max_turns, body.max_bytes, body.max_banks, body.turns_per_minute)
        try:
            await Quotas(self._database, self._clock).set(body.tenant, body.bank, limits)
        except IntegrityError:
            raise NotFound("no such tenant: make a key for it first") from None
        return identity.host_id(body.tenant), await self.quotas(body.tenant)

    async def audit(self, asked: AuditParameters) -> dict[str, Any]:
        """Return audited calls."""
        call_filter = CallFilter(
            host=None if asked.tenant is None else identity.host_id(asked.tenant),
            key=asked.key_id,
            door=asked.door,
            operation=asked.operation,
            refused=asked.refused,
            since=None if asked.since_s is None else timedelta(seconds=asked.since_s),
        )
        found, more = await CallAudit(self._database).read(call_filter, asked.limit)
        shown = [
            {
                "at": one.call.at,
                "door": one.call.door.value,
                "operation": one.call.operation,
                "took_ms": round(one.call.took_ms, 2),
                "tenant": one.host,
                "key_id": one.call.key_id,
                "key_label": one.key_label,
                "request_id": one.call.request_id and one.call.request_id.hex,
                "actor": one.call.actor,
                "status": one.call.status,
                "code": one.call.code,
                "rows": one.call.rows,
            }
            for one in found
        ]
        return {"calls": shown, "has_more": more}

    async def targets(self, tenant: str | None) -> dict[str, Any]:
        """Return gateway targets, without their keys."""
        host = None if tenant is None else identity.host_id(tenant)
        shown = [
            {
                "target_id": one.target.target_id,
                "tenant": one.host,
                "bank_id": one.target.bank_id,
                "url": one.target.user.base_url,
                "state": one.target.state,
                "set_at": one.target.set_at,
                "waiting": one.waiting,
            }
            for one in await GatewayTargets(self._database).list(host)
        ]
        return {"targets": shown}
