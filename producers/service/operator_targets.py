"""Gateway targets as an operator sees and changes them. No key of one is ever answered.

A target gets the turns of a tenant, so setting one reads what its keys read: the operator's key must be one that makes
keys.
"""

from typing import Any, Literal
from uuid import UUID

from afterturn_client.contract.operators import GatewayTarget, TargetList, TargetsUnset
from afterturn_client.errors import InvalidRequestError
from afterturn_client.transport import check_way
from pydantic import Field

from producers.errors import FieldProblem, Invalid
from producers.service.bodies import parse_body
from producers.service.fields import BankName, Name, Text
from producers.service.gateway_clients import canonical_url
from producers.service.operator_work import TargetsParameters, TenantName, require_tenant
from producers.service.wire import Parameters, RequestModel
from store import identity
from store.database import Database
from store.tenancy.gateway_targets import GatewayTargets, GatewayUser, ListedTarget, seal_place
from store.tenancy.sealing import Sealer

RecallScope = Literal["current_chat", "resources", "all_user_memory"]
#: Where a recall through a target looks unless it is said.
SCOPE: tuple[RecallScope, ...] = ("current_chat", "resources")


class ListedTargets(TargetsParameters):
    """Which gateway targets: a tenant's or all, unset ones too."""

    unset: bool = Field(False, description="whether to list unset targets, too")


class TargetPlace(Parameters):
    """Whose turns a target gets: a tenant's, or those of one bank."""

    tenant: TenantName
    bank: BankName | None = Field(None, description="name of the bank; left out: the whole tenant")


class TargetBody(RequestModel):
    """A Memory Gateway, and the user there who gets the turns."""

    tenant: TenantName
    bank: BankName | None = Field(None, description="name of the bank; left out: the whole tenant")
    url: Text = Field(max_length=2048, description="address of the gateway; `/memories/add` is appended")
    user_id: Name = Field(description="user at the gateway, who belongs to one tenant or bank for good")
    user_key: Text = Field(
        min_length=1, max_length=4096, repr=False, description="key of the user, which is kept sealed and never shown"
    )
    app_id: Name = Field("default", description="application scope at the gateway")
    project_id: Name = Field("default", description="project scope at the gateway")
    scope: list[RecallScope] = Field(
        default_factory=lambda: list(SCOPE),
        min_length=1,
        max_length=3,
        description="where a recall through it looks",
    )
    allow_http: bool = Field(
        False, description="whether turns and key may travel to another machine unencrypted, over plain http"
    )


class OperatorTargets:
    """Operations on gateway targets for operators; the caller is already authenticated."""

    def __init__(self, database: Database, sealer: Sealer | None) -> None:
        """Keep the database, and what seals the keys of targets; None: no target can be set."""
        self._database = database
        self._targets = GatewayTargets(database)
        self._sealer = sealer

    async def list_targets(self, asked: ListedTargets, *, names: bool) -> TargetList:
        """Return targets, without their keys; `names`: banks' names are told to those who ask for them."""
        await require_tenant(self._database, asked.tenant)
        host = None if asked.tenant is None else identity.host_id(asked.tenant)
        found = await self._targets.list(host, unset=asked.unset)
        return TargetList(targets=tuple(describe_target(one, names=names and asked.names) for one in found))

    async def set_target(self, asked: Any) -> tuple[UUID, TargetList]:
        """Set the target of a tenant or bank; return the tenant's id and the target. Raises Invalid, TargetTaken."""
        body = parse_body(TargetBody, asked)
        await require_tenant(self._database, body.tenant)
        host, bank = _identify(body.tenant, body.bank)
        user = _read_user(body)
        if not self._sealer:
            raise Invalid(FieldProblem("user_key", "there is no key to seal it with: set gateway.sealing_keys"))
        sealed = self._sealer.seal(body.user_key, seal_place(host, bank, user))
        made = await self._targets.set(host, bank, user, tuple(dict.fromkeys(body.scope)), sealed)
        listed = await self._targets.list(host)
        shown = (describe_target(one, names=True) for one in listed if one.target.target_id == made.target_id)
        return host, TargetList(targets=tuple(shown))

    async def unset_target(self, asked: TargetPlace, by: str) -> tuple[UUID, TargetsUnset]:
        """Unset the targets of a tenant or bank, replaced ones included; end their deliveries. Raises Invalid."""
        await require_tenant(self._database, asked.tenant)
        host, bank = _identify(asked.tenant, asked.bank)
        targets, skipped = await self._targets.unset(host, bank, by)
        return host, TargetsUnset(targets=tuple(targets), skipped=skipped)


def _identify(tenant: str, bank: str | None) -> tuple[UUID, UUID | None]:
    host = identity.host_id(tenant)
    return host, None if bank is None else identity.bank_id(host, bank)


def _read_user(body: TargetBody) -> GatewayUser:
    try:
        check_way(canonical_url(body.url), allow_http=body.allow_http)
        return GatewayUser(canonical_url(body.url), body.user_id, body.app_id, body.project_id)
    except InvalidRequestError as error:
        raise Invalid(FieldProblem("url", str(error))) from None


def describe_target(one: ListedTarget, *, names: bool) -> GatewayTarget:
    """Return a target as operators see it; `names`: with its bank's name."""
    target, user = one.target, one.target.user
    return GatewayTarget(
        target_id=target.target_id,
        tenant=one.host,
        bank_id=target.bank_id,
        url=user.base_url,
        state=target.state,
        set_at=target.set_at,
        waiting=one.waiting,
        bank=one.bank if names else None,
        user_id=user.user_id,
        app_id=user.app_id,
        project_id=user.project_id,
        scope=target.scope,
        sessions="chat:<session>" if target.bank_id else "chat:<bank>/<session>",
        key="none" if target.unset_at else "sealed" if target.sealed_key else "settings",
    )
