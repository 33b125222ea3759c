"""Authenticates requests: a key becomes a grant, once the fair queue gives its tenant a slot.

Handlers take `TenantCall`, `RecallCall` or `OperatorCall` as a parameter; FastAPI resolves it before they begin.
"""

import time
from dataclasses import dataclass, replace
from typing import Annotated, Protocol
from uuid import UUID

from fastapi import Depends, Request

from producers.bearer import read_bearer
from producers.errors import PermissionDenied, Unauthenticated
from producers.fair_queue import RECALL_WEIGHT, weight_of
from producers.http.middleware import ENTER, GRANT
from producers.service.memory import MemoryFacade
from producers.service.operations import Operations
from store.tenancy.call_audit import NO_HOST
from store.tenancy.keys import Grant
from store.tenancy.operator_keys import Operator
from store.tenancy.tokens import OPERATOR_PREFIX

WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
KEY_ENDED = "this key opens nothing (any more)"
KEY_NEEDED = "a valid key is needed: Authorization: Bearer <key>"


#: After a wait for body and slot of more than these seconds, the key is looked up again.
SHORT_WAIT_S = 0.25


class Authenticator(Protocol):
    """The protocol of an authenticator of tokens."""

    async def authenticate(self, token: str) -> Grant | None:
        """Return the grant of a token, None for an invalid one."""
        ...


@dataclass(frozen=True, slots=True)
class AuthenticatedCall:
    """A call with a tenant's key: the key's grant, and the facade."""

    grant: Grant
    memory: MemoryFacade


async def authenticate_and_queue(request: Request, keys: Authenticator, weight: int | None = None) -> Grant:
    """Return the grant of the bearer's key, once the fair queue gives the tenant a slot.

    `weight`: the call's weight; None: by the size of its body. Raises Unauthenticated, Overloaded; PermissionDenied for
    a key of another interface.
    """
    token = read_bearer(request.headers)
    if token.startswith(OPERATOR_PREFIX):
        raise PermissionDenied("a key of an operator opens /api/v1/operator/* only")
    grant = await keys.authenticate(token) if token else None
    if grant is None:
        raise Unauthenticated(KEY_NEEDED)
    if grant.gateway_user is not None:
        raise PermissionDenied("this key opens /memories/* only")
    grant = replace(grant, own_key=token)
    await wait_for_slot(request, keys, grant, weight)
    return grant


async def wait_for_slot(request: Request, keys: Authenticator, grant: Grant, weight: int | None = None) -> None:
    """Note the request's grant, and wait for a slot of the fair queue. Raises Overloaded.

    The body is read first, so that no slot is held for a client that sends slowly. After a wait the key is looked up
    again (Unauthenticated); where the call writes, the database looks once more.
    """
    request.scope[GRANT] = grant
    get_memory(request).begin_call(grant)
    begun = time.monotonic()
    await request.scope[ENTER](grant.host_id, max(weight or 0, weight_of(await _measure_body(request))))
    if time.monotonic() - begun > SHORT_WAIT_S and await keys.authenticate(grant.own_key or "") is None:
        raise Unauthenticated(KEY_NEEDED)


async def _measure_body(request: Request) -> int:
    return len(await request.body()) if request.method in WITH_BODY else 0


def get_memory(request: Request) -> MemoryFacade:
    """Return the facade that this application serves."""
    memory: MemoryFacade = request.app.state.memory
    return memory


def get_authenticator(request: Request) -> Authenticator:
    """Return the authenticator of tenants' keys."""
    keys: Authenticator = request.app.state.keys
    return keys


async def _admit_call(request: Request) -> AuthenticatedCall:
    return AuthenticatedCall(await authenticate_and_queue(request, get_authenticator(request)), get_memory(request))


async def _admit_recall(request: Request) -> AuthenticatedCall:
    return AuthenticatedCall(
        await authenticate_and_queue(request, get_authenticator(request), RECALL_WEIGHT), get_memory(request)
    )


TenantCall = Annotated[AuthenticatedCall, Depends(_admit_call)]
#: An authenticated call with the weight of a recall, however short its body is.
RecallCall = Annotated[AuthenticatedCall, Depends(_admit_recall)]


@dataclass(frozen=True, slots=True)
class OperatorGrant:
    """The grant of an operator's key for the audit: the key, and the tenant of the call."""

    key_id: UUID
    host_id: UUID = NO_HOST


@dataclass(frozen=True, slots=True)
class AuthenticatedOperator:
    """A call with an operator's key: over all tenants, never content."""

    operator: Operator
    operations: Operations
    request: Request

    def require_key_making(self) -> None:
        """Raise PermissionDenied for a key that may not make keys of tenants."""
        if not self.operator.makes_keys:
            raise PermissionDenied(
                "a key that is made here reads content: that needs an operator's key of its own "
                "(`afterturn keys create --operator --makes-keys`)"
            )

    def note_tenant(self, tenant: UUID) -> None:
        """Note the tenant of the call for the audit."""
        self.request.scope[GRANT] = OperatorGrant(self.operator.key_id, tenant)


async def _admit_operator(request: Request) -> AuthenticatedOperator:
    """Return an operator's call. Raises Unauthenticated, Overloaded; PermissionDenied for a key of a tenant."""
    operations: Operations = request.app.state.operations
    token = read_bearer(request.headers)
    if not token:
        raise Unauthenticated(KEY_NEEDED)
    key = await operations.keys.authenticate(token)
    if key is None and token.startswith(OPERATOR_PREFIX):
        raise Unauthenticated(KEY_ENDED)
    if key is None:
        raise PermissionDenied("this needs a key of an operator (`afterturn keys create --operator`)")
    request.scope[GRANT] = OperatorGrant(key.key_id)
    begun = time.monotonic()
    await request.scope[ENTER](NO_HOST, weight_of(await _measure_body(request)))
    if time.monotonic() - begun > SHORT_WAIT_S and await operations.keys.authenticate(token) is None:
        raise Unauthenticated(KEY_ENDED)
    return AuthenticatedOperator(key, operations, request)


OperatorCall = Annotated[AuthenticatedOperator, Depends(_admit_operator)]
