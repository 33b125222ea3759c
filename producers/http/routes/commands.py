"""Commands of a portal: the native form, and the wire form that its agents speak."""

from afterturn_client.contract.commands import CommandReceipt
from fastapi import APIRouter, Request, Response

from producers.http.authentication import TenantCall
from producers.http.openapi import LIMITED, CallerClass, DescribedAnswer, describe_route
from producers.http.requests import json_response, read_body
from producers.service.commands import CommandBody, PortalCommandBody, PortalResult
from store.errors import BankInUse, EventRefused, InvalidEvent, KeyReused, NotFound

#: The header that names a command: the same key of the same caller is one command.
KEY_HEADER = "idempotency-key"
FAILS = (NotFound, EventRefused, InvalidEvent, KeyReused, BankInUse, *LIMITED)

router = APIRouter(tags=["commands"])


@router.post(
    "/api/v1/commands",
    **describe_route(
        "Do a command of a portal on memory",
        "The event is in the log and its projection applied when this answers. The same `Idempotency-Key` of the "
        "same caller is one command.",
        CallerClass.CHANGER,
        {200: DescribedAnswer("what the command did", (CommandReceipt,))},
        body=CommandBody,
        fails=FAILS,
    ),
)
async def write_command(request: Request, call: TenantCall) -> Response:
    key = request.headers.get(KEY_HEADER)
    action, result = await call.memory.commands.run(call.grant, await read_body(request), key)
    return json_response(CommandReceipt(action=action, result=result))


@router.post(
    "/portal/command",
    **describe_route(
        "Do a command in the portal's wire form",
        "As `POST /api/v1/commands`; the answer is the result alone. An error has another status than 200, and no "
        "answer with 200 has `code` or `statusCode`.",
        CallerClass.CHANGER,
        {200: DescribedAnswer("what the command did", (PortalResult,))},
        body=PortalCommandBody,
        fails=FAILS,
    ),
)
async def write_portal_command(request: Request, call: TenantCall) -> Response:
    key = request.headers.get(KEY_HEADER)
    return json_response(await call.memory.commands.run_portal(call.grant, await read_body(request), key))
