"""Builds the OpenAPI 3.1 description of the seven routes from their models: `GET /v1/openapi.json`.

As a program it writes the file of the documentation:
`python -m producers.plugin.openapi > docs/plugin-v1.openapi.json`.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from producers.plugin.wire import (
    LONGEST_NAME,
    VERSION,
    ForgetRequest,
    Found,
    Health,
    MemoryWrite,
    Namespace,
    NamespacePatch,
    NamespaceUpsert,
    Problem,
    SearchRequest,
    Written,
)

#: The contract's names of these models.
NAMES: Mapping[type[BaseModel], str] = {
    Health: "HealthResponse",
    NamespaceUpsert: "NamespaceUpsert",
    NamespacePatch: "NamespacePatch",
    Namespace: "Namespace",
    MemoryWrite: "MemoryWrite",
    Written: "MemoryWriteResponse",
    SearchRequest: "SearchRequest",
    Found: "SearchResponse",
    ForgetRequest: "ForgetRequest",
    Problem: "Error",
}
#: Method, path, body, status of success, answer, the refusals that the contract names, and the operation's id.
ROUTES: Sequence[tuple[str, str, type[BaseModel] | None, int, type[BaseModel] | None, tuple[int, ...], str]] = (
    ("get", "/v1/health", None, 200, Health, (503,), "check_health"),
    ("put", "/v1/namespaces/{name}", NamespaceUpsert, 200, Namespace, (400,), "upsert_namespace"),
    ("patch", "/v1/namespaces/{name}", NamespacePatch, 200, Namespace, (400, 404), "patch_namespace"),
    ("delete", "/v1/namespaces/{name}", None, 204, None, (404,), "delete_namespace"),
    ("post", "/v1/namespaces/{name}/memories", MemoryWrite, 201, Written, (400, 404), "write_memory"),
    ("post", "/v1/search", SearchRequest, 200, Found, (400,), "search_memories"),
    ("delete", "/v1/memories/{id}", ForgetRequest, 204, None, (400, 403, 404), "forget_memory"),
)
#: What the parameters of the paths mean.
PARAMETERS: Mapping[str, str] = {
    "name": f"name of the namespace, such as workspace:abc, at most {LONGEST_NAME} bytes",
    "id": "UUID of the memory, as its write answered it",
}
#: Statuses that this service adds on every route: no valid key, quota, too many requests, unavailable database.
ADDED = (401, 403, 429, 503)


@cache
def describe_routes() -> Mapping[str, Any]:
    """Return the OpenAPI document."""
    requests = {model for _, _, model, *_ in ROUTES if model}
    modes: list[Any] = [(model, "validation" if model in requests else "serialization") for model in NAMES]
    found, definitions = models_json_schema(modes, ref_template="#/components/schemas/{model}")
    schemas = dict(definitions["$defs"])
    titled = {name: found[mode]["$ref"].rpartition("/")[2] for mode, name in zip(modes, NAMES.values(), strict=True)}
    schemas |= {name: schemas.pop(title) for name, title in titled.items() if title != name}
    paths: dict[str, Any] = {}
    for method, path, takes, status, answers, refusals, name in ROUTES:
        operation = {"operationId": name, **_build_operation(path, takes, status, answers, refusals)}
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Memory plugin", "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _build_operation(
    path: str,
    takes: type[BaseModel] | None,
    status: int,
    answers: type[BaseModel] | None,
    refusals: tuple[int, ...],
) -> dict[str, Any]:
    told = {str(code): _build_content("refused", Problem) for code in sorted({*refusals, *ADDED})}
    told[str(status)] = _build_content("done", answers)
    operation: dict[str, Any] = {"responses": told}
    if takes is not None:
        operation["requestBody"] = {"required": True, **_build_content("", takes)}
    named = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
    if named:
        operation["parameters"] = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": PARAMETERS[name],
                "schema": {"type": "string"},
            }
            for name in named
        ]
    return operation


def _build_content(says: str, model: type[BaseModel] | None) -> dict[str, Any]:
    described = {"description": says} if says else {}
    if model is None:
        return described
    schema = {"$ref": f"#/components/schemas/{NAMES[model]}"}
    return {**described, "content": {"application/json": {"schema": schema}}}


def render_description() -> str:
    """Return the document as the text of a file."""
    return json.dumps(describe_routes(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render_description())
