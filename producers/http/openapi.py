"""The description of the door. Bodies are judged by the facade, so it is told here which model stands where."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

REF = "#/components/schemas/{model}"
KEY = "key"


class Failure(BaseModel):
    """What went wrong, for a program and for a person."""

    code: str
    message: str
    retryable: bool
    details: dict[str, Any]


class ErrorBody(BaseModel):
    """Every answer that is no success."""

    error: Failure
    request_id: str


def describe_route(
    summary: str,
    body: type[BaseModel] | None = None,
    *,
    query: type[BaseModel] | None = None,
    key: bool = True,
    created: bool = False,
    answer: type[BaseModel] | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments that describe a route whose function takes the bare request."""
    extra: dict[str, Any] = {"security": [{KEY: []}]} if key else {}
    if body is not None:
        schema = {"$ref": REF.format(model=body.__name__)}
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if query is not None:
        properties = query.model_json_schema()["properties"].items()
        extra["parameters"] = [{"name": name, "in": "query", "schema": schema} for name, schema in properties]
    failed = {"application/json": {"schema": {"$ref": REF.format(model=ErrorBody.__name__)}}}
    done = {} if answer is None else {"200": _describe_answer(answer)}
    return {
        "summary": summary,
        "openapi_extra": extra,
        "response_class": Response,
        "status_code": 201 if created else 200,
        "responses": {
            **done,
            "408": {"description": "the request's body did not arrive in its time", "content": failed},
            "429": {"description": "too much at a time: retry after the seconds of Retry-After", "content": failed},
            "4XX": {"description": "refused", "content": failed},
        },
    }


def _describe_answer(model: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": REF.format(model=model.__name__)}
    return {"description": "done", "content": {"application/json": {"schema": schema}}}


def add_models(app: FastAPI, models: Sequence[type[BaseModel]]) -> None:
    """Make the app's description hold the models its routes point at."""
    shown: list[type[BaseModel]] = [ErrorBody, *models]

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            _, schemas = models_json_schema([(model, "validation") for model in shown], ref_template=REF)
            components = described.setdefault("components", {})
            components["schemas"] = schemas.get("$defs", {})
            components["securitySchemes"] = {KEY: {"type": "http", "scheme": "bearer"}}
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # the way FastAPI documents it
