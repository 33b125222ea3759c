"""Profiles: what is known of a person."""

from fastapi import APIRouter, Request, Response

from producers.http.openapi import documented
from producers.http.reading import grant_of, parameters, replied
from producers.service.memory import Memory
from producers.service.profiles import ProfileParameters, as_json
from store.tenancy.keys import Keys


def routes(memory: Memory, keys: Keys) -> APIRouter:
    """Return the route of profiles."""
    router = APIRouter(prefix="/api/v1", tags=["knowledge"])

    @router.get("/profile", **documented("What is known of a person, and from where", query=ProfileParameters))
    async def profile(request: Request) -> Response:
        grant = await grant_of(request, keys)
        return replied(as_json(await memory.profile(grant, parameters(request, ProfileParameters))))

    return router
