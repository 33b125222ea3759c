"""Commands of a portal: the native form, and the wire form that its agents speak."""

from collections.abc import Mapping
from typing import Any

from afterturn_client.contract.commands import CommandReceipt
from fastapi import Request

from producers.http.authentication import TenantCall
from producers.http.openapi import LIMITED, CallerClass
from producers.http.operation_router import OperationRouter
from producers.service.commands import CommandBody, PortalCommandBody, PortalResult
from store.errors import BankInUse, EventRefused, InvalidEvent, KeyReused, NotFound

#: The header that names a command: the same key of the same caller is one command.
KEY_HEADER = "idempotency-key"
FAILS = (NotFound, EventRefused, InvalidEvent, KeyReused, BankInUse, *LIMITED)

router = OperationRouter(tags=["commands"], access=CallerClass.CHANGER)


@router.operation(
    "POST /api/v1/commands",
    "Do a command of a portal on memory",
    "The event is in the log and its projection applied when this answers. The same `Idempotency-Key` of the "
    "same caller is one command.",
    "what the command did",
    body=CommandBody,
    fails=FAILS,
)
async def write_command(request: Request, call: TenantCall, sent: Any) -> CommandReceipt:
    action, result = await call.memory.commands.run(call.grant, sent, request.headers.get(KEY_HEADER))
    return CommandReceipt(action=action, result=result)


@router.operation(
    "POST /portal/command",
    "Do a command in the portal's wire form",
    "As `POST /api/v1/commands`; the answer is the result alone. An error has another status than 200, and no "
    "answer with 200 has `code` or `statusCode`.",
    "what the command did",
    body=PortalCommandBody,
    shape=PortalResult,
    fails=FAILS,
)
async def write_portal_command(request: Request, call: TenantCall, sent: Any) -> Mapping[str, Any]:
    return await call.memory.commands.run_portal(call.grant, sent, request.headers.get(KEY_HEADER))
