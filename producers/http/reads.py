"""Declares a read by its function: the annotations say which parameters it takes and which shape it answers."""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar, get_type_hints

from fastapi import APIRouter, Request, Response

from producers.http.openapi import CallerClass, DescribedAnswer, Kinds, describe_route
from producers.http.requests import json_response, read_parameters

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])


def add_read(
    router: APIRouter,
    path: str,
    summary: str,
    promise: str,
    says: str,
    *,
    access: CallerClass = CallerClass.READER,
    fails: Kinds = (),
) -> Callable[[Handler], Handler]:
    """Add a GET whose function takes the query's parameters as `asked` and returns the answer; see `describe_route`."""

    def add(handler: Handler) -> Handler:
        hints = get_type_hints(handler)
        query, shape, told = hints["asked"], hints["return"], inspect.signature(handler)

        @wraps(handler)
        async def answer(request: Request, **others: Any) -> Response:
            return json_response(await handler(asked=read_parameters(request, query), **others))

        request = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
        others = [one for name, one in told.parameters.items() if name != "asked"]
        answer.__signature__ = told.replace(parameters=[*others, request], return_annotation=Response)  # type: ignore[attr-defined]  # FastAPI reads it
        answers = {200: DescribedAnswer(says, (shape,))}
        router.get(path, **describe_route(summary, promise, access, answers, query=query, fails=fails))(answer)
        return handler

    return add
