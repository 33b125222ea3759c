"""Parses the bodies of the plugin's requests; messages about them name fields, never values.

Fields of capabilities that the store does not claim are ignored, as are fields unknown to the contract.
"""

import json
import math
from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from producers.plugin.refusals import bad_request
from producers.plugin.wire import Capability, NamespacePatch, NamespaceUpsert
from producers.service.bodies import MOST_PROBLEMS
from producers.service.json_values import limit_json_now

#: Fields of a body that need a capability of the store.
FIELDS = {
    "expires_at": Capability.TTL,
    "pin": Capability.PIN,
    "propagation": Capability.PROPAGATION,
    "embedding": Capability.EMBEDDING,
    "created_at": Capability.CREATED_AT,
    "cursor": Capability.CURSOR,
    "export": Capability.EXPORT,
}

#: Fields that are returned exactly as they were sent, but for credentials, or refused: their numbers are read digit for
#: digit.
AS_SENT = ("metadata", "propagation")

#: Problems of a body that its refusal names.
NAMED_PROBLEMS = 10

Body = TypeVar("Body", bound=BaseModel)


def parse_request(raw: bytes, model: type[Body], capabilities: Collection[Capability | str]) -> Body:
    """Return a body as an object of this model. Raises Refusal, and Invalid for too many values."""
    known = {name for name in model.model_fields if name not in FIELDS or FIELDS[name] in capabilities}
    as_sent = known.intersection(AS_SENT)
    # In a patch, null clears a field; elsewhere it counts as absent.
    body = {
        name: value
        for name, value in _parse_object(raw, as_sent).items()
        if name in known and (value is not None or model is NamespacePatch)
    }
    for name in as_sent:
        if any(isinstance(one, _Rounded) for one in _iterate_leaves(body.get(name))):
            raise bad_request(f"{name}: a number has more digits than can be kept; send it as a text")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        if (count := error.error_count()) > MOST_PROBLEMS:
            raise bad_request(f"the body has {count} wrong fields") from None
        problems = error.errors(include_input=False, include_url=False, include_context=False)
    messages = (
        f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}"
        for one in problems[:NAMED_PROBLEMS]
    )
    raise bad_request("; ".join(one.removeprefix(": ") for one in messages))


def list_changes(body: NamespaceUpsert | NamespacePatch) -> dict[str, Any]:
    """Return the fields that a body names besides the kind; empty metadata counts as none."""
    named: dict[str, Any] = {
        field: getattr(body, field) for field in ("expires_at", "metadata") if field in body.model_fields_set
    }
    return named | ({"metadata": None} if named.get("metadata") == {} else {})


class _Rounded(float):
    """A number that a double cannot hold digit for digit."""


def _parse_object(raw: bytes, as_sent: Collection[str]) -> dict[str, Any]:
    """Return the JSON object of a body, the fields `as_sent` digit for digit.

    Raises Refusal, and Invalid for too many values.
    """
    limit_json_now(raw)
    try:
        value = orjson.loads(raw)
        if isinstance(value, dict) and any(value.get(name) is not None for name in as_sent):
            value = json.loads(raw, parse_float=_parse_number)
    except (ValueError, RecursionError):
        raise bad_request("the body must be JSON, in UTF-8, and not nested too deeply") from None
    if not isinstance(value, dict):
        raise bad_request("the body must be a JSON object")
    if b"\\u0000" in raw and any(isinstance(one, str) and "\0" in one for one in _iterate_leaves(value)):
        raise bad_request("the body holds the character NUL, which cannot be kept")
    return value


def _parse_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number if Decimal(text) == Decimal(repr(number)) else _Rounded(number)


def _iterate_leaves(value: object) -> Iterator[object]:
    """Yield the texts (keys of objects included) and numbers of a JSON value."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        else:
            yield one
