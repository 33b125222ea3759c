"""Operations of an operator over all tenants; never content or names given by tenants.

Everything is read and written as afterturn_operator, who sees no column that holds content; rows are changed as the
tenant who owns them, and audited under the operator's key.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID, uuid4

from afterturn_client.contract import operators as contract
from afterturn_client.contract.installation import Examination, SettingsInForce
from afterturn_client.contract.operators import (
    CallList,
    CountedTenant,
    KeyList,
    NewKey,
    PipelineStatus,
    QuotaList,
    Tenant,
    TenantPage,
)
from pydantic import Field
from sqlalchemy.exc import IntegrityError

from producers.errors import FieldProblem, Invalid
from producers.queue.operated import OperatedQueue
from producers.service.bodies import parse_body
from producers.service.fields import BankName, Name, Text
from producers.service.figures import FigureFeed
from producers.service.generations import GenerationOperations, OwnModel
from producers.service.operator_letters import OperatorLetters
from producers.service.operator_targets import OperatorTargets
from producers.service.operator_work import AnyTenant, OperatorWork, TenantName, require_tenant
from producers.service.paging import Limit, ListOrder, PageParameters, read_name
from producers.service.snapshots import Snapshots
from producers.service.wire import Parameters, RequestModel
from store import identity
from store.database import Database
from store.errors import NotFound
from store.ledger.ledger import Ledger
from store.ledger.stages import TURN_STAGES, Stage
from store.recall.settings import RecallSettings
from store.tenancy.call_audit import NO_HOST, CallAudit, CallFilter, Interface
from store.tenancy.keys import Keys
from store.tenancy.operator_keys import Operator, OperatorKeys
from store.tenancy.quotas import Quota, QuotaLimits, Quotas
from store.tenancy.sealing import Sealer
from store.tenancy.tenants import Tenants

#: The longest lifetime of a key.
MOST_SECONDS = 10 * 366 * 86_400


class OperatorAuthenticator(Protocol):
    """Says whose an operator's key is."""

    async def authenticate(self, token: str) -> Operator | None:
        """Return the operator of a key, None for an invalid one."""
        ...


class Installation(Protocol):
    """The process that serves, and what it runs on."""

    def list_settings(self) -> SettingsInForce:
        """Return the settings in force, secrets masked, each with its origin."""
        ...

    async def examine(self) -> Examination:
        """Check servers, roles, schema, disk and gateway targets; return what each check found."""
        ...


class TenantParameters(Parameters):
    """A tenant, by name."""

    tenant: TenantName


class AuditParameters(Parameters):
    """Filter of calls: tenant, interface, key, operation, refused ones, age; at most `limit`, the newest first."""

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
    gateway_user: Name | None = Field(
        None, description="user of the gateway's calls whose key it is, with no other rights; left out: none"
    )
    expires_s: int | None = Field(
        None, ge=1, le=MOST_SECONDS, description="lifetime of the key in seconds; left out: no end"
    )


class RotateBody(RequestModel):
    """How to rotate a key."""

    tenant: TenantName
    overlap_s: int = Field(86_400, ge=0, le=366 * 86_400, description="seconds for which the old key still works")
    expires_s: int | None = Field(
        None, ge=1, le=MOST_SECONDS, description="lifetime of the new key in seconds; left out: that of the old one"
    )


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


TENANTS: ListOrder[Tenant] = ListOrder("tenants", lambda one: (one.name,), (read_name,))


class Operations:
    """Operations for operators; the caller is already authenticated."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime],
        keys: OperatorAuthenticator | None = None,
        *,
        sealer: Sealer | None = None,
        installation: Installation | None = None,
        figures: FigureFeed | None = None,
        environment: str = "",
        model: OwnModel | None = None,
        recall: RecallSettings | None = None,
        queues: Sequence[OperatedQueue] = (),
    ) -> None:
        """Keep the database and the clock; `keys` say who an operator is, those of the database where it is None.

        `sealer` seals the keys of gateway targets, `installation` is what serves, `figures` are its figures, `model` is
        the sentence model of its settings. Without one, its calls are refused. `environment` is that of this
        deployment, `recall` its settings, `queues` its turn queues.
        """
        self.keys = keys or OperatorKeys(database)
        self.work = OperatorWork(database, clock)
        self.letters = OperatorLetters(queues, clock)
        self.targets = OperatorTargets(database, sealer)
        self.snapshots = Snapshots(database, clock, sealer, environment)
        self.generations = GenerationOperations(database, model, recall or RecallSettings())
        self._installation = installation
        self._figures = figures
        self._database = database
        self._clock = clock
        self._tenant_keys = Keys(database)

    async def tenants(self, asked: PageParameters) -> TenantPage:
        """Return a page of tenants by name. Raises Invalid."""
        known = Tenants(self._database)
        return await TENANTS.read_page(
            TenantPage, NO_HOST, "", asked, lambda place, most: known.list(place[0] if place else "", most)
        )

    async def tenant(self, tenant: UUID) -> CountedTenant:
        """Return one tenant. Raises NotFound."""
        return await Tenants(self._database).get(tenant)

    async def status(self) -> PipelineStatus:
        """Return the counts of turns and work."""
        ledger = Ledger(self._database)
        turns, rows = await ledger.counts(), await ledger.gauges()
        shown = [stage for stage in Stage if stage in TURN_STAGES or any(turns[stage].counts.values())]
        totals = {name: sum(stage.counts[name] for stage in rows.values()) for name in ("pending", "running", "dead")}
        return PipelineStatus(
            turns=max(sum(stage.counts.values()) for stage in turns.values()),
            stages={stage.value: dict(turns[stage].counts) for stage in shown},
            rows={stage.value: dict(rows[stage].counts) for stage in shown},
            oldest_undone_s=round(max(stage.oldest_undone_s for stage in rows.values()), 3),
            oldest_by_stage_s={stage.value: round(rows[stage].oldest_undone_s, 3) for stage in shown},
            dead=totals["dead"],
            undone=totals["pending"] + totals["running"],
        )

    def settings(self) -> SettingsInForce:
        """Return the settings of this process. Raises NotFound where it serves no installation."""
        return self._require_installation().list_settings()

    async def examine(self) -> Examination:
        """Check the installation. Raises NotFound where this process serves none."""
        return await self._require_installation().examine()

    def require_figures(self) -> FigureFeed:
        """Return the figures of this process. Raises NotFound where it reads none."""
        if self._figures is None:
            raise NotFound("this process reads no figures: ask an API process")
        return self._figures

    def _require_installation(self) -> Installation:
        if self._installation is None:
            raise NotFound("this process serves no installation: run `afterturn config` or `afterturn doctor` there")
        return self._installation

    async def tenant_keys(self, tenant: str) -> KeyList:
        """Return a tenant's keys. Raises Invalid for an unknown tenant."""
        await require_tenant(self._database, tenant)
        return KeyList(keys=tuple(await self._tenant_keys.list(tenant)))

    async def create_key(self, asked: Any) -> tuple[UUID, NewKey]:
        """Create a key of a tenant, and the tenant with its first key. Raises Invalid."""
        body = parse_body(NewKeyBody, asked)
        if body.curate and not body.write:
            raise Invalid(FieldProblem("curate", "a read-only key cannot write directives"))
        if body.gateway_user is not None and (body.banks or body.user or body.agent or body.curate or not body.write):
            raise Invalid(FieldProblem("gateway_user", "such a key opens that user's memory and has no other rights"))
        until, key = self._end(body.expires_s), uuid4()
        token = await self._tenant_keys.create(
            body.tenant,
            body.label,
            banks=body.banks,
            write=body.write,
            curate=body.curate,
            gateway_user=body.gateway_user,
            user=body.user,
            agent=body.agent,
            expires_at=until,
            key_id=key,
        )
        return identity.host_id(body.tenant), NewKey(key_id=key, key=token, expires_at=until)

    async def rotate_key(self, key: UUID, asked: Any) -> tuple[UUID, NewKey]:
        """Create a successor of a key. Raises Invalid, NotFound."""
        body = parse_body(RotateBody, asked)
        overlap, until = timedelta(seconds=body.overlap_s), self._end(body.expires_s)
        made = await self._tenant_keys.rotate(body.tenant, key, overlap, expires_at=until)
        return identity.host_id(body.tenant), NewKey(key_id=made.key_id, key=made.token, expires_at=made.expires_at)

    def _end(self, seconds: int | None) -> datetime | None:
        return None if seconds is None else self._clock() + timedelta(seconds=seconds)

    async def revoke_key(self, key: UUID, tenant: str) -> UUID:
        """Revoke a tenant's key. Raises NotFound."""
        await self._tenant_keys.revoke(tenant, key)
        return identity.host_id(tenant)

    async def quotas(self, tenant: str) -> QuotaList:
        """Return a tenant's quotas. Raises Invalid for an unknown tenant."""
        await require_tenant(self._database, tenant)
        found = await Quotas(self._database, self._clock).show(tenant)
        return QuotaList(quotas=tuple(map(_describe_quota, found)))

    async def set_quota(self, asked: Any) -> tuple[UUID, QuotaList]:
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

    async def audit(self, asked: AuditParameters) -> CallList:
        """Return audited calls."""
        call_filter = CallFilter(
            host=None if asked.tenant is None else identity.host_id(asked.tenant),
            key=asked.key_id,
            door=asked.door,
            operation=asked.operation,
            refused=asked.refused,
            since=None if asked.since_s is None else timedelta(seconds=asked.since_s),
        )
        return await CallAudit(self._database).read(call_filter, asked.limit)


def _describe_quota(one: Quota) -> contract.Quota:
    banks = {"banks": one.banks} if one.bank is None else {}
    return contract.Quota(
        bank=one.bank, limits=asdict(one.limits), used={"turns": one.turns, "bytes": one.bytes, **banks}
    )
