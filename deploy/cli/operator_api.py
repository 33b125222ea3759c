"""The operators' API for commands: over HTTP with an operator's key, or served to itself on the stack's database.

A stack of `afterturn up` has an operator's key in its data folder. Where its API does not answer, or the settings name
a database and no operator's key, the command runs the same routes in its own process, with the database's passwords. A
change is then audited under the account that ran the command.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar
from uuid import UUID

import httpx
import typer
from afterturn_client.contract.shape import Shape
from afterturn_client.errors import InvalidAnswerError, InvalidRequestError
from afterturn_client.lost_answers import find_cause
from afterturn_client.reading import read_shape
from afterturn_client.transport import check_base_url, check_way, key_options, open_client

from deploy.cli.existence import describe_missing
from deploy.cli.operator_command import exit_on_outage, read_operator_name, with_database
from deploy.cli.output import exit_with
from deploy.cli.running_stack import read_settings
from deploy.local.stack import Stack
from deploy.notices import print_notice, replace_unprintable
from store.clock import DatabaseClock
from store.database import Database
from store.tenancy.call_audit import NO_HOST, AuditedCall, CallAudit, Interface
from store.tenancy.operator_keys import Operator
from store.tenancy.sealing import Sealer
from store.tenancy.tokens import OPERATOR_PREFIX
from workers.settings import sealing_keys

S = TypeVar("S", bound=Shape)

ROUTES = "/api/v1/operator"
#: Time-out of a call, in seconds.
TIMEOUT_S = 30.0
#: Statuses of refusals that are the command's own fault: a wrong key, a wrong argument.
USAGE_STATUSES = frozenset({401, 403, 422})


class ServiceAwayError(OSError):
    """No answer came from the service; the text is the kind of failure. `sent`: the request may have arrived."""

    def __init__(self, kind: str, *, sent: bool) -> None:
        super().__init__(kind)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer: its status, and its JSON value or None."""

    status: int
    value: Any


class OperatorApi:
    """The operators' API of one service; every failure ends the command with one line."""

    def __init__(self, stack: Stack) -> None:
        """Use the stack's API. Exits 2 when there is no operator's key and no database, or a key must not be sent."""
        self._stack = stack
        self._key = find_operator_key(stack)
        self._on_database = not self._key
        if self._on_database and not stack.operator_url.get_secret_value():
            raise exit_with(
                f"{stack.api}: this needs an operator's key (`afterturn keys create --operator`, then `afterturn "
                "context add`) or the database: set database.url and database.operator_url",
                2,
            )
        if self._key:
            self._base = _check_url(stack)

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the service's answer; exits 1 when it fails or refuses, 2 for a wrong key or argument."""
        with self._exit_where_away():
            return self.ask(method, path, body, **query)

    def read(self, shape: type[S], path: str, **query: Any) -> S:
        """Return what is there as its shape; exits as `call` does."""
        return read_answer(shape, self.call("GET", path, **query))

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the service's answer as `call` does; where none comes, raises ServiceAwayError or the database's."""
        asked = {name: value for name, value in query.items() if value is not None}
        reply = self._exchange(method, path, body, asked)
        if reply.status < httpx.codes.BAD_REQUEST:
            return reply.value if reply.value is not None else {}
        if "tenant" in _find_wrong_fields(reply):
            tenant = (body or query).get("tenant")
            raise self._exit_without_tenant(str(tenant))
        raise _exit_refused(reply)

    def tenant_name(self, tenant: str | None) -> str | None:
        """Return the name of a tenant, given by name or id; exits 2 where there is none of this id."""
        try:
            return tenant if tenant is None else self.require_tenant(tenant, UUID(tenant))
        except ValueError:
            return tenant

    def require_tenant(self, tenant: str, tenant_id: UUID) -> str:
        """Return the name of the tenant of this id; exits 2 where there is none, and names those like `tenant`."""
        with self._exit_where_away():
            found = self._exchange("GET", f"/tenants/{tenant_id}", None, {})
        if found.status == httpx.codes.NOT_FOUND:
            raise self._exit_without_tenant(tenant)
        if found.status != httpx.codes.OK:
            raise _exit_refused(found)
        return str(found.value["name"])

    @contextmanager
    def _exit_where_away(self) -> Iterator[None]:
        with exit_on_outage():
            try:
                yield
            except ServiceAwayError as error:
                raise exit_with(f"{self._base} does not answer ({error})", 1) from None

    def _exit_without_tenant(self, tenant: str) -> typer.Exit:
        there = [one["name"] for one in self.call("GET", "/tenants", limit=1000)["tenants"]]
        return exit_with(describe_missing(f"there is no tenant {tenant!r}", "the tenants are", tenant, there), 2)

    def _exchange(self, method: str, path: str, body: Any, query: dict[str, Any]) -> _Answer:
        if not self._on_database:
            try:
                return self._send(method, path, body, query)
            except ServiceAwayError as error:
                if error.sent or not self._stack.operator_url.get_secret_value():
                    raise
                print_notice(f"{self._base} does not answer ({error}): its database is asked")
                self._on_database = True
        return asyncio.run(
            with_database(self._stack, lambda database: _serve(database, self._stack, (method, path), body, query))
        )

    def _send(self, method: str, path: str, body: Any, query: dict[str, Any]) -> _Answer:
        try:
            with open_client(httpx.Client, timeout=TIMEOUT_S, **key_options(self._base, self._key)) as client:
                reply = client.request(method, f"{ROUTES}{path}", json=body, params=query)
        except httpx.RequestError as error:
            sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise ServiceAwayError(find_cause(error) or type(error).__name__, sent=sent) from None
        except InvalidRequestError as error:
            raise exit_with(str(error), 2) from None
        return _parse_reply(reply)


def read_answer(shape: type[S], answer: object) -> S:
    """Return an answer as its shape; exits 1 where it is of another version."""
    try:
        return read_shape(shape, answer)
    except InvalidAnswerError as error:
        raise exit_with(f"the service answered in a form that this command does not know: {error}", 1) from None


def find_operator_key(stack: Stack) -> str:
    """Return the operator's key of the context or of the local stack; '' where there is none."""
    key = stack.key.get_secret_value() if stack.key else ""
    if key.startswith(OPERATOR_PREFIX):
        return key
    try:
        return stack.operator_key()
    except (OSError, UnicodeDecodeError):
        return ""


def _check_url(stack: Stack) -> str:
    try:
        base = check_base_url(stack.api)
        check_way(base, allow_http=stack.allow_http)
    except InvalidRequestError as error:
        raise exit_with(f"{stack.api} cannot be called: {error}", 2) from None
    return base


def _parse_reply(reply: httpx.Response) -> _Answer:
    try:
        return _Answer(reply.status_code, reply.json() if reply.content else None)
    except ValueError:
        return _Answer(reply.status_code, None)


def read_refusal(reply: httpx.Response) -> str:
    """Return what a refusal says, fit for a terminal."""
    return _read_refusal(_parse_reply(reply))


def _read_refusal(reply: _Answer) -> str:
    try:
        return replace_unprintable(str(reply.value["error"]["message"]))
    except (KeyError, TypeError):
        return f"status {reply.status}"


def _exit_refused(reply: _Answer) -> typer.Exit:
    return exit_with(f"the service refused: {_read_refusal(reply)}", 2 if reply.status in USAGE_STATUSES else 1)


def _find_wrong_fields(reply: _Answer) -> set[str]:
    try:
        return {str(one["field"]) for one in reply.value["error"]["details"]["problems"]}
    except (KeyError, TypeError):
        return set()


class _Trusted:
    """Takes the caller of the command for an operator: the stack gave it the database's passwords."""

    async def authenticate(self, _token: str) -> Operator:
        return Operator(NO_HOST, makes_keys=True, name=read_operator_name())


async def _serve(database: Database, stack: Stack, route: tuple[str, str], body: Any, query: dict[str, Any]) -> _Answer:
    """Answer one request by the operators' routes in this process, and audit a change."""
    # Imported only now: a command that has a key needs no server.
    from deploy.components.settings_model import SettingsModel  # noqa: PLC0415
    from producers.http.error_responses import describe_error, error_to_wire  # noqa: PLC0415
    from producers.http.local_operator import open_local_routes  # noqa: PLC0415
    from producers.service.operations import Operations  # noqa: PLC0415

    (method, path), clock, begun = route, await DatabaseClock.asked(database), time.monotonic()
    model = SettingsModel(stack.embedding, stack.api_key_file.parent)
    operations = Operations(
        database,
        clock,
        _Trusted(),
        sealer=Sealer(sealing_keys(stack.gateway_sealing_keys)),
        environment=read_settings().environment,
        model=model,
        recall=stack.recall,
    )
    routes = open_local_routes(operations)
    at, answer, code = clock(), _Answer(500, None), None
    try:
        transport = httpx.ASGITransport(routes)
        async with httpx.AsyncClient(transport=transport, base_url="http://local", trust_env=False) as client:
            key = {"authorization": f"Bearer {OPERATOR_PREFIX}"}
            reply = await client.request(method, f"{ROUTES}{path}", json=body, params=query, headers=key)
        answer = _parse_reply(reply)
    except Exception as error:
        wire = error_to_wire(error)
        code, answer = wire.code, _Answer(wire.status, {"error": asdict(describe_error(error))})
        if wire.status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise
    finally:
        await model.close()
        if method != "GET":
            took = (time.monotonic() - begun) * 1000
            call = AuditedCall(
                at,
                Interface.OPERATOR,
                routes.operation(method),
                took,
                routes.tenant,
                actor=read_operator_name(),
                status=answer.status,
                code=code,
            )
            await CallAudit(database).write([call])
    return answer
