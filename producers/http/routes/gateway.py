"""The Memory Gateway's three calls, so that a hybrid agent can point its base URL here."""

import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from afterturn_client.contract.gateway import AddedCount, AddReply, FlushReply, FlushStatus, SearchReply
from fastapi import Request

from producers.errors import Invalid, Unauthenticated
from producers.fair_queue import RECALL_WEIGHT
from producers.http.authentication import get_authenticator, get_memory, wait_for_slot
from producers.http.middleware import REQUEST_ID
from producers.http.openapi import LIMITED, CallerClass
from producers.http.operation_router import OperationRouter
from producers.service.bodies import parse_body
from producers.service.gateway_calls import AddBody, Credentials, FlushBody, SearchBody
from store.errors import NotFound
from store.tenancy.keys import Grant

REFUSAL = "these credentials open nothing"

router = OperationRouter(prefix="/memories", tags=["gateway"], access=CallerClass.GATEWAY)


@router.operation(
    "POST /add",
    "Add messages to a session",
    "The messages are durable when this answers; the same message again is remembered once. Where it fails "
    "midway, `details.message_count` says how many are remembered.",
    "the messages are stored",
    body=AddBody,
    fails=(NotFound, *LIMITED),
)
async def add_messages(request: Request, sent: Any) -> AddReply:
    grant = await _authorise_user(request, sent)
    stored = await get_memory(request).intake.add_messages(grant, sent)
    return AddReply(request_id=request.scope[REQUEST_ID], data=AddedCount(message_count=stored))


@router.operation(
    "POST /flush",
    "Flush a session (no effect)",
    "Extraction begins when a message is added. The call exists because gateway clients make it.",
    "nothing was waiting",
    body=FlushBody,
)
async def flush_session(request: Request, sent: Any) -> FlushReply:
    await _authorise_user(request, sent)
    parse_body(FlushBody, sent)
    return FlushReply(request_id=request.scope[REQUEST_ID], data=FlushStatus())


@router.operation(
    "POST /search",
    "Search memory for a conversation",
    "Answers with the best of this conversation, or of all of the user's memory, as `scope` says.",
    "the results",
    body=SearchBody,
    shape=SearchReply,
)
async def search_messages(request: Request, sent: Any) -> Mapping[str, Any]:
    grant = await _authorise_user(request, sent, RECALL_WEIGHT)
    return await get_memory(request).recalls.search_messages(grant, sent)


async def _authorise_user(request: Request, value: Any, weight: int | None = None) -> Grant:
    """Return the grant of the user in the body, once the fair queue gives the tenant a slot.

    Raises Unauthenticated, the same for each wrong part, and Overloaded.
    """
    try:
        told = parse_body(Credentials, value)
    except Invalid:
        raise Unauthenticated(REFUSAL) from None
    keys = get_authenticator(request)
    grant = await keys.authenticate(told.user_key)
    owner = (grant.gateway_user if grant else None) or ""
    if grant is None or not owner or not hmac.compare_digest(owner.encode(), told.user_id.encode(errors="replace")):
        raise Unauthenticated(REFUSAL)
    grant = replace(grant, own_key=told.user_key)
    await wait_for_slot(request, keys, grant, weight)
    return grant
