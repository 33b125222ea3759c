"""Single units: one with its provenance, one corrected, one pinned, one forgotten."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import Field

from producers.errors import TooSlow
from producers.http.authentication import TenantCall
from producers.http.openapi import WRITING, CallerClass, DescribedAnswer, describe_route
from producers.http.requests import (
    BankParameters,
    describe_id,
    json_response,
    parse_identifier,
    read_body,
    read_parameters,
)
from producers.http.routes.erasures import ERASING, answer_receipt
from producers.service.erasures import ReceiptAnswer
from producers.service.units import CorrectionBody
from producers.service.wire import (
    Done,
    LogPosition,
    Role,
    SessionOf,
    SpeakerName,
    TurnOf,
    UnitKind,
    UnitOrdinal,
    UnitOrigin,
    UnitTime,
    WireModel,
    WritePosition,
)
from store.errors import ConcurrencyError, IsReflection, NotFound
from store.memory.links import Linked
from store.memory.units import Unit

#: The id of a unit, for examples.
UNIT = "0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e20"

UnitId = Annotated[str, describe_id("the unit")]

router = APIRouter(prefix="/api/v1", tags=["units"])


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


class DrawnFact(WireModel):
    """A fact that was derived from a unit."""

    unit_id: UnitId
    text: str = Field(description="text of the fact")


class LinkAnswer(WireModel):
    """A link to another unit."""

    unit_id: UUID = Field(description="id of the other unit")
    kind: str = Field(description="kind of the link")
    weight: float = Field(description="weight of the link, 0 to 1")
    direction: Literal["to", "from"] = Field(
        description="whether the link leads `to` the other unit or comes `from` it"
    )
    excerpt: str = Field(description="beginning of the other unit's text")


class FormerVersion(WireModel):
    """A version of a unit that a correction or a pin replaced."""

    version: int = Field(description="number of the version, from 1")
    text: str = Field(description="text that the unit had")
    pinned: bool = Field(description="whether it was pinned")
    recorded_at: datetime = Field(description="time at which the log took it")


class UnitAnswer(WireModel):
    """A unit with its provenance: turn, sources, derived facts and links."""

    unit_id: UnitId
    kind: UnitKind
    text: str = Field(description="whole text")
    origin: UnitOrigin
    session_id: SessionOf
    turn_id: TurnOf
    ordinal: UnitOrdinal
    role: Role
    name: SpeakerName
    occurred_at: UnitTime
    position: LogPosition
    metadata: dict[str, Any] = Field(description="metadata by name")
    sources: list[UUID] = Field(description="units that a fact was drawn from")
    entities: list[str] = Field(description="names of people and things in it")
    valid_from: datetime | None = Field(description="since when a fact holds; null: it is no projected fact")
    valid_to: datetime | None = Field(description="until when a fact held; null: it still holds")
    superseded_by: UUID | None = Field(description="id of the fact that superseded it")
    version: int = Field(description="version of the unit, from 1; every correction and every pin is another")
    pinned: bool = Field(description="whether every answer of its bank holds it")
    former: list[FormerVersion] = Field(
        description="versions before this one, the newest first, at most 50; erased ones are not among them"
    )
    expires_at: datetime | None = Field(description="time from which on no answer shows it; null: never")
    facts: list[DrawnFact] = Field(description="facts that were drawn from it")
    links: list[LinkAnswer] = Field(description="its strongest links to other units")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "unit_id": UNIT,
        "kind": "experience",
        "text": "We fly to Lisbon on Friday",
        "origin": "message",
        "session_id": "monday",
        "turn_id": "1",
        "ordinal": 0,
        "role": "user",
        "name": "Ana",
        "occurred_at": "2026-03-02T09:30:00+00:00",
        "position": 42,
        "metadata": {"channel": "web"},
        "sources": [],
        "entities": ["Lisbon"],
        "valid_from": None,
        "valid_to": None,
        "superseded_by": None,
        "version": 2,
        "pinned": False,
        "former": [
            {
                "version": 1,
                "text": "We fly to Lisbon on Thursday",
                "pinned": False,
                "recorded_at": "2026-03-02T09:30:00+00:00",
            }
        ],
        "expires_at": None,
        "facts": [],
        "links": [
            {
                "unit_id": "5f2d9a10-7c44-5be1-a0d3-92e4b8c61f77",
                "kind": "entity",
                "weight": 0.5,
                "direction": "to",
                "excerpt": "Check-in at Hotel Avenida",
            }
        ],
    }


class CorrectionReceipt(Done):
    """The unit has the new text or pin."""

    unit_id: str = Field(description="id of the unit")
    position: WritePosition
    changed: bool = Field(description="false where the unit had this text or pin before")
    facts_ended: int = Field(description="number of facts that ended with the old text")

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "ok": True,
        "unit_id": UNIT,
        "position": 44,
        "changed": True,
        "facts_ended": 0,
    }


class ForgottenAnswer(Done):
    """The unit is forgotten."""

    unit_id: str = Field(description="id of the unit")
    position: WritePosition
    facts_forgotten: int = Field(
        description="number of facts that were forgotten with it, since nothing else says them"
    )

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"ok": True, "unit_id": UNIT, "position": 45, "facts_forgotten": 1}


PINNED = {200: DescribedAnswer("the unit", (CorrectionReceipt,))}


@router.get(
    "/units/{unit_id}",
    **describe_route(
        "Get a unit with its provenance",
        "Shows the whole text of a unit, where it was said and what was drawn from it.",
        CallerClass.READER,
        {200: DescribedAnswer("the unit", (UnitAnswer,))},
        query=BankParameters,
        fails=(NotFound,),
    ),
)
async def get_unit(request: Request, call: TenantCall, unit_id: UnitId) -> Response:
    bank = read_parameters(request, BankParameters).bank
    return json_response(unit_json(await call.memory.revisions.unit(call.grant, bank, parse_identifier(unit_id))))


@router.patch(
    "/units/{unit_id}",
    **describe_route(
        "Correct a unit",
        "The unit says the new text when this answers, and facts that were drawn from the old one end. With "
        "`version`, only if the unit is still as it was seen.",
        CallerClass.CHANGER,
        {200: DescribedAnswer("the unit is corrected", (CorrectionReceipt,))},
        body=CorrectionBody,
        query=BankParameters,
        fails=(NotFound, IsReflection, ConcurrencyError, *WRITING),
    ),
)
async def correct_unit(request: Request, call: TenantCall, unit_id: UnitId) -> Response:
    bank = read_parameters(request, BankParameters).bank
    done = await call.memory.revisions.correct(call.grant, bank, parse_identifier(unit_id), await read_body(request))
    return json_response({"ok": True, "unit_id": unit_id, **asdict(done)})


@router.put(
    "/units/{unit_id}/pin",
    **describe_route(
        "Pin a unit",
        "Every recall of the bank returns the unit. Idempotent.",
        CallerClass.CURATOR,
        PINNED,
        query=BankParameters,
        fails=(NotFound, IsReflection, TooSlow, *WRITING),
    ),
)
async def pin_unit(request: Request, call: TenantCall, unit_id: UnitId) -> Response:
    return await _set_pin(request, call, unit_id, pinned=True)


@router.delete(
    "/units/{unit_id}/pin",
    **describe_route(
        "Unpin a unit",
        "The unit is recalled as any other. Idempotent.",
        CallerClass.CURATOR,
        PINNED,
        query=BankParameters,
        fails=(NotFound, IsReflection, *WRITING),
    ),
)
async def unpin_unit(request: Request, call: TenantCall, unit_id: UnitId) -> Response:
    return await _set_pin(request, call, unit_id, pinned=False)


async def _set_pin(request: Request, call: TenantCall, unit_id: UnitId, *, pinned: bool) -> Response:
    bank = read_parameters(request, BankParameters).bank
    done = await call.memory.revisions.pin(call.grant, bank, parse_identifier(unit_id), pinned=pinned)
    return json_response({"ok": True, "unit_id": unit_id, **asdict(done)})


@router.delete(
    "/units/{unit_id}",
    **describe_route(
        "Forget a unit, or erase it permanently",
        "No read shows the unit any more when this answers, nor the facts drawn from it that nothing else says "
        "(`with_facts=false` keeps those). `erase` takes it out of the log as well, as an erasure does, and answers "
        "with its receipt.",
        CallerClass.CHANGER,
        {
            204: DescribedAnswer("the unit is forgotten"),
            200: DescribedAnswer(
                "it is forgotten (`with_facts=true`), or it is erased (`erase`)", (ForgottenAnswer, ReceiptAnswer)
            ),
            202: ERASING,
        },
        query=ForgetParameters,
        fails=(NotFound, IsReflection, *WRITING),
    ),
)
async def forget_unit(request: Request, call: TenantCall, unit_id: UnitId) -> Response:
    asked = read_parameters(request, ForgetParameters)
    if asked.erase:
        unit = {"kind": "unit", "bank": asked.bank, "unit_id": str(parse_identifier(unit_id))}
        return answer_receipt(await call.memory.revisions.erase(call.grant, unit))
    done = await call.memory.revisions.forget(
        call.grant, asked.bank, parse_identifier(unit_id), with_facts=asked.with_facts is not False
    )
    if not asked.with_facts:
        return Response(status_code=204)
    return json_response({"ok": True, "unit_id": unit_id, "position": done.position, "facts_forgotten": done.facts})


def _link_json(link: Linked) -> dict[str, Any]:
    direction = "to" if link.onward else "from"
    known = {"unit_id": str(link.unit_id), "kind": link.kind, "weight": link.weight}
    return {**known, "direction": direction, "excerpt": link.excerpt}


def unit_json(unit: Unit) -> dict[str, Any]:
    """Return a unit as the API shows it."""
    return {
        "unit_id": str(unit.unit_id),
        "kind": unit.kind,
        "text": unit.text,
        "origin": unit.origin,
        "session_id": unit.session_name,
        "turn_id": unit.turn_name,
        "ordinal": unit.ordinal,
        "role": unit.role,
        "name": unit.name,
        "occurred_at": unit.occurred_at,
        "position": unit.position,
        "metadata": unit.metadata,
        "sources": [str(source) for source in unit.sources],
        "entities": unit.entities,
        "valid_from": unit.valid_from,
        "valid_to": unit.valid_to,
        "superseded_by": unit.superseded_by and str(unit.superseded_by),
        "version": unit.version,
        "pinned": unit.pinned,
        "former": unit.former,
        "expires_at": unit.expires_at,
        "facts": unit.facts,
        "links": [_link_json(link) for link in unit.links],
    }
