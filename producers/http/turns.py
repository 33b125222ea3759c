"""Turns in, and how far they have come."""

from typing import Any

from fastapi import APIRouter, Request, Response

from producers.fair_queue import RECALL
from producers.http import problems
from producers.http.openapi import describe_route
from producers.http.reading import BankParameters, body_of, grant_of, json_response, read_parameters
from producers.service.fields import SessionName, TurnName
from producers.service.intake import Accepted
from producers.service.memory import Memory
from producers.service.turns import BatchBody, TurnBody, parse_body
from producers.turns.requests import AfterTurnAnswer, AfterTurnBody, BeforeTurnAnswer, BeforeTurnBody
from store.ledger.ledger import StageStatus
from store.memory.turns import Appended, TurnStatus
from store.tenancy.keys import Grant, Keys


class TurnParameters(BankParameters):
    """Which turn, in the agent's own names."""

    session_id: SessionName
    turn_id: TurnName


def turn_routes(memory: Memory, keys: Keys) -> APIRouter:
    """Return the routes of turns."""
    router = APIRouter(prefix="/api/v1", tags=["turns"])

    @router.post("/turns", **describe_route("Take in a completed turn", TurnBody, created=True))
    async def after_turn(request: Request) -> Response:
        grant = await grant_of(request, keys)
        appended = await memory.intake.after_turn(grant, await body_of(request))
        return json_response(_appended_json(appended), 200 if appended.duplicate else 201)

    @router.post(
        "/turns/before",
        **describe_route("What to give the model: recall, history, input", BeforeTurnBody, answer=BeforeTurnAnswer),
    )
    async def before(request: Request) -> Response:
        grant = await grant_of(request, keys, RECALL)
        return json_response(await memory.lifecycle.before_turn(grant, await body_of(request)))

    @router.post(
        "/turns/after", **describe_route("Keep a completed turn, exactly once", AfterTurnBody, answer=AfterTurnAnswer)
    )
    async def after(request: Request) -> Response:
        grant = await grant_of(request, keys)
        return json_response(await memory.lifecycle.after_turn(grant, await body_of(request)))

    @router.post("/turns:batch", **describe_route("Take in up to 500 turns", BatchBody))
    async def after_turns(request: Request) -> Response:
        grant = await grant_of(request, keys)
        answers = await memory.intake.after_turns(grant, await body_of(request))
        return json_response({"results": [_result_json(answer) for answer in answers]})

    @router.get("/turns/{session_id}/{turn_id:name}", **describe_route("How far a turn has come", query=BankParameters))
    async def turn(request: Request, session_id: str, turn_id: str) -> Response:
        grant = await grant_of(request, keys)
        bank = read_parameters(request, BankParameters).bank
        return await _turn(
            grant, parse_body(TurnParameters, {"session_id": session_id, "turn_id": turn_id, "bank": bank})
        )

    @router.get("/turns", **describe_route("How far a turn of any name has come", query=TurnParameters))
    async def turn_of(request: Request) -> Response:
        return await _turn(await grant_of(request, keys), read_parameters(request, TurnParameters))

    async def _turn(grant: Grant, asked: TurnParameters) -> Response:
        return json_response(_status_json(await memory.intake.turn(grant, asked.bank, asked.session_id, asked.turn_id)))

    return router


def _appended_json(appended: Appended) -> dict[str, Any]:
    return {"ok": True, "position": appended.position, "duplicate": appended.duplicate}


def _result_json(answer: Accepted) -> dict[str, Any]:
    return (
        _appended_json(answer)
        if isinstance(answer, Appended)
        else {"ok": False, "error": problems.describe_error(answer)}
    )


def _status_json(status: TurnStatus) -> dict[str, Any]:
    stages = {stage.value: _stage_json(how) for stage, how in status.stages.items()}
    return {"position": status.position, "accepted_at": status.accepted_at, "stages": stages}


def _stage_json(how: StageStatus) -> dict[str, Any]:
    error = how.error_category and {"category": how.error_category, "reason": how.error_reason}
    return {"status": how.status, "attempts": how.attempts, "updated_at": how.updated_at, "error": error}
