"""From a request to values: the key's grant, the JSON body, the parameters."""

import json
from dataclasses import replace
from typing import Any, Protocol, TypeVar
from uuid import UUID

import orjson
from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from producers.errors import FieldProblem, Invalid, PermissionDenied, Unauthenticated
from producers.fair_queue import weight_of
from producers.http.middleware import ENTER, GRANT
from producers.http.problems import Malformed
from producers.service.fields import POSITION_MAX, BankName
from producers.service.turns import parse_body
from store.errors import NotFound
from store.tenancy.keys import Grant
from store.tenancy.tokens import OPERATOR_PREFIX

P = TypeVar("P", bound=BaseModel)

MAX_WAIT_MS = 10_000
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Nothing(BaseModel):
    """A call that takes no parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BankParameters(Nothing):
    """In which bank."""

    bank: BankName = "default"


class BankPlace(Nothing):
    """Which bank."""

    bank: BankName


class WaitParameters(Nothing):
    """How long to wait for an end."""

    wait_ms: int = Field(0, ge=0, le=MAX_WAIT_MS)


class FreshnessParameters(WaitParameters):
    """Which position to wait for, and how long."""

    position: int | None = Field(None, ge=0, le=POSITION_MAX)


class BankFreshnessParameters(FreshnessParameters, BankPlace):
    """Of which bank, which position to wait for, and how long."""


class Authenticator(Protocol):
    """Knows what tokens allow."""

    async def authenticate(self, token: str) -> Grant | None:
        """Return what a token allows, or None where it opens nothing."""
        ...


async def authenticate_and_queue(request: Request, keys: Authenticator, weight: int | None = None) -> Grant:
    """Return what the bearer's key allows, once the fair queue gives the tenant a slot.

    `weight` is the call's, else its body's. Raises Unauthenticated, Overloaded; PermissionDenied for a key of another
    interface.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if token.strip().startswith(OPERATOR_PREFIX):
        raise PermissionDenied("a key of an operator opens /api/v1/operator/* only")
    grant = await keys.authenticate(token.strip()) if scheme.lower() == "bearer" and token else None
    if grant is None:
        raise Unauthenticated("a valid key is needed: Authorization: Bearer <key>")
    if grant.gateway_user is not None:
        raise PermissionDenied("this key opens /memories/* only")
    grant = replace(grant, own_key=token.strip())
    await wait_for_slot(request, grant, weight)
    return grant


async def wait_for_slot(request: Request, grant: Grant, weight: int | None = None) -> None:
    """Note whose request this is, and wait for a slot of the fair queue. Raises Overloaded.

    The body is read before: no slot waits for a client that sends slowly.
    """
    request.scope[GRANT] = grant
    size = len(await request.body()) if request.method in WITH_BODY else 0
    await request.scope[ENTER](grant.host_id, weight or weight_of(size))


async def body_of(request: Request) -> Any:
    """Return the JSON value of the body. Raises Malformed."""
    raw = await request.body()
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _as_the_standard_reads(raw)


def _as_the_standard_reads(raw: bytes) -> Any:
    """Return what the faster parser refuses though it is JSON (lone surrogates, great numbers), to judge it by rule."""
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Malformed("the body is not JSON") from None


def _refuse_constant(_name: str) -> None:
    raise ValueError("not JSON")


def read_parameters(request: Request, model: type[P]) -> P:
    """Return the query's parameters. Raises Invalid for unknown, repeated and wrong ones."""
    given = request.query_params.multi_items()
    if len({name for name, _ in given}) < len(given):
        raise Invalid(FieldProblem("query", "a parameter is given more than once"))
    return parse_body(model, dict(given))


def parse_identifier(text: str) -> UUID:
    """Return the id in a path. Raises NotFound: what is no id names nothing."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("no such id") from None


def json_response(value: Any, status: int = 200) -> Response:
    """Return a JSON answer."""
    return Response(orjson.dumps(value, default=_plain), status, media_type="application/json")


def _plain(value: Any) -> str:
    """Return what orjson does not know: a database driver's own kind of UUID."""
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(type(value).__name__)
