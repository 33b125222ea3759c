"""Authenticates requests: a key, or a session of the console, becomes a grant, once the queue gives its tenant a slot.

Handlers take `TenantCall`, `HeavyCall` or `OperatorCall` as a parameter; FastAPI resolves it before they begin.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Protocol, TypeVar
from uuid import UUID

from fastapi import Depends, Request

from producers.bearer import read_bearer
from producers.errors import PermissionDenied, Unauthenticated
from producers.fair_queue import RECALL_WEIGHT, weight_of
from producers.http.console_cookie import read_session
from producers.http.middleware import ENTER, GRANT
from producers.service.memory import MemoryFacade
from producers.service.operations import Operations
from store.tenancy.call_audit import NO_HOST
from store.tenancy.console_sessions import ConsoleSessions, SessionSecret
from store.tenancy.keys import Grant
from store.tenancy.operator_keys import Operator
from store.tenancy.tokens import OPERATOR_PREFIX

T = TypeVar("T")

WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
KEY_ENDED = "this key is not known here, or it was revoked or has expired: ask for another"
OPERATOR_NEEDED = "this needs a key of an operator (`afterturn keys create --operator`)"
SESSION_ENDED = "the session of the console has ended: sign in again"
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


def get_sessions(request: Request) -> ConsoleSessions | None:
    """Return the sessions of the console; None: it is not served."""
    sessions: ConsoleSessions | None = request.app.state.console
    return sessions


@dataclass(frozen=True, slots=True)
class _KeyOfSession:
    """The tenant's key of a session, looked up by the session's secret; the token is not read."""

    sessions: ConsoleSessions
    secret: SessionSecret

    async def authenticate(self, token: str) -> Grant | None:
        del token
        return await self.sessions.find_grant(self.secret)


async def _authenticate(request: Request, weight: int | None = None) -> Grant:
    """Return the grant of the bearer's key, or of the console's session, once the tenant has a slot."""
    sessions = get_sessions(request)
    secret = None if sessions is None else read_session(request)
    if sessions is None or secret is None:
        return await authenticate_and_queue(request, get_authenticator(request), weight)
    grant = await sessions.find_grant(secret)
    if grant is None and await sessions.find_operator(secret) is not None:
        raise PermissionDenied("a key of an operator opens /api/v1/operator/* only")
    if grant is None:
        raise Unauthenticated(SESSION_ENDED)
    await wait_for_slot(request, _KeyOfSession(sessions, secret), grant, weight)
    return grant


async def _admit_call(request: Request) -> AuthenticatedCall:
    return AuthenticatedCall(await _authenticate(request), get_memory(request))


async def _admit_heavy(request: Request) -> AuthenticatedCall:
    return AuthenticatedCall(await _authenticate(request, RECALL_WEIGHT), get_memory(request))


TenantCall = Annotated[AuthenticatedCall, Depends(_admit_call)]
#: An authenticated call with the weight of a recall, however short its body is: a batch of ten turns is no longer.
HeavyCall = Annotated[AuthenticatedCall, Depends(_admit_heavy)]


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
    #: Looks the operator up again.
    find_again: Callable[[], Awaitable[Operator]] = field(repr=False)

    async def is_still_valid(self) -> bool:
        """Return whether the key, or the session, still opens this: an answer that goes on for long asks."""
        try:
            await self.find_again()
        except (Unauthenticated, PermissionDenied):
            return False
        return True

    @property
    def name(self) -> str:
        """Who this is, as the audit of changed work names them."""
        return self.operator.name or f"operator key {self.operator.key_id}"

    def note_tenant(self, tenant: UUID) -> None:
        """Note the tenant of the call for the audit."""
        self.request.scope[GRANT] = OperatorGrant(self.operator.key_id, tenant)

    def note(self, found: tuple[UUID, T]) -> T:
        """Note the tenant of what was found, which comes first, and return the rest."""
        tenant, answer = found
        self.note_tenant(tenant)
        return answer


async def _admit_operator(request: Request) -> AuthenticatedOperator:
    """Return an operator's call. Raises Unauthenticated, Overloaded; PermissionDenied for a key of a tenant."""
    operations: Operations = request.app.state.operations
    find = _choose_operator_lookup(request, operations)
    key = await find()
    request.scope[GRANT] = OperatorGrant(key.key_id)
    begun = time.monotonic()
    await request.scope[ENTER](NO_HOST, weight_of(await _measure_body(request)))
    if time.monotonic() - begun > SHORT_WAIT_S:
        key = await find()
    return AuthenticatedOperator(key, operations, request, find)


async def _admit_key_maker(request: Request) -> AuthenticatedOperator:
    """Return an operator's call as `_admit_operator` does. Raises PermissionDenied for one that makes no keys, too."""
    call = await _admit_operator(request)
    if not call.operator.makes_keys:
        raise PermissionDenied(
            "this reads content, or makes a key that does: that needs an operator's key of its own "
            "(`afterturn keys create --operator --makes-keys`)"
        )
    return call


def _choose_operator_lookup(request: Request, operations: Operations) -> Callable[[], Awaitable[Operator]]:
    """Return the function that looks the operator up, by the console's session or by the bearer's key."""
    sessions = get_sessions(request)
    secret = None if sessions is None else read_session(request)
    if sessions is None or secret is None:
        return partial(_find_operator_by_key, operations, read_bearer(request.headers))
    return partial(_find_operator_by_session, sessions, secret)


async def _find_operator_by_key(operations: Operations, token: str) -> Operator:
    if not token:
        raise Unauthenticated(KEY_NEEDED)
    key = await operations.keys.authenticate(token)
    if key is None and token.startswith(OPERATOR_PREFIX):
        raise Unauthenticated(KEY_ENDED)
    if key is None:
        raise PermissionDenied(OPERATOR_NEEDED)
    return key


async def _find_operator_by_session(sessions: ConsoleSessions, secret: SessionSecret) -> Operator:
    operator = await sessions.find_operator(secret)
    if operator is None and await sessions.find_grant(secret) is not None:
        raise PermissionDenied(OPERATOR_NEEDED)
    if operator is None:
        raise Unauthenticated(SESSION_ENDED)
    return operator


OperatorCall = Annotated[AuthenticatedOperator, Depends(_admit_operator)]
#: A call with an operator's key that may make keys of tenants, and so read content.
KeyMakerCall = Annotated[AuthenticatedOperator, Depends(_admit_key_maker)]
