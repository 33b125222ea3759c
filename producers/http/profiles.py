"""Profiles: what is known of a person."""

from fastapi import APIRouter, Request, Response

from producers.http.openapi import CallerClass, DescribedAnswer, describe_route
from producers.http.reading import authenticate_and_queue, json_response, read_parameters
from producers.service.memory import MemoryFacade
from producers.service.profiles import ProfileAnswer, ProfileParameters, as_json
from store.tenancy.keys import Keys


def profile_routes(memory: MemoryFacade, keys: Keys) -> APIRouter:
    """Return the route of profiles."""
    router = APIRouter(prefix="/api/v1", tags=["knowledge"])

    @router.get(
        "/profile",
        **describe_route(
            "What is known of a person, and from where",
            "Tells the facts that hold, with their sources; with `history`, what they replaced, too. A key of a user "
            "asks about its own user, and by name in a bank it reaches.",
            CallerClass.READER,
            {200: DescribedAnswer("the profile", (ProfileAnswer,))},
            query=ProfileParameters,
        ),
    )
    async def profile(request: Request) -> Response:
        grant = await authenticate_and_queue(request, keys)
        return json_response(as_json(await memory.profile(grant, read_parameters(request, ProfileParameters))))

    return router
