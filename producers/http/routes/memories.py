"""Single memories: written, replaced, read and ended by an id of the caller's choice."""

from typing import Annotated, Any

from afterturn_client.contract.receipts import MemoryReceipt
from afterturn_client.contract.units import Unit
from fastapi import Path, Response

from producers.http.authentication import TenantCall
from producers.http.openapi import LIMITED, WRITING, CallerClass
from producers.http.operation_router import OperationRouter
from producers.http.requests import BankParameters, json_response
from producers.http.routes.erasures import ERASED, ERASING, DeleteParameters, erase_thing
from producers.service.single_memories import MemoryBody
from store.errors import NotFound

MemoryId = Annotated[str, Path(description="the caller's own id of the memory, as its write answered it")]

router = OperationRouter(prefix="/api/v1", tags=["memories"])


@router.operation(
    "POST /memories",
    "Write or replace a single memory",
    "The memory is durable and readable when this answers. One of the same `id` in the bank is replaced in "
    "every field and keeps when it was created; without an `id`, the same text is the same memory. The same "
    "again changes nothing.",
    {201: "the memory was created", 200: "the memory was replaced"},
    shape=MemoryReceipt,
    access=CallerClass.WRITER,
    body=MemoryBody,
    fails=LIMITED,
)
async def write_memory(call: TenantCall, sent: Any) -> Response:
    kept = await call.memory.memories.keep(call.grant, sent)
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


@router.operation(
    "DELETE /memories/{memory_id}",
    "Delete a single memory, or erase it permanently",
    "No read shows the memory any more when this answers, nor the facts that nothing else says. Its id may be "
    "used again. `erase` takes all that had this id out of the log as well, also after it was deleted, and "
    "answers with the receipt.",
    {204: "the memory is deleted", 200: ERASED, 202: ERASING},
    access=CallerClass.CHANGER,
    fails=(NotFound, *WRITING),
)
async def forget_memory(call: TenantCall, asked: DeleteParameters, memory_id: MemoryId) -> Response | None:
    if asked.erase:
        return await erase_thing(call, {"kind": "memory", "bank": asked.bank, "memory_id": memory_id})
    await call.memory.memories.end(call.grant, asked.bank, memory_id)
    return None
