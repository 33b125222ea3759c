"""What the isolation check does not try: served routes, and parameters and fields that no request of it holds.

A new route, parameter or field is tried (`routes`), or left out here with a reason; a test and the check itself look.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.routing import BaseRoute

from deploy.lab.isolation.fixture import KeyHolder, SeededBank, SeededIds
from deploy.lab.isolation.routes import OPERATOR, ROUTES, make_pair
from producers.plugin.app import PluginApp
from producers.plugin.openapi import ROUTES as PLUGIN_ROUTES

#: Served routes that are not tried, each with the reason.
UNTRIED = {
    "POST /mcp/": "the same as /mcp",
    "GET /health/live": "reads nothing",
    "GET /health/ready": "says which part fails; no tenant is named",
    "GET /metrics": "counts over all tenants; no label names one",
    "GET /openapi.json": "the description of the interface",
    "GET /v1/health": "says whether the memory plugin can work",
    "GET /": "sends a browser to a page",
    "GET /console": "the page of the console, the same for everyone",
    "GET /console/assets/{name}": "what that page is made of, out of a package",
    "POST /api/v1/console/links": "makes a link for keys that it is given",
    "POST /api/v1/console/session": "opens a session of the key it is given, and names that key alone",
    "GET /api/v1/console/session": "names the key of the session that is shown",
    "DELETE /api/v1/console/session": "ends the session that is shown",
    "GET /docs": "shows the description of the interface",
    "* /docs/assets": "what that page is made of, out of a package",
}
_BOUNDS, _WRITES = "bounds what is shown anyway", "describes what the caller writes"
_FORM, _WAITS = "chooses the form of the answer", "waits, and shows nothing more"
#: Parameters and fields that are not tried, each with the reason: none of them names or reveals what others own.
UNTRIED_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("limit", "k", "top_k", "max_tokens", "max_input_tok", "min_score", "skip_recent"), _BOUNDS),
    **dict.fromkeys(("cursor", "after"), "continues a list of what is shown anyway; a foreign one is refused"),
    **dict.fromkeys(("occurred_at", "expires_at", "title", "tags", "metadata", "priority", "weight"), _WRITES),
    **dict.fromkeys(("pinned", "kind", "gateway", "output_items", "link_type"), _WRITES),
    **dict.fromkeys(("reference", "time", "without", "kinds"), _FORM),
    **dict.fromkeys(("wait_ms", "position", "min_position"), _WAITS),
    **dict.fromkeys(("conversation_items", "current_input_start", "current_input_count"), "the caller's own items"),
    **dict.fromkeys(("keys", "key", "link"), "the caller's own credential, in its place in the body"),
    "idempotency_key": "names a command of the caller's own",
    "base_instructions": "accepted, and not used",
    "sources": "asks a gateway, which no tenant of the check has",
}
#: A kind of erasure is what it erases, not a description.
_ALWAYS = frozenset({"POST /api/v1/erasures kind"})
_CONVERTER = re.compile(r":\w+}")


def list_tried_routes() -> set[str]:
    """Return the tried routes, as method and path."""
    return {" ".join(way.split(" ")[:2]) for way in ROUTES}


def find_uncovered_routes(app: Any) -> list[str]:
    """Return the routes of an application that are neither tried nor in `UNTRIED`."""
    return sorted(set(_list_served_routes(app.routes)) - list_tried_routes() - set(UNTRIED))


def _list_served_routes(routes: Iterable[BaseRoute], prefix: str = "") -> Iterator[str]:
    """Yield method and path of each route, and `* path` for a mounted application without routes."""
    for route in routes:
        path = prefix + _CONVERTER.sub("}", str(getattr(route, "path", "")))
        inner = getattr(route, "routes", None)
        if isinstance(getattr(route, "app", None), PluginApp):
            yield from (f"{method.upper()} {path}" for method, path, *_ in PLUGIN_ROUTES)
        elif inner:
            yield from _list_served_routes(inner, path)
        else:
            methods = getattr(route, "methods", None) or {"*"}
            yield from (f"{method} {path}" for method in methods - {"HEAD"})


def find_uncovered_fields(description: Mapping[str, Any]) -> list[str]:
    """Return parameters, fields and their listed values that no try holds, by an application's OpenAPI description.

    Operators' routes are left out: they refuse every tenant's key before they read anything.
    """
    tried = _list_tried_values()
    wanted = {
        name: values
        for route, call in _list_operations(description)
        if not route.partition(" ")[2].startswith(OPERATOR)
        for name, values in _list_fields(description, route, call)
        if name in _ALWAYS or name.rpartition(" ")[2] not in UNTRIED_FIELDS
    }
    absent = [name for name in wanted if name not in tried]
    values = [f"{name}={one}" for name, all_ in wanted.items() if name in tried for one in all_ - tried[name]]
    return sorted([*absent, *values])


def _list_tried_values() -> dict[str, set[str]]:
    """Return the values of every parameter and field that the tries hold, by route and name."""
    bank = SeededBank(0, "bank", "twin", things=SeededIds.absent(Random(0)))  # noqa: S311 - ids for no use
    one, _ = make_pair(Random(0), KeyHolder(0, ""), bank, whole=True)  # noqa: S311
    tried: dict[str, set[str]] = defaultdict(set)
    for way, route in ROUTES.items():
        asked, name = route.ask(one), " ".join(way.split(" ")[:2])
        for field, value in [*parse_qsl(urlsplit(asked.path).query), *(asked.body or {}).items()]:
            tried[f"{name} {field}"] |= set(map(str, value)) if isinstance(value, list) else {str(value)}
    return tried


def _list_operations(description: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, calls in description["paths"].items():
        for method, call in calls.items():
            yield f"{method.upper()} {path}", call


def _list_fields(
    description: Mapping[str, Any], route: str, call: Mapping[str, Any]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield route and name of each query parameter and field of the body, with its listed values but the default."""
    fields = {one["name"]: one["schema"] for one in call.get("parameters", ()) if one["in"] == "query"}
    for content in call.get("requestBody", {}).get("content", {}).values():
        fields |= _resolve_schema(description, content["schema"]).get("properties", {})
    for name, schema in fields.items():
        kinds = [schema, schema.get("items", {}), *schema.get("anyOf", ())]
        listed = {str(one) for kind in kinds for one in kind.get("enum", ())}
        yield f"{route} {name}", frozenset(listed - {str(schema.get("default"))})


def _resolve_schema(description: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, or the one that it refers to."""
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = description["components"]["schemas"][name] if name else schema
    return found
