"""Single units: one with its provenance, one corrected, one pinned, one forgotten."""

from typing import Annotated, Any
from uuid import UUID

from afterturn_client.contract.erasures import ErasureReceipt
from afterturn_client.contract.receipts import CorrectionReceipt, ForgottenReceipt
from afterturn_client.contract.units import Unit
from fastapi import Response
from pydantic import Field

from producers.errors import TooSlow
from producers.http.authentication import TenantCall
from producers.http.openapi import WRITING, CallerClass, DescribedAnswer
from producers.http.operation_router import OperationRouter
from producers.http.requests import BankParameters, describe_id
from producers.http.routes.erasures import ERASING, erase_thing
from producers.service.units import CorrectionBody
from store.errors import ConcurrencyError, IsReflection, NotFound

UnitId = Annotated[UUID, describe_id("the unit")]

router = OperationRouter(prefix="/api/v1", tags=["units"])


class ForgetParameters(BankParameters):
    """A unit's bank, and how to forget the unit."""

    with_facts: bool | None = Field(
        None,
        description="true: answer with how many facts ended with the unit; false: facts that were drawn from it stay; "
        "left out: they end, and the answer has no body",
    )
    erase: bool = Field(
        False, description="whether to erase the unit from the log, too, for good; `with_facts` has no effect then"
    )


@router.operation(
    "GET /units/{unit_id}",
    "Get a unit with its provenance",
    "Shows the whole text of a unit, where it was said and what was drawn from it.",
    "the unit",
    fails=(NotFound,),
)
async def get_unit(call: TenantCall, asked: BankParameters, unit_id: UnitId) -> Unit:
    return await call.memory.units.get(call.grant, asked.bank, unit_id)


@router.operation(
    "PATCH /units/{unit_id}",
    "Correct or end a unit",
    "With `content` the unit says the new text when this answers, and facts that were drawn from the old one end. "
    "With `expires_at` it is in no answer from then on (null: it never ends), and its facts are drawn anew with "
    "that end. With `version`, only if the unit is still as it was seen.",
    "the unit is changed",
    access=CallerClass.CHANGER,
    body=CorrectionBody,
    fails=(NotFound, IsReflection, ConcurrencyError, *WRITING),
)
async def correct_unit(call: TenantCall, asked: BankParameters, sent: Any, unit_id: UnitId) -> CorrectionReceipt:
    return await call.memory.units.correct(call.grant, asked.bank, unit_id, sent)


@router.operation(
    "PUT /units/{unit_id}/pin",
    "Pin a unit",
    "Every recall of the bank returns the unit. Idempotent.",
    "the unit",
    access=CallerClass.CURATOR,
    fails=(NotFound, IsReflection, TooSlow, *WRITING),
)
async def pin_unit(call: TenantCall, asked: BankParameters, unit_id: UnitId) -> CorrectionReceipt:
    return await call.memory.units.pin(call.grant, asked.bank, unit_id, pinned=True)


@router.operation(
    "DELETE /units/{unit_id}/pin",
    "Unpin a unit",
    "The unit is recalled as any other. Idempotent.",
    "the unit",
    access=CallerClass.CURATOR,
    fails=(NotFound, IsReflection, *WRITING),
)
async def unpin_unit(call: TenantCall, asked: BankParameters, unit_id: UnitId) -> CorrectionReceipt:
    return await call.memory.units.pin(call.grant, asked.bank, unit_id, pinned=False)


@router.operation(
    "DELETE /units/{unit_id}",
    "Forget a unit, or erase it permanently",
    "No read shows the unit any more when this answers, nor the facts drawn from it that nothing else says "
    "(`with_facts=false` keeps those). A message that states a forgotten fact stays, and is `former` where a "
    "recall asks for that fact. `erase` takes the unit out of the log as well, as an erasure does, and answers "
    "with its receipt.",
    {
        204: "the unit is forgotten",
        200: DescribedAnswer(
            "it is forgotten (`with_facts=true`), or it is erased (`erase`)", (ForgottenReceipt, ErasureReceipt)
        ),
        202: ERASING,
    },
    access=CallerClass.CHANGER,
    fails=(NotFound, IsReflection, *WRITING),
)
async def forget_unit(call: TenantCall, asked: ForgetParameters, unit_id: UnitId) -> Response | ForgottenReceipt | None:
    if asked.erase:
        return await erase_thing(call, {"kind": "unit", "bank": asked.bank, "unit_id": str(unit_id)})
    done = await call.memory.units.forget(call.grant, asked.bank, unit_id, with_facts=asked.with_facts is not False)
    return done if asked.with_facts else None
