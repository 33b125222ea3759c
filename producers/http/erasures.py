"""Erasures: what is asked to be gone for good, and the receipt."""

from fastapi import APIRouter, Request, Response

from producers.http.openapi import WRITING, CallerClass, DescribedAnswer, describe_route
from producers.http.reading import (
    Nothing,
    authenticate_and_queue,
    body_of,
    json_response,
    parse_identifier,
    read_parameters,
)
from producers.service.erasures import ErasureBody, ReceiptAnswer, as_json
from producers.service.memory import MemoryFacade
from store.erasure import Receipt
from store.errors import IsReflection, NotFound
from store.tenancy.keys import Keys

ERASED = DescribedAnswer("it is gone; the receipt", (ReceiptAnswer,))
ERASING = DescribedAnswer("it goes on by itself; the receipt so far", (ReceiptAnswer,))


def erasure_routes(memory: MemoryFacade, keys: Keys) -> APIRouter:
    """Return the routes of erasures."""
    router = APIRouter(prefix="/api/v1", tags=["erasures"])

    @router.post(
        "/erasures",
        **describe_route(
            "Erase a unit, a session, a user or a bank for good",
            "Erased from the log, from every row and from work in progress; once accepted it goes on to its end, "
            "whatever stops. Again it goes on where it is, or finds nothing left.",
            CallerClass.CHANGER,
            {200: ERASED, 202: ERASING},
            body=ErasureBody,
            fails=(NotFound, IsReflection, *WRITING),
        ),
    )
    async def erase(request: Request) -> Response:
        grant = await authenticate_and_queue(request, keys)
        return answer_receipt(await memory.revisions.erase(grant, await body_of(request)))

    @router.get(
        "/erasures/{erasure_id}",
        **describe_route(
            "The receipt of an erasure",
            "Says how far an erasure has come, and where copies may be that the service does not reach.",
            CallerClass.READER,
            {200: DescribedAnswer("the receipt", (ReceiptAnswer,))},
            fails=(NotFound,),
        ),
    )
    async def receipt(request: Request, erasure_id: str) -> Response:
        grant = await authenticate_and_queue(request, keys)
        read_parameters(request, Nothing)
        return json_response(as_json(await memory.revisions.erasure(grant, parse_identifier(erasure_id))))

    return router


def answer_receipt(receipt: Receipt) -> Response:
    """Return the answer to a request: 200 when it is done, 202 when it goes on by itself."""
    return json_response(as_json(receipt), 200 if receipt.done else 202)
