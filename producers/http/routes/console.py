"""Sessions of the console: a key is shown once, and the browser keeps a session in its place."""

from dataclasses import asdict
from typing import Annotated, Self, TypeVar

from afterturn_client.contract.console import ConsoleLink, ConsoleSession, OpenedConsoleSession
from fastapi import Request, Response
from pydantic import BaseModel, Field, model_validator

from producers.errors import Invalid, PermissionDenied, Unauthenticated, Unavailable
from producers.http.authentication import KEY_ENDED, SESSION_ENDED, OperatorGrant, get_sessions
from producers.http.console_cookie import clear_cookie, is_from_this_page, read_session, set_cookie
from producers.http.middleware import CONSOLE, ENTER, GRANT
from producers.http.openapi import CallerClass
from producers.http.operation_router import OperationRouter
from producers.http.requests import json_response, read_body
from producers.service.bodies import parse_body
from producers.service.fields import field_error
from producers.service.wire import Parameters, RequestModel
from store.tenancy.call_audit import NO_HOST
from store.tenancy.console_sessions import ConsoleSessions, SessionHolder, SessionSecret

#: The weight of a call of this module in the fair queue.
WEIGHT = 1
#: Most characters of a key or of a link's code.
LONGEST = 256
#: Seconds for which a link works; the database holds it to them (store/sql/keys.sql).
LINK_S = 3600

Key = Annotated[str, Field(max_length=LONGEST)]
B = TypeVar("B", bound=BaseModel)

router = OperationRouter(prefix="/api/v1", tags=["console"], access=CallerClass.CONSOLE)


class SignInBody(RequestModel):
    """A key, or the code of a one-time link."""

    key: Key | None = Field(None, repr=False, description="key of a tenant or of an operator")
    link: Key | None = Field(None, repr=False, description="code of a one-time link, as `afterturn console` prints it")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.key is None) == (self.link is None):
            raise field_error("key or link: give one of them")
        return self


class ConsoleLinkBody(RequestModel):
    """The keys that a link signs in with."""

    keys: list[Key] = Field(
        min_length=1, max_length=2, repr=False, description="a key of a tenant, one of an operator, or one of each"
    )


@router.operation(
    "POST /console/links",
    "Create a one-time link into the console",
    "The link opens one session for these keys; the browser never sees the keys themselves.",
    "the link works",
    status=201,
    access=CallerClass.BODY_KEYS,
    body=ConsoleLinkBody,
    fails=(Unauthenticated, Invalid, Unavailable),
)
async def create_console_link(request: Request) -> ConsoleLink:
    asked = await _read_own_body(request, ConsoleLinkBody)
    code = await _require_sessions(request).create_link(*asked.keys)
    if code is None:
        raise Unauthenticated(KEY_ENDED)
    return ConsoleLink(link=code, valid_s=LINK_S)


@router.operation(
    "POST /console/session",
    "Sign in to the console",
    "Opens a session for a key or a one-time link; a key that is shown with a session is added to it. It is in "
    "two halves, a cookie (HttpOnly, SameSite=Strict) and "
    "`session`; it ends after 12 hours without a call, and with its key.",
    "the session is open",
    status=201,
    shape=OpenedConsoleSession,
    access=CallerClass.BODY_KEYS,
    body=SignInBody,
    fails=(Unauthenticated, Invalid, Unavailable),
)
async def create_console_session(request: Request) -> Response:
    asked, sessions = await _read_own_body(request, SignInBody), _require_sessions(request)
    secret = await _open_session(sessions, asked, read_session(request))
    if secret is None:
        raise Unauthenticated("this link opens nothing (any more)" if asked.key is None else KEY_ENDED)
    found = await _describe_session(request, sessions, secret)
    response = json_response(OpenedConsoleSession(**asdict(found), session=secret.page), 201)
    set_cookie(request, response, secret.cookie)
    return response


@router.operation(
    "GET /console/session",
    "Get the console's session",
    "Says who is signed in, and what the session reaches.",
    "the session",
)
async def get_console_session(request: Request, asked: Parameters) -> ConsoleSession:
    del asked
    sessions, secret = _require_session(request)
    await request.scope[ENTER](NO_HOST, WEIGHT)
    return await _describe_session(request, sessions, secret)


@router.operation(
    "DELETE /console/session",
    "Sign out of the console",
    "Ends the session; every process refuses it within two seconds.",
    {204: "the session has ended"},
)
async def delete_console_session(request: Request, asked: Parameters) -> Response:
    del asked
    sessions, secret = _require_session(request)
    await request.scope[ENTER](NO_HOST, WEIGHT)
    await _describe_session(request, sessions, secret)
    await sessions.close(secret)
    response = Response(status_code=204)
    clear_cookie(response)
    return response


async def _open_session(
    sessions: ConsoleSessions, asked: SignInBody, known: SessionSecret | None
) -> SessionSecret | None:
    if asked.key is None:
        return await sessions.follow_link(asked.link or "")
    widened = None if known is None else await sessions.widen(known, asked.key)
    return widened or await sessions.open(asked.key)


async def _read_own_body(request: Request, model: type[B]) -> B:
    """Return the body of a call without a key, once there is a slot. Raises PermissionDenied for a foreign page."""
    request.scope[CONSOLE] = True
    if not is_from_this_page(request):
        raise PermissionDenied("a page of another origin may not sign in")
    asked = parse_body(model, await read_body(request))
    await request.scope[ENTER](NO_HOST, WEIGHT)
    return asked


def _require_sessions(request: Request) -> ConsoleSessions:
    sessions = get_sessions(request)
    if sessions is None:  # these routes are served with the console alone
        raise PermissionDenied("the console is not served here (api.console.enabled)")
    return sessions


def _require_session(request: Request) -> tuple[ConsoleSessions, SessionSecret]:
    secret = read_session(request)
    if secret is None:
        raise Unauthenticated(SESSION_ENDED)
    return _require_sessions(request), secret


async def _describe_session(request: Request, sessions: ConsoleSessions, secret: SessionSecret) -> ConsoleSession:
    """Return who is signed in, noted for the audit. Raises Unauthenticated for a session that has ended."""
    grant, operator = await sessions.find_grant(secret), await sessions.find_operator(secret)
    if grant is not None:
        request.scope[GRANT] = grant
    elif operator is not None:
        request.scope[GRANT] = OperatorGrant(operator.key_id)
    else:
        raise Unauthenticated(SESSION_ENDED)
    holder = SessionHolder(None, None) if grant is None else await sessions.describe_holder(grant)
    return ConsoleSession(
        tenant=holder.tenant,
        label=holder.label,
        banks=None if grant is None or grant.banks is None else tuple(sorted(grant.banks)),
        user=None if grant is None else grant.user,
        agent=None if grant is None else grant.agent,
        write=grant is not None and grant.write,
        operator=operator is not None,
        makes_keys=operator is not None and operator.makes_keys,
    )
