"""A router whose operations are declared by functions: what they take, and which shape they answer."""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar, get_type_hints

from afterturn_client.contract.shape import Shape
from fastapi import APIRouter, Request, Response

from producers.http.openapi import CallerClass, DescribedAnswer, Kinds, describe_route
from producers.http.requests import json_response, read_body, read_parameters
from producers.service.wire import WireModel

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])


class OperationRouter(APIRouter):
    """A router of operations with one success; `access` is that of an operation that names none."""

    def __init__(self, *, prefix: str, tags: list[str], access: CallerClass = CallerClass.READER) -> None:
        super().__init__(prefix=prefix, tags=[*tags])
        self._access = access

    def operation(
        self,
        route: str,
        summary: str,
        promise: str,
        says: str,
        *,
        access: CallerClass | None = None,
        status: int = 200,
        body: type[WireModel] | None = None,
        shape: type[WireModel] | type[Shape] | None = None,
        fails: Kinds = (),
    ) -> Callable[[Handler], Handler]:
        """Add "METHOD /path"; see `describe_route`. The function is given the query as `asked`, the body as `sent`.

        It returns the answer, whose shape its annotation names unless `shape` does, or nothing for 204. `says` is what
        the answer is.
        """
        method, _, path = route.partition(" ")

        def add(handler: Handler) -> Handler:
            hints, told = get_type_hints(handler), inspect.signature(handler)
            query, takes_body = hints.get("asked"), "sent" in hints
            model = shape or hints["return"]
            is_empty = model is type(None)

            @wraps(handler)
            async def answer(request: Request, **given: Any) -> Response:
                if query is not None:
                    given["asked"] = read_parameters(request, query)
                if takes_body:
                    given["sent"] = await read_body(request)
                found = await handler(**given)
                return Response(status_code=204) if is_empty else json_response(found, status)

            request = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
            others = [one for name, one in told.parameters.items() if name not in {"asked", "sent"}]
            answer.__signature__ = told.replace(parameters=[*others, request], return_annotation=Response)  # type: ignore[attr-defined]  # FastAPI reads it
            answers = {204: DescribedAnswer(says)} if is_empty else {status: DescribedAnswer(says, (model,))}
            described = describe_route(
                summary, promise, access or self._access, answers, body=body, query=query, fails=fails
            )
            self.add_api_route(path, answer, methods=[method], **described)
            return handler

        return add
