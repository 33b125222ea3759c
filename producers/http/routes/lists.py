"""Lists of what a key reaches: sessions, units, users. Those of turns, banks and knowledge stand with theirs."""

from typing import Annotated

from afterturn_client.contract.lists import SessionPage, UnitPage, UserPage
from afterturn_client.contract.sessions import SessionDetails
from fastapi import Path

from producers.http.authentication import TenantCall
from producers.http.operation_router import OperationRouter
from producers.service.bodies import parse_body
from producers.service.fields import SESSION_ID
from producers.service.listings import SessionParameters, SessionPlace, UnitsParameters
from producers.service.paging import BankPageParameters, PageParameters
from store.errors import NotFound

router = OperationRouter(prefix="/api/v1", tags=["lists"])


@router.operation(
    "GET /sessions",
    "List sessions",
    "The session with the newest turn first; a session that continues meanwhile moves to the front.",
    "a page",
)
async def list_sessions(call: TenantCall, asked: BankPageParameters) -> SessionPage:
    return await call.memory.lists.sessions(call.grant, asked)


@router.operation(
    "GET /sessions/{session_id}",
    "Get a session with its newest messages",
    "Messages of turns and those that commands appended, the oldest first: at most `messages` of them, of about 4 "
    "MB. Secrets in them are masked, also where they were stored.",
    "the session",
    fails=(NotFound,),
)
async def get_session(
    call: TenantCall, asked: SessionParameters, session_id: Annotated[str, Path(description=SESSION_ID)]
) -> SessionDetails:
    place = parse_body(SessionPlace, {**asked.model_dump(), "session_id": session_id})
    return await call.memory.lists.session(call.grant, place)


@router.operation(
    "GET /units",
    "List units",
    "Messages and facts that are remembered, in the order of their ids; long texts are cut. Facts of "
    "the newest turns are listed before a worker has written them; until then a change of one is busy.",
    "a page",
)
async def list_units(call: TenantCall, asked: UnitsParameters) -> UnitPage:
    return await call.memory.lists.units(call.grant, asked)


@router.operation(
    "GET /users",
    "List users",
    "Lists users with stored memories in the banks that the key can read; a user's key sees only its own user.",
    "a page",
)
async def list_users(call: TenantCall, asked: PageParameters) -> UserPage:
    return await call.memory.lists.users(call.grant, asked)
