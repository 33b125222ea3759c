"""A value held to the schema that the running API publishes: as much of JSON Schema as it uses, and nothing unknown.

Stricter than a client may be: what a schema of an object does not name must not be there, so that no field is answered
that is not described.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

#: What says nothing about which values are meant.
SILENT = frozenset({"title", "description", "default", "example", "examples", "discriminator"})
WORDS = (
    "$ref type anyOf oneOf enum const properties required additionalProperties items minItems maxItems minLength "
    "maxLength minimum maximum exclusiveMinimum exclusiveMaximum pattern format propertyNames maxProperties"
)
CHECKED = frozenset(WORDS.split())
TYPES: Mapping[str, Any] = {
    "string": str,
    "object": dict,
    "array": list,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
#: What applications publish, by their routes.
DESCRIBED: dict[tuple[str, ...], Mapping[str, Any]] = {}
FORMATS: Mapping[str, Any] = {"uuid": UUID, "date-time": datetime.fromisoformat}


def find_faults(schema: Mapping[str, Any], value: Any, components: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield where a value differs from its schema, by its dotted path."""
    if unknown := set(schema) - SILENT - CHECKED:
        yield f"{path}: the schema says {sorted(unknown)}, which this check does not know: teach it"
    if "$ref" in schema:
        yield from find_faults(components["schemas"][schema["$ref"].rpartition("/")[2]], value, components, path)
        return
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices and not any(not list(find_faults(one, value, components, path)) for one in choices):
        tried = [list(find_faults(one, value, components, path)) for one in choices]
        yield f"{path}: fits none of its schemas: {min(tried, key=len)}"
    if "type" in schema and not _is_of_type(value, schema["type"]):
        yield f"{path}: {type(value).__name__} where {schema['type']} is said"
        return
    yield from _find_value_faults(schema, value, path)
    if isinstance(value, dict):
        yield from _find_object_faults(schema, value, components, path)
    if isinstance(value, list):
        for n, one in enumerate(value):
            yield from find_faults(schema.get("items", {}), one, components, f"{path}.{n}")


def _is_of_type(value: Any, name: str) -> bool:
    if name in {"integer", "number"} and isinstance(value, bool):
        return False
    return isinstance(value, TYPES[name])


def _find_value_faults(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if "const" in schema and value != schema["const"]:
        yield f"{path}: is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: is not one of {schema['enum']}"
    if isinstance(value, str):
        yield from _find_text_faults(schema, value, path)
    if isinstance(value, str | list | dict):
        least = schema.get("minLength", schema.get("minItems", 0))
        most = schema.get("maxLength", schema.get("maxItems", schema.get("maxProperties", len(value))))
        if not least <= len(value) <= most:
            yield f"{path}: has {len(value)}, not {least} to {most}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        inside = schema.get("minimum", value) <= value <= schema.get("maximum", value)
        above, below = schema.get("exclusiveMinimum", value - 1), schema.get("exclusiveMaximum", value + 1)
        if not (inside and above < value < below):
            yield f"{path}: is out of its range"


def _find_text_faults(schema: Mapping[str, Any], value: str, path: str) -> Iterator[str]:
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: does not match {schema['pattern']}"
    if "format" in schema:
        try:
            FORMATS[schema["format"]](value)
        except ValueError:
            yield f"{path}: is no {schema['format']}"


def _find_object_faults(
    schema: Mapping[str, Any], value: Mapping[str, Any], components: Mapping[str, Any], path: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: is missing"
    more = schema.get("additionalProperties", not known)
    for name, one in value.items():
        if name in known:
            yield from find_faults(known[name], one, components, f"{path}.{name}")
        elif isinstance(more, dict):
            yield from find_faults(more, one, components, f"{path}.{name}")
        elif "properties" in schema or more is False:
            yield f"{path}.{name}: is not described: declare it in the answer's model"


def describe(app: Any) -> Mapping[str, Any]:
    """Return what an application publishes. Those with the same routes publish the same: it takes a second to make."""
    routes = tuple(_name_route(route) for route in app.routes)
    if routes not in DESCRIBED:
        DESCRIBED[routes] = app.openapi()
    return DESCRIBED[routes]


def _name_route(route: Any) -> str:
    answers = getattr(route, "endpoint", None) or getattr(route, "app", None)
    known = getattr(answers, "__module__", ""), getattr(answers, "__qualname__", type(answers).__qualname__)
    return f"{sorted(getattr(route, 'methods', None) or ())} {route.path} {known}"


class HeldToSchema:
    """An ASGI application whose every answer is held to what it publishes: the status is declared, the body fits.

    Raises AssertionError with what to declare. `answered` are the statuses that each operation answered.
    """

    def __init__(self, app: Any) -> None:
        """Hold `app` to its own description."""
        self._app, self._described = app, describe(app)
        self.answered: dict[str, set[str]] = {}
        #: Each operation's JSON answers, by its name and status.
        self.bodies: dict[str, list[bytes]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request, then judge its answer."""
        started: dict[str, Any] = {}
        body = bytearray()

        async def keep(message: Any) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
            body.extend(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, keep)
        route = scope.get("route")
        operation = self._find_operation(route, scope["method"]) if route is not None and started else None
        if operation is not None:
            name, status = f"{scope['method']} {route.path_format}", str(started["status"])
            self.answered.setdefault(name, set()).add(status)
            if (b"content-type", b"application/json") in started["headers"]:
                self.bodies.setdefault(f"{name} {status}", []).append(bytes(body))
            faults = list(find_answer_faults(self._described, operation, status, bytes(body)))
            assert not faults, f"{name} answered {status}: {'; '.join(faults[:5])}"

    def _find_operation(self, route: Any, method: str) -> Mapping[str, Any] | None:
        """Return what is published of the operation; None where it is not published, or the method is another's."""
        calls = self._described["paths"].get(getattr(route, "path_format", None), {})
        found: Mapping[str, Any] | None = calls.get(method.lower())
        return found


def find_answer_faults(
    described: Mapping[str, Any], operation: Mapping[str, Any], status: str, body: bytes
) -> Iterator[str]:
    """Yield where an answer differs from what is published of its operation."""
    components = described["components"]
    answer = operation["responses"].get(status)
    if answer is None:
        yield "the status is not declared: add it to what the operation says, or its error to `fails`"
        return
    if "$ref" in answer:
        answer = components["responses"][answer["$ref"].rpartition("/")[2]]
    contents = answer.get("content", {})
    if not contents and body:
        yield "a body is answered and none is declared: name its model in the Reply"
    for media, content in contents.items():
        value = json.loads(body) if media == "application/json" else body.decode()
        yield from find_faults(content["schema"], value, components)
