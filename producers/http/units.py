"""Single units: one with its provenance, one corrected, one pinned, one forgotten."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from producers.http.erasures import answer_receipt
from producers.http.openapi import describe_route
from producers.http.reading import BankParameters, body_of, grant_of, json_response, parse_identifier, read_parameters
from producers.service.corrections import CorrectionBody
from producers.service.memory import Memory
from store.memory.links import Linked
from store.memory.units import Unit
from store.tenancy.keys import Keys


class ForgetParameters(BankParameters):
    """In which bank, whether facts go along that nothing else says, and whether forgetting is not enough."""

    with_facts: bool = False
    erase: bool = False


def unit_routes(memory: Memory, keys: Keys) -> APIRouter:
    """Return the routes of units."""
    router = APIRouter(prefix="/api/v1", tags=["units"])

    @router.get("/units/{unit_id}", **describe_route("A unit with its provenance", query=BankParameters))
    async def unit(request: Request, unit_id: str) -> Response:
        grant = await grant_of(request, keys)
        bank = read_parameters(request, BankParameters).bank
        return json_response(_unit_json(await memory.revisions.unit(grant, bank, parse_identifier(unit_id))))

    @router.patch("/units/{unit_id}", **describe_route("Correct a unit", CorrectionBody, query=BankParameters))
    async def correct(request: Request, unit_id: str) -> Response:
        grant = await grant_of(request, keys)
        bank = read_parameters(request, BankParameters).bank
        done = await memory.revisions.correct(grant, bank, parse_identifier(unit_id), await body_of(request))
        return json_response({"ok": True, "unit_id": unit_id, **asdict(done)})

    @router.put("/units/{unit_id}/pin", **describe_route("Have a unit told with every answer", query=BankParameters))
    async def pin(request: Request, unit_id: str) -> Response:
        return await _pinned(request, unit_id, pinned=True)

    @router.delete("/units/{unit_id}/pin", **describe_route("Pin a unit no longer", query=BankParameters))
    async def unpin(request: Request, unit_id: str) -> Response:
        return await _pinned(request, unit_id, pinned=False)

    async def _pinned(request: Request, unit_id: str, *, pinned: bool) -> Response:
        grant = await grant_of(request, keys)
        bank = read_parameters(request, BankParameters).bank
        done = await memory.revisions.pin(grant, bank, parse_identifier(unit_id), pinned=pinned)
        return json_response({"ok": True, "unit_id": unit_id, **asdict(done)})

    @router.delete("/units/{unit_id}", **describe_route("Forget a unit, or erase it for good", query=ForgetParameters))
    async def forget(request: Request, unit_id: str) -> Response:
        grant = await grant_of(request, keys)
        asked = read_parameters(request, ForgetParameters)
        if asked.erase:
            unit = {"kind": "unit", "bank": asked.bank, "unit_id": str(parse_identifier(unit_id))}
            return answer_receipt(await memory.revisions.erase(grant, unit))
        done = await memory.revisions.forget(grant, asked.bank, parse_identifier(unit_id), with_facts=asked.with_facts)
        if not asked.with_facts:
            return Response(status_code=204)
        return json_response({"ok": True, "unit_id": unit_id, "position": done.position, "facts_forgotten": done.facts})

    return router


def _link_json(link: Linked) -> dict[str, Any]:
    direction = "to" if link.onward else "from"
    known = {"unit_id": str(link.unit_id), "kind": link.kind, "weight": link.weight}
    return {**known, "direction": direction, "excerpt": link.excerpt}


def _unit_json(unit: Unit) -> dict[str, Any]:
    return {
        "unit_id": str(unit.unit_id),
        "kind": unit.kind,
        "text": unit.text,
        "origin": unit.origin,
        "session_id": unit.session_id,
        "turn_id": unit.turn_id,
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
        "facts": [{"unit_id": str(fact.unit_id), "text": fact.text} for fact in unit.facts],
        "links": [_link_json(link) for link in unit.links],
    }
