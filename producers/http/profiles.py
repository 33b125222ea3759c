"""Profiles: what is known of a person."""

from fastapi import APIRouter, Request, Response

from producers.http.openapi import describe_route
from producers.http.reading import grant_of, json_response, read_parameters
from producers.service.memory import Memory
from producers.service.profiles import ProfileParameters, as_json
from store.tenancy.keys import Keys


def profile_routes(memory: Memory, keys: Keys) -> APIRouter:
    """Return the route of profiles."""
    router = APIRouter(prefix="/api/v1", tags=["knowledge"])

    @router.get("/profile", **describe_route("What is known of a person, and from where", query=ProfileParameters))
    async def profile(request: Request) -> Response:
        grant = await grant_of(request, keys)
        return json_response(as_json(await memory.profile(grant, read_parameters(request, ProfileParameters))))

    return router
