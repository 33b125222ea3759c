"""Commands of a portal: the native form, and the wire form that its agents speak."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from afterturn_client.arguments import check_name
from afterturn_client.calls import ApiCall
from afterturn_client.contract.commands import CommandReceipt
from afterturn_client.errors import InvalidAnswerError
from afterturn_client.reading import read_shape
from afterturn_client.refusals import find_error_in_success
from afterturn_client.transport import Request, encode_json

#: Constants of the portal's wire form.
PORTAL = {"host": "lightapi.net", "service": "genai", "version": "0.1.0"}
#: Actions that fail when they are done again, with a key or without.
NOT_REPEATED = frozenset({"deleteAgentMemoryUnit", "deleteAgentMemoryReflection", "deleteAgentMemoryDoc"})


def run_command(action: str, data: Mapping[str, Any], key: str | None, timeout_s: float) -> ApiCall[CommandReceipt]:
    """POST /api/v1/commands; with a key of its own where none is given, so that it is repeated safely."""
    told = {"action": check_name("action", action), "data": dict(data), "idempotency_key": key or str(uuid4())}
    request = Request("POST", "/api/v1/commands", body=encode_json(told), timeout_s=timeout_s)
    private = tuple(_list_texts(data))
    return ApiCall(
        request, partial(read_shape, CommandReceipt, what="command"), action not in NOT_REPEATED, private=private
    )


def run_portal_command(
    path: str, action: str, data: Mapping[str, Any], key: str | None, timeout_s: float
) -> ApiCall[Mapping[str, Any]]:
    """POST a command in the portal's wire form; its result. A `code` or `statusCode` in a 200 is an ApiError."""
    body = encode_json({**PORTAL, "action": action, "data": dict(data)})
    headers = {"idempotency-key": key or str(uuid4())}
    private = tuple(_list_texts(data))

    def read(value: object) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise InvalidAnswerError(f"{action}: expected an object")
        if refusal := find_error_in_success(value, private):
            raise refusal
        return value

    request = Request("POST", path, body=body, timeout_s=timeout_s, headers=headers)
    return ApiCall(request, read, action not in NOT_REPEATED, private=private)


def _list_texts(value: object) -> list[str]:
    """Return the texts of a JSON value, which must stand in no error."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [text for one in value for text in _list_texts(one)] if isinstance(value, list | tuple) else []
