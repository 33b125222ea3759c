"""The page docs/http.md from the API's own description: `python -m producers.http.reference_page > docs/http.md`."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

from producers.http.app import create_app
from producers.http.error_responses import INTERNAL, WIRES
from producers.http.openapi import MEANINGS
from producers.settings import ApiSettings

HEAD = """# The HTTP API

Written from the API's own description by `python -m producers.http.reference_page > docs/http.md`; the running service
shows the same with every field and an example at `/docs`, and as OpenAPI at `/openapi.json`. A generated client names a
call by its operation. Bodies are JSON. Fields and parameters with a `*` are needed. Times are RFC 3339 in UTC. Integers
are milliseconds since 1970, and seconds if they have ten digits. A key goes in the header
`Authorization: Bearer <key>`.
"""
PARAMETERS = """## Parameters

Where no operation is named, the meaning is that of all others.

| parameter | operations | meaning |
|---|---|---|
"""
ERRORS = """## Errors

Every error has the body `{"error": {"code", "message", "retryable", "details"}, "request_id"}`. Any call may answer
403, 413, 429 and 500; those beside them stand with each call.

| status | code | meaning, and what to do |
|---|---|---|
"""
#: Statuses that any call may answer with.
ALWAYS = frozenset({"403", "413", "429", "500"})


def render_reference(described: Mapping[str, Any]) -> str:
    """Return the page: method, path, purpose, who may call it, request, answers and errors of each operation."""
    by_tag: dict[str, list[str]] = {}
    for path, calls in described["paths"].items():
        for method, operation in calls.items():
            lines = _render_operation(f"{method.upper()} {path}", operation, described["components"]["schemas"])
            by_tag.setdefault(operation["tags"][0], []).append("\n".join(lines))
    sections = [f"## {tag.capitalize()}\n\n" + "\n\n".join(shown) + "\n" for tag, shown in by_tag.items()]
    tables = (
        PARAMETERS + "\n".join(_render_parameters(described)) + "\n",
        ERRORS + "\n".join(_render_codes()) + "\n",
    )
    return "\n".join((HEAD, *sections, *tables))


def _render_operation(name: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    promise, _, access = operation["description"].partition("\n\n**Who may call it:** ")
    yield f"### `{name}`\n\n{operation['summary']}. {promise}\n"
    yield f"- Operation: `{operation['operationId']}`"
    yield f"- Who: {access}"
    if "parameters" in operation:
        named = (_mark_required(one["name"], one["required"]) for one in operation["parameters"])
        yield f"- Parameters: {', '.join(named)}"
    if "requestBody" in operation:
        [content] = operation["requestBody"]["content"].values()
        yield f"- Request: {_render_schema(content['schema'], schemas)}"
    errors = []
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            errors += [status] if status not in ALWAYS else []
            continue
        shown = [_render_schema(content["schema"], schemas) for content in answer.get("content", {}).values()]
        yield f"- {status}: {answer['description']}" + "".join(f": {one}" for one in shown)
    if errors:
        yield f"- Errors: {', '.join(errors)}"


def _render_schema(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return ", or ".join(_render_schema(one, schemas) for one in schema["anyOf"])
    if "$ref" not in schema:
        return "text"
    model = schemas[schema["$ref"].rpartition("/")[2]]
    return ", ".join(_mark_required(name, name in model.get("required", ())) for name in model["properties"])


def _mark_required(name: str, required: object) -> str:
    return f"`{name}`*" if required else f"`{name}`"


def _render_parameters(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield a row for each meaning that a parameter has, by name, the meaning of the most operations first."""
    found: dict[str, dict[str, list[str]]] = {}
    for calls in described["paths"].values():
        for call in calls.values():
            for one in call.get("parameters", ()):
                meanings = found.setdefault(one["name"], {})
                meanings.setdefault(_describe_meaning(one), []).append(f"`{call['operationId']}`")
    for name, meanings in sorted(found.items()):
        for n, (meaning, users) in enumerate(sorted(meanings.items(), key=lambda entry: -len(entry[1]))):
            yield f"| `{name}` | {', '.join(users) if n else ''} | {meaning} |"


def _describe_meaning(parameter: Mapping[str, Any]) -> str:
    default = parameter["schema"].get("default")
    given = f"; default {default}" if isinstance(default, int) and not isinstance(default, bool) else ""
    return f"{parameter['description']}{given}"


def _render_codes() -> Iterator[str]:
    known = {(wire.status, wire.code) for wire in (*WIRES.values(), INTERNAL)}
    yield from (f"| {status} | `{code}` | {MEANINGS[code]} |" for status, code in sorted(known))


if __name__ == "__main__":
    # The description can be built without the parts that answer requests.
    nothing, present = cast("Any", None), cast("Any", object())
    app = create_app(nothing, nothing, nothing, nothing, ApiSettings(), operations=present, sessions=present)
    sys.stdout.write(render_reference(app.openapi()))
