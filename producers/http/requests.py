"""Reads the JSON body and the parameters of a request, and writes JSON answers."""

import json
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote_to_bytes
from uuid import UUID

import orjson
from fastapi import Path, Request, Response
from pydantic import BaseModel, Field

from producers.errors import FieldProblem, Invalid
from producers.http.error_responses import Malformed
from producers.service.bodies import parse_body
from producers.service.fields import BANK_NAME, POSITION_MAX, DefaultBank, NamedBank, WaitMs
from producers.service.json_values import limit_json
from producers.service.wire import Parameters
from store.errors import NotFound

P = TypeVar("P", bound=BaseModel)

#: A bank in a path; its rules are those of `BankName`.
PathBank = Annotated[str, Path(description=BANK_NAME)]


class BankParameters(Parameters):
    """In which bank."""

    bank: DefaultBank = "default"


class BankPlace(Parameters):
    """Which bank."""

    bank: NamedBank


class WaitParameters(Parameters):
    """How long to wait for an end."""

    wait_ms: WaitMs = 0


class FreshnessParameters(WaitParameters):
    """Which position to wait for, and how long."""

    position: int | None = Field(
        None,
        ge=0,
        le=POSITION_MAX,
        description="position in the log that every stage is to have passed, as a write answered it; left out: no wait",
    )


class BankFreshnessParameters(FreshnessParameters, BankPlace):
    """Of which bank, which position to wait for, and how long."""


async def read_body(request: Request) -> Any:
    """Return the JSON value of the body. Raises Malformed, and Invalid for too many values."""
    raw = await request.body()
    await limit_json(raw)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _as_the_standard_reads(raw)


def _as_the_standard_reads(raw: bytes) -> Any:
    """Parse JSON that the faster parser refuses (lone surrogates, large numbers), so that rules can refuse it."""
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Malformed("the body is not JSON") from None


def _refuse_constant(_name: str) -> None:
    raise ValueError("not JSON")


def read_parameters(request: Request, model: type[P]) -> P:
    """Return the query's parameters. Raises Invalid for unknown, repeated and invalid ones, and what is no UTF-8."""
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise Invalid(FieldProblem("query", "is not percent-encoded UTF-8")) from None
    given = request.query_params.multi_items()
    if len({name for name, _ in given}) < len(given):
        raise Invalid(FieldProblem("query", "a parameter is given more than once"))
    return parse_body(model, dict(given))


def describe_id(of: str) -> Any:
    """Return the description of a path's parameter that `parse_identifier` reads."""
    return Path(description=f"UUID of {of}", json_schema_extra={"format": "uuid"})


def parse_identifier(text: str) -> UUID:
    """Return the id in a path. Raises NotFound for an invalid one."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("no such id") from None


def json_response(value: Any, status: int = 200) -> Response:
    """Return a JSON answer."""
    return Response(orjson.dumps(value, default=_encode_uuid), status, media_type="application/json")


def _encode_uuid(value: Any) -> str:
    """Return a database driver's own UUID type, which orjson does not know, as text."""
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(type(value).__name__)
