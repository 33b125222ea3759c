"""Single memories: written, replaced, read and ended by an id of the caller's choice."""

from typing import Annotated

from afterturn_client.contract.receipts import MemoryReceipt
from afterturn_client.contract.units import Unit
from fastapi import Path, Request, Response

from producers.http.authentication import TenantCall
from producers.http.openapi import LIMITED, WRITING, CallerClass, DescribedAnswer, describe_route
from producers.http.operation_router import OperationRouter
from producers.http.requests import BankParameters, json_response, read_body, read_parameters
from producers.http.routes.erasures import ERASED, ERASING, DeleteParameters, erase_thing
from producers.service.single_memories import MemoryBody
from store.errors import NotFound

MemoryId = Annotated[str, Path(description="the caller's own id of the memory, as its write answered it")]

router = OperationRouter(prefix="/api/v1", tags=["memories"])


@router.post(
    "/memories",
    **describe_route(
        "Write or replace a single memory",
        "The memory is durable and readable when this answers. One of the same `id` in the bank is replaced in "
        "every field and keeps when it was created; without an `id`, the same text is the same memory. The same "
        "again changes nothing.",
        CallerClass.WRITER,
        {
            201: DescribedAnswer("the memory was created", (MemoryReceipt,)),
            200: DescribedAnswer("the memory was replaced", (MemoryReceipt,)),
        },
        body=MemoryBody,
        fails=LIMITED,
    ),
)
async def write_memory(request: Request, call: TenantCall) -> Response:
    kept = await call.memory.memories.keep(call.grant, await read_body(request))
    return json_response(kept, 201 if kept.created else 200)


@router.operation(
    "GET /memories/{memory_id}",
    "Get a single memory",
    "Returns the memory as a unit; `turn_id` is its id.",
    "the memory",
    fails=(NotFound,),
)
async def get_memory(call: TenantCall, asked: BankParameters, memory_id: MemoryId) -> Unit:
    return await call.memory.memories.read(call.grant, asked.bank, memory_id)


@router.delete(
    "/memories/{memory_id}",
    **describe_route(
        "Delete a single memory, or erase it permanently",
        "No read shows the memory any more when this answers, nor the facts that nothing else says. Its id may be "
        "used again. `erase` takes all that had this id out of the log as well, also after it was deleted, and "
        "answers with the receipt.",
        CallerClass.CHANGER,
        {204: DescribedAnswer("the memory is deleted"), 200: ERASED, 202: ERASING},
        query=DeleteParameters,
        fails=(NotFound, *WRITING),
    ),
)
async def forget_memory(request: Request, call: TenantCall, memory_id: MemoryId) -> Response:
    asked = read_parameters(request, DeleteParameters)
    if asked.erase:
        return await erase_thing(call, {"kind": "memory", "bank": asked.bank, "memory_id": memory_id})
    await call.memory.memories.end(call.grant, asked.bank, memory_id)
    return Response(status_code=204)
