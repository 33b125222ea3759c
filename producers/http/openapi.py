"""Describes the API for OpenAPI: the promise of every operation, its callers, bodies, answers and errors.

Bodies are validated by the facade, and answers are shapes of the contract: the models of both are declared here.
`examples.json` has an example of each, which a test holds to what is answered.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache, reduce
from http import HTTPStatus
from operator import or_
from pathlib import Path
from typing import Any

from afterturn_client.contract.failures import ErrorBody, Failure
from afterturn_client.contract.shape import Shape
from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from starlette.routing import BaseRoute

from producers.errors import Invalid, Overloaded, PermissionDenied, TooLarge, TooSlow, Unauthenticated, Unavailable
from producers.http.error_responses import INTERNAL, UNAVAILABLE, WIRES, Malformed, Wire, kind_to_wire
from producers.service.wire import WireModel
from store.errors import ErasedMeanwhile, QuotaExceeded, RateLimited, ResourceBusy, RestoredElsewhere

SCHEMA = "#/components/schemas/{model}"
RESPONSE = "#/components/responses/{name}"
KEY = "key"
JSON = "application/json"

#: The meaning of each code, and what to do about it.
MEANINGS: Mapping[str, str] = {
    "BAD_REQUEST": "the body is not JSON. Mend it",
    "UNAUTHENTICATED": "no key, or one that opens nothing. Send `Authorization: Bearer <key>`",
    "PERMISSION_DENIED": "the key does not reach this or may not change it, or this host name is not served",
    "NOT_FOUND": "no such thing for this tenant. A thing of another tenant gets the same answer",
    "REQUEST_TIMEOUT": "the body did not arrive in its time. Send it again",
    "TURN_CONFLICT": "the turn is stored with another body. Use another `turn_id` for a new turn",
    "ERASED": "the user, session or bank was erased after the call was begun. Nothing was written",
    "TURN_ENDED": "the bank has expired, or has ended since this turn was accepted. The message says what to do",
    "KEY_REUSED": "this idempotency key was used for another command. Use a new one",
    "BANK_IN_USE": "the bank still holds things, which `details` counts. End those first",
    "TURN_ERASED": "the turn was erased, and its name is used up. Send it under another name to store it anew",
    "TARGET_TAKEN": "another tenant or bank has, or had, this user of the gateway. Name another user",
    "GENERATION_REFUSED": "a generation of vectors does not allow the change. The message says what to do first",
    "SNAPSHOT_REFUSED": "a snapshot is not made or taken in as asked. The message says what to do instead",
    "VERSION_CONFLICT": "another version is in the log than was expected. Read it again",
    "PARENT_MISSING": "its parent was never created. Create that first",
    "RESTORED_ELSEWHERE": "the log is another cluster's and not stamped for this one. The operator runs `doctor`",
    "RESOURCE_BUSY": "another request holds a lock that this one needs. Retry after the seconds of Retry-After",
    "PAYLOAD_TOO_LARGE": "something exceeds its size limit, which `details` names. Send less",
    "INVALID_ARGUMENT": "a field or parameter breaks a rule. `details.problems` names each",
    "INVALID_EVENT": "an event breaks the rules of the catalog of events",
    "QUOTA_EXCEEDED": "the tenant holds as much as it may. Erase something or ask the operator",
    "RATE_LIMITED": "too much at a time. Retry after the seconds of Retry-After",
    "UNAVAILABLE": "the service cannot do this now and promised nothing. Retry after the seconds of Retry-After",
    "INTERNAL": "an unexpected error. The request id leads to its line in the log",
}


class CallerClass(StrEnum):
    """Who may call an operation."""

    ANYONE = "anyone; no key is needed"
    READER = "a key of the tenant that reaches the bank"
    WRITER = "a key that may write and reaches the bank"
    CHANGER = (
        "a key that may write and reaches the bank; in a bank that others share, "
        "a key of a user or an agent changes only what is its own"
    )
    CURATOR = (
        "a key that may write and reaches the bank; in a bank that others share, a key of a user or an agent "
        "only if it was made with `--curate`"
    )
    KEEPER = "a key that may write and reaches the bank; of a bank that others share, only a key of the whole tenant"
    OPERATOR = "a key of an operator (`afterturn keys create --operator`), which has no tenant and reads no content"
    CONSOLE = "the console's page: its session stands in a cookie and the header `x-console-session`"
    BODY_KEYS = "anyone with a key, which stands in the body"
    GATEWAY = "the gateway's user: `user_id` and `user_key` stand in the body"


#: Callers whose credential is no key in the header.
OWN_CREDENTIALS = frozenset({CallerClass.GATEWAY, CallerClass.CONSOLE, CallerClass.BODY_KEYS})


@dataclass(frozen=True, slots=True)
class DescribedAnswer:
    """An answer that is a success: what it says, the models it may have, or the example of a text of this kind."""

    says: str
    models: tuple[type[WireModel] | type[Shape], ...] = ()
    text: str | None = None
    media_type: str = "text/plain"


Kinds = Sequence[type[Exception]]
#: Errors of any request, of one with a key, of one with a body, and of one that writes.
ALWAYS: Kinds = (PermissionDenied, TooLarge, Overloaded)
WITH_KEY: Kinds = (Unauthenticated, Invalid, Unavailable)
WITH_BODY: Kinds = (Malformed, TooSlow)
WRITING: Kinds = (ResourceBusy, ErasedMeanwhile, RestoredElsewhere)
LIMITED: Kinds = (*WRITING, QuotaExceeded, RateLimited)


class _RequestBody(dict[str, Any]):
    """The description of a request's body, which refers to its model by name; `model` is that model."""

    def __init__(self, model: type[WireModel]) -> None:
        content = {"schema": {"$ref": SCHEMA.format(model=model.__name__)}, "example": read_example(model)}
        super().__init__(required=True, content={JSON: content})
        self.model = model


class _QueryParameters(list[dict[str, Any]]):
    """The descriptions of a query's parameters, which may refer to `schemas` by name."""

    def __init__(self, query: type[BaseModel]) -> None:
        described = query.model_json_schema(ref_template=SCHEMA)
        required = described.get("required", ())
        super().__init__(
            _describe_parameter(name, schema, required=name in required)
            for name, schema in described["properties"].items()
        )
        self.schemas: Mapping[str, Any] = described.get("$defs", {})


def _describe_parameter(name: str, schema: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    """Return the description of one parameter; a query cannot say null, which stands for a parameter left out.

    What it means stands in its schema, too, as FastAPI says it of parameters in a path: generators read either.
    """
    told = {word: value for word, value in schema.items() if word != "anyOf"}
    for choice in schema.get("anyOf", ()):
        told |= choice if choice != {"type": "null"} else {}
    described = {"name": name, "in": "query", "required": required, "schema": told}
    return described | ({"description": schema["description"]} if "description" in schema else {})


def describe_route(
    summary: str,
    promise: str,
    access: CallerClass,
    answers: Mapping[int, DescribedAnswer],
    *,
    body: type[WireModel] | None = None,
    query: type[BaseModel] | None = None,
    fails: Kinds = (),
) -> dict[str, Any]:
    """Return the keyword arguments that describe a route whose function takes the bare request.

    The operation's id is the function's name. `promise` is what holds when it answers. `fails` are the errors it raises
    beside those that any call with such an access and body may meet; their statuses and codes are those of
    `error_responses.WIRES`.
    """
    with_key = access is not CallerClass.ANYONE
    extra: dict[str, Any] = {"security": [{KEY: []}]} if with_key and access not in OWN_CREDENTIALS else {}
    if body is not None:
        extra["requestBody"] = _RequestBody(body)
    if query is not None:
        extra["parameters"] = _QueryParameters(query)
    kinds = (*ALWAYS, *(WITH_KEY if with_key else ()), *(WITH_BODY if body else ()), *fails)
    return {
        "summary": summary,
        "description": f"{promise}\n\n**Who may call it:** {access}.",
        "openapi_extra": extra,
        # Here, since a route takes it from its router when it is declared: the application's own would come too late.
        "generate_unique_id_function": _name_operation,
        "response_class": Response,
        "status_code": next(iter(answers)),
        "responses": {status: _describe_reply(reply) for status, reply in answers.items()} | _describe_errors(kinds),
    }


def _name_operation(route: APIRoute) -> str:
    return route.name


def _describe_reply(reply: DescribedAnswer) -> dict[str, Any]:
    if reply.text is not None:
        plain = {"schema": {"type": "string"}, "example": reply.text}
        return {"description": reply.says, "content": {reply.media_type: plain}}
    if not reply.models:
        return {"description": reply.says}
    content = {JSON: {"example": read_example(reply.models[0])}}
    return {"description": reply.says, "model": reduce(or_, reply.models), "content": content}


def read_example(model: type) -> Mapping[str, Any]:
    """Return the example of a body by the name of its model."""
    return _read_examples()[model.__name__]


@cache
def _read_examples() -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))
    return found


def _describe_errors(kinds: Iterable[type[Exception]]) -> dict[int, dict[str, Any]]:
    """Return the errors' statuses, with the codes that each may have."""
    codes: dict[int, dict[str, None]] = {}
    for wire in (*map(kind_to_wire, kinds), INTERNAL):
        codes.setdefault(wire.status, {})[wire.code] = None
    return {
        status: {"$ref": RESPONSE.format(name=_name_response(status)), "description": _describe_codes(codes[status])}
        for status in sorted(codes)
    }


def _describe_codes(codes: Iterable[str]) -> str:
    return "; ".join(f"`{code}`: {MEANINGS[code]}" for code in codes)


def _name_response(status: int) -> str:
    """Return the name of an error's response among the components."""
    return f"Error{status}"


def _build_error_responses() -> dict[str, Any]:
    """Return one response a status of an error, with an example of its first code."""
    by_status: dict[int, dict[str, Wire]] = {}
    for wire in (*WIRES.values(), INTERNAL):
        by_status.setdefault(wire.status, {}).setdefault(wire.code, wire)
    return {_name_response(status): _build_error_response(codes) for status, codes in sorted(by_status.items())}


def _build_error_response(codes: Mapping[str, Wire]) -> dict[str, Any]:
    first = next(iter(codes.values()))
    error = Failure(code=first.code, message=MEANINGS[first.code], retryable=first.retryable, details={})
    content = {
        "schema": {"$ref": SCHEMA.format(model=ErrorBody.__name__)},
        "example": {**read_example(ErrorBody), "error": asdict(error)},
    }
    response: dict[str, Any] = {"description": _describe_codes(codes), "content": {JSON: content}}
    if first.status in {HTTPStatus.TOO_MANY_REQUESTS, UNAVAILABLE.status}:
        described = "seconds after which to try again"
        response["headers"] = {"Retry-After": {"description": described, "schema": {"type": "string"}}}
    return response


def _restore_examples(described: Mapping[str, Any], routes: Iterable[BaseRoute]) -> None:
    """Write the answers' examples again, since FastAPI drops their null fields."""
    for route in routes:
        if not isinstance(route, APIRoute) or not route.include_in_schema:
            continue
        for method in route.methods or ():
            answers = described["paths"][route.path_format][method.lower()]["responses"]
            for status, reply in route.responses.items():
                for media, content in reply.get("content", {}).items():
                    answers[str(status)]["content"][media]["example"] = content["example"]


def _collect_schemas(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the schemas that the routes' descriptions refer to by name and FastAPI does not know."""
    extras = [route.openapi_extra or {} for route in routes if isinstance(route, APIRoute)]
    bodies = (extra["requestBody"].model for extra in extras if isinstance(extra.get("requestBody"), _RequestBody))
    shown: list[tuple[type, JsonSchemaMode, TypeAdapter[Any]]] = [
        (one, "validation", TypeAdapter(one)) for one in dict.fromkeys((ErrorBody, *bodies))
    ]
    _, described = TypeAdapter.json_schemas(shown, ref_template=SCHEMA)
    schemas: dict[str, Any] = dict(described["$defs"])
    meanings = "; ".join(f"`{code}`: {meaning}" for code, meaning in sorted(MEANINGS.items()))
    schemas[Failure.__name__]["properties"]["code"]["description"] = f"one of: {meanings}"
    for extra in extras:
        if isinstance(parameters := extra.get("parameters"), _QueryParameters):
            schemas |= parameters.schemas
    return schemas


def complete_description(app: FastAPI) -> None:
    """Add to the app's description the components that its routes refer to: bodies, errors, and the key."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            _restore_examples(described, app.routes)
            components = described.setdefault("components", {})
            components.setdefault("schemas", {}).update(_collect_schemas(app.routes))
            components["responses"] = _build_error_responses()
            components["securitySchemes"] = {KEY: {"type": "http", "scheme": "bearer"}}
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # the way FastAPI documents it
