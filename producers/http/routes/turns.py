"""Turns: stored, listed, and their progress through the stages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any
from uuid import UUID

from afterturn_client.contract.lists import TurnPage
from afterturn_client.contract.receipts import BatchReceipt, StoredTurn, TurnRefusal
from afterturn_client.contract.sessions import TurnPlace
from afterturn_client.contract.turns import KeptTurn, PreparedTurn, TurnMessage, TurnStatus
from fastapi import Path, Response
from pydantic import Field

from producers.http import error_responses
from producers.http.authentication import HeavyCall, TenantCall
from producers.http.openapi import LIMITED, CallerClass, DescribedAnswer
from producers.http.operation_router import OperationRouter
from producers.http.requests import BankParameters, describe_id, json_response
from producers.service.bodies import parse_body
from producers.service.fields import SESSION_ID, TURN_ID, SessionId, TurnId, TurnName
from producers.service.intake import TurnResult
from producers.service.listings import TurnsParameters
from producers.service.turns import BatchBody, TurnBody
from producers.turns.requests import AfterTurnBody, BeforeTurnBody
from store.errors import NotFound, PositionBeyondLog, TurnConflict
from store.memory.turns import Appended

#: Messages of a turn, and characters of each, that one answer may be asked for.
MOST_MESSAGES, MOST_CHARACTERS = 1000, 1_000_000
#: Parts of a message that are told by their type.
MOST_PARTS = 20

router = OperationRouter(prefix="/api/v1", tags=["turns"])


class MessagesParameters(BankParameters):
    """In which bank, and how much of a turn's messages is shown."""

    from_ordinal: int = Field(0, ge=0, lt=2**31, description="place in the turn of the first message that is shown")
    messages: int | None = Field(
        None, ge=0, le=MOST_MESSAGES, description=f"messages that are shown, up to {MOST_MESSAGES}; left out: all"
    )
    characters: int | None = Field(
        None,
        ge=1,
        le=MOST_CHARACTERS,
        description="characters of each message's text that are shown, its other parts then by their type alone; "
        "left out: each message whole",
    )


class TurnParameters(MessagesParameters):
    """A turn by the agent's own ids, and how much of it is shown."""

    session_id: SessionId
    turn_id: TurnId


class TurnOrTurnsParameters(TurnsParameters, MessagesParameters):
    """A session; with `turn_id`, one turn of it, and how much of that is shown."""

    turn_id: TurnName | None = Field(
        None, description="the caller's own id of a turn of the session: the answer is that turn, and no page"
    )


@router.operation(
    "POST /turns",
    "Store a completed turn",
    "The turn is durable, readable and on its way through the stages when this answers. The same turn and body "
    "again is a duplicate with the first position; another body is refused.",
    {201: "the turn was stored", 200: "the turn was stored before"},
    shape=StoredTurn,
    access=CallerClass.WRITER,
    body=TurnBody,
    fails=(NotFound, TurnConflict, *LIMITED),
)
async def add_turn(call: TenantCall, sent: Any) -> Response:
    appended = await call.memory.intake.add_turn(call.grant, sent)
    return json_response(_describe_stored(appended), 200 if appended.duplicate else 201)


@router.operation(
    "POST /turns/before",
    "Prepare a turn: recall, history and current input",
    "Answers with what is recalled, the session's history and the current input, the input last, within "
    "`max_input_tok`; writes nothing.",
    "the model's input",
    body=BeforeTurnBody,
    shape=PreparedTurn,
    fails=(PositionBeyondLog,),
)
async def prepare_turn(call: HeavyCall, sent: Any) -> Mapping[str, Any]:
    return await call.memory.lifecycle.before_turn(call.grant, sent)


@router.operation(
    "POST /turns/after",
    "Complete a turn, exactly once",
    "The turn is durable and readable when this answers; the same request again changes nothing.",
    "the turn is stored",
    access=CallerClass.WRITER,
    body=AfterTurnBody,
    shape=KeptTurn,
    fails=(TurnConflict, *LIMITED),
)
async def complete_turn(call: TenantCall, sent: Any) -> Mapping[str, Any]:
    return await call.memory.lifecycle.after_turn(call.grant, sent)


@router.operation(
    "POST /turns:batch",
    "Store up to 500 turns",
    "Answers for each turn in order; they are written in pieces of 32, and a refused one undoes no other.",
    "the result of each turn",
    access=CallerClass.WRITER,
    body=BatchBody,
    fails=LIMITED,
)
async def add_turns(call: HeavyCall, sent: Any) -> BatchReceipt:
    answers = await call.memory.intake.add_turns(call.grant, sent)
    return BatchReceipt(results=tuple(map(_describe_result, answers)))


@router.operation(
    "GET /turns/{session_id}/{turn_id:name}",
    "Get a turn: its stages and messages",
    "Says where the turn stands in the log and in each stage; facts derived later show in freshness only.",
    "the turn",
    fails=(NotFound,),
)
async def get_turn(
    call: TenantCall,
    asked: MessagesParameters,
    session_id: Annotated[str, Path(description=SESSION_ID)],
    turn_id: Annotated[str, Path(description=TURN_ID)],
) -> TurnStatus:
    names = {"session_id": session_id, "turn_id": turn_id}
    return await _find_turn(call, parse_body(TurnParameters, {**asked.model_dump(), **names}))


@router.operation(
    "GET /turns/{turn}",
    "Find a turn by the id that its work has",
    "Returns the names of a turn by its `id`, as an operator's list of work shows it, where the key reaches its "
    "bank and something of it is remembered.",
    "the names of the turn",
    fails=(NotFound,),
)
async def get_turn_place(call: TenantCall, turn: Annotated[UUID, describe_id("the turn")]) -> TurnPlace:
    return await call.memory.lists.turn_place(call.grant, turn)


@router.operation(
    "GET /turns",
    "List a session's turns, or get one turn",
    "Lists what is remembered of a session in its order. With `turn_id`, it shows that turn as with the names "
    "in the path, for names that a client or proxy would rewrite there.",
    {200: DescribedAnswer("a page of turns, or the turn", (TurnPage, TurnStatus))},
    fails=(NotFound,),
)
async def list_turns(call: TenantCall, asked: TurnOrTurnsParameters) -> TurnPage | TurnStatus:
    given = asked.model_dump(exclude_unset=True)
    if asked.turn_id is not None:
        return await _find_turn(call, parse_body(TurnParameters, given))
    return await call.memory.lists.turns(call.grant, parse_body(TurnsParameters, given))


async def _find_turn(call: TenantCall, asked: TurnParameters) -> TurnStatus:
    place = asked.bank, asked.session_id, asked.turn_id
    turn = await call.memory.intake.read_status(call.grant, *place)
    found = await call.memory.lists.messages(call.grant, *place)
    there = [one for one in found if one.ordinal >= asked.from_ordinal]
    chosen = tuple(_cut_message(one, asked.characters) for one in there[: asked.messages])
    return replace(turn, messages=chosen, more_messages=len(there) > len(chosen))


def _cut_message(message: TurnMessage, characters: int | None) -> TurnMessage:
    """Return a message with its first `characters` and its parts by their type alone; the whole message for None."""
    if characters is None:
        return message
    parts = tuple({"type": str(part.get("type", ""))[:64]} for part in message.parts[:MOST_PARTS])
    cut = len(message.content) > characters or parts != message.parts
    return replace(message, content=message.content[:characters], parts=parts, cut=cut)


def _describe_stored(appended: Appended) -> StoredTurn:
    return StoredTurn(position=appended.position, duplicate=appended.duplicate)


def _describe_result(answer: TurnResult) -> StoredTurn | TurnRefusal:
    if isinstance(answer, Appended):
        return _describe_stored(answer)
    return TurnRefusal(error=error_responses.describe_error(answer))
