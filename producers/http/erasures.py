"""Erasures: what is asked to be gone for good, and the receipt."""

from fastapi import APIRouter, Request, Response

from producers.http.openapi import documented
from producers.http.reading import Nothing, body_of, grant_of, identifier, parameters, replied
from producers.service.erasures import ErasureBody, as_json
from producers.service.memory import Memory
from store.erasure import Receipt
from store.tenancy.keys import Keys


def routes(memory: Memory, keys: Keys) -> APIRouter:
    """Return the routes of erasures."""
    router = APIRouter(prefix="/api/v1", tags=["erasures"])

    @router.post("/erasures", **documented("Erase a unit, a session, a user or a bank for good", ErasureBody))
    async def erase(request: Request) -> Response:
        grant = await grant_of(request, keys)
        return told(await memory.revisions.erase(grant, await body_of(request)))

    @router.get("/erasures/{erasure_id}", **documented("The receipt of an erasure"))
    async def receipt(request: Request, erasure_id: str) -> Response:
        grant = await grant_of(request, keys)
        parameters(request, Nothing)
        return replied(as_json(await memory.revisions.erasure(grant, identifier(erasure_id))))

    return router


def told(receipt: Receipt) -> Response:
    """Return the answer to a request: 200 when it is done, 202 when it goes on by itself."""
    return replied(as_json(receipt), 200 if receipt.done else 202)
