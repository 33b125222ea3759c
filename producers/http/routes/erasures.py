"""Erasures: requests and receipts."""

from typing import Annotated, Any
from uuid import UUID

from afterturn_client.contract.erasures import ErasurePreview, ErasureReceipt
from fastapi import Response
from pydantic import Field

from producers.http.authentication import TenantCall
from producers.http.openapi import WRITING, CallerClass, DescribedAnswer
from producers.http.operation_router import OperationRouter
from producers.http.requests import BankParameters, describe_id, json_response
from producers.service.erasures import ErasureBody, describe_receipt
from producers.service.wire import Parameters
from store.errors import IsReflection, NotFound

ERASED = DescribedAnswer("the erasure is complete; its receipt", (ErasureReceipt,))
ERASING = DescribedAnswer("the erasure continues in the background; the receipt so far", (ErasureReceipt,))

ErasureId = Annotated[UUID, describe_id("the erasure, as its receipt says it")]

router = OperationRouter(prefix="/api/v1", tags=["erasures"])


@router.operation(
    "POST /erasures",
    "Erase a unit, session, document, directive, memory, user or bank permanently",
    "Erases from the log, from every row and from work in progress. An accepted erasure is completed, even if "
    "processes stop meanwhile. The same request again continues it, with what was written "
    "since, or finds nothing left to erase.",
    {200: ERASED, 202: ERASING},
    access=CallerClass.CHANGER,
    body=ErasureBody,
    fails=(NotFound, IsReflection, *WRITING),
)
async def create_erasure(call: TenantCall, sent: Any) -> Response:
    return await erase_thing(call, sent)


@router.operation(
    "POST /erasures/preview",
    "Preview an erasure",
    "Counts what an erasure would take, and names copies that would stay; nothing changes. It counts for about a "
    "second, in which writers of the bank wait, and says whether that was all.",
    "what would be erased",
    access=CallerClass.CHANGER,
    body=ErasureBody,
    fails=(NotFound, *WRITING),
)
async def count_erasure(call: TenantCall, sent: Any) -> ErasurePreview:
    return await call.memory.units.preview_erasure(call.grant, sent)


@router.operation(
    "GET /erasures/{erasure_id}",
    "Get the receipt of an erasure",
    "Says how far an erasure has come, and where copies may be that the service does not reach.",
    "the receipt",
    fails=(NotFound,),
)
async def get_erasure(call: TenantCall, asked: Parameters, erasure_id: ErasureId) -> ErasureReceipt:
    del asked
    return describe_receipt(await call.memory.units.read_receipt(call.grant, erasure_id))


class DeleteParameters(BankParameters):
    """The bank of what is deleted, and whether it is erased."""

    erase: bool = Field(False, description="whether to erase it from the log, too, for good")


async def erase_thing(call: TenantCall, target: Any) -> Response:
    """Erase what the body of an erasure names; answer 200 with the receipt when it is done, 202 when it goes on."""
    receipt = await call.memory.units.erase(call.grant, target)
    return json_response(describe_receipt(receipt), 200 if receipt.done else 202)
