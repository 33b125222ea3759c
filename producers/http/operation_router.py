"""A router whose operations are declared by functions: what they take, and which shape they answer."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import wraps
from http import HTTPStatus
from typing import Annotated, Any, TypeVar, get_args, get_type_hints
from uuid import UUID

from afterturn_client.contract.shape import Shape
from fastapi import APIRouter, Request, Response

from producers.http.openapi import CallerClass, DescribedAnswer, Kinds, describe_route
from producers.http.requests import json_response, parse_identifier, read_body, read_parameters
from producers.service.wire import WireModel

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])
Model = type[WireModel] | type[Shape]


class OperationRouter(APIRouter):
    """A router of operations; `access` is that of an operation that names none."""

    def __init__(self, *, prefix: str = "", tags: list[str], access: CallerClass = CallerClass.READER) -> None:
        super().__init__(prefix=prefix, tags=[*tags])
        self._access = access

    def operation(
        self,
        route: str,
        summary: str,
        promise: str,
        says: str | Mapping[int, str | DescribedAnswer],
        *,
        access: CallerClass | None = None,
        status: int = 200,
        body: type[WireModel] | None = None,
        shape: Model | None = None,
        fails: Kinds = (),
    ) -> Callable[[Handler], Handler]:
        """Add "METHOD /path"; see `describe_route`. The function is given the query as `asked`, the body as `sent`.

        An id in the path that it takes as a UUID is parsed; one that is none is answered as NotFound. It returns the
        answer, whose shape its annotation names unless `shape` does, nothing for 204, or a response. `says` is what the
        answer is; where there are several successes, it is that by status.
        """
        method, _, path = route.partition(" ")

        def add(handler: Handler) -> Handler:
            hints, told = get_type_hints(handler), inspect.signature(handler)
            query, takes_body, takes_request = hints.get("asked"), "sent" in hints, "request" in hints
            model = shape or hints["return"]
            ids = [name for name, one in told.parameters.items() if get_args(one.annotation)[:1] == (UUID,)]

            @wraps(handler)
            async def answer(request: Request, **given: Any) -> Response:
                if query is not None:
                    given["asked"] = read_parameters(request, query)
                if takes_body:
                    given["sent"] = await read_body(request)
                given |= {name: parse_identifier(given[name]) for name in ids}
                if takes_request:
                    given["request"] = request
                found = await handler(**given)
                if isinstance(found, Response):
                    return found
                return Response(status_code=HTTPStatus.NO_CONTENT) if found is None else json_response(found, status)

            answer.__signature__ = _build_signature(told, ids)  # type: ignore[attr-defined]  # FastAPI reads it
            only = HTTPStatus.NO_CONTENT.value if model is type(None) else status
            described = describe_route(
                summary,
                promise,
                access or self._access,
                _describe_answers({only: says} if isinstance(says, str) else says, model),
                body=body,
                query=query,
                fails=fails,
            )
            self.add_api_route(path, answer, methods=[method], **described)
            return handler

        return add


def _build_signature(told: inspect.Signature, ids: Collection[str]) -> inspect.Signature:
    """Return what FastAPI is to give: the request, and the parameters that are not made of it, ids as text."""
    given = [
        one.replace(annotation=Annotated[(str, *get_args(one.annotation)[1:])]) if name in ids else one
        for name, one in told.parameters.items()
        if name not in {"asked", "sent", "request"}
    ]
    request = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
    return told.replace(parameters=[*given, request], return_annotation=Response)


def _describe_answers(says: Mapping[int, str | DescribedAnswer], model: Model) -> dict[int, DescribedAnswer]:
    return {
        status: one
        if isinstance(one, DescribedAnswer)
        else DescribedAnswer(one, () if status == HTTPStatus.NO_CONTENT else (model,))
        for status, one in says.items()
    }
