"""The description of the routes says what contract v1 says (contract 1.1 and 1.2), and nothing less."""

import re
from pathlib import Path

import httpx

from producers.plugin.app import PluginApp
from producers.plugin.openapi import describe_routes, render_description
from producers.settings import ApiSettings
from tests.producers.plugin.test_app import InMemory
from tests.tables import each_row

#: Method, path, statuses (contract 1.1).
ROUTES = {
    ("get", "/v1/health"): {200, 503},
    ("put", "/v1/namespaces/{name}"): {200, 400},
    ("patch", "/v1/namespaces/{name}"): {200, 404},
    ("delete", "/v1/namespaces/{name}"): {204, 404},
    ("post", "/v1/namespaces/{name}/memories"): {201, 400, 404},
    ("post", "/v1/search"): {200, 400},
    ("delete", "/v1/memories/{id}"): {204, 403, 404},
}
#: Object, its fields, those that are required (contract 1.2).
OBJECTS = {
    "HealthResponse": ({"status", "version", "capabilities"}, {"status"}),
    "NamespaceUpsert": ({"kind", "expires_at", "metadata"}, {"kind"}),
    "NamespacePatch": ({"expires_at", "metadata"}, set[str]()),
    "Namespace": ({"name", "kind", "created_at", "expires_at", "metadata"}, {"name", "kind", "created_at"}),
    "MemoryWrite": (
        {"id", "content", "kind", "source", "expires_at", "propagation", "pin", "embedding"},
        {"content", "kind", "source"},
    ),
    "MemoryWriteResponse": ({"id", "namespace"}, {"id", "namespace"}),
    "SearchRequest": ({"namespaces", "query", "kinds", "limit", "embedding"}, {"namespaces"}),
    "SearchResponse": ({"memories"}, {"memories"}),
    "Memory": (
        {"id", "namespace", "content", "kind", "source", "created_at", "expires_at", "propagation", "pin", "score"},
        {"id", "namespace", "content", "kind", "source", "created_at"},
    ),
    "ForgetRequest": ({"requested_by_namespace"}, {"requested_by_namespace"}),
    "Error": ({"code", "message", "details"}, {"code", "message"}),
}
#: What ours adds, and the contract's reference passes over.
OURS = {
    "MemoryWrite": {"created_at"},
    "SearchRequest": {"cursor", "export"},
    "SearchResponse": {"next_cursor", "namespaces", "unembedded"},
    "Memory": {"embedding"},
}
ENUMS = {
    "NamespaceKind": ["workspace", "team", "org", "custom"],
    "MemoryKind": ["fact", "summary", "checkpoint"],
    "Source": ["agent", "runtime", "user"],
}


def test_the_routes_and_their_statuses_are_the_contracts() -> None:
    told = describe_routes()
    assert told["info"]["version"] == "1.0.0"
    found = {(method, path): set(map(int, one["responses"])) for path, ways in told["paths"].items()
             for method, one in ways.items()}  # fmt: skip
    assert found.keys() == ROUTES.keys()
    for way, statuses in ROUTES.items():
        # Beside these: a bad patch or forget, a key, a quota, too many requests, a database that is away.
        assert statuses <= found[way] <= statuses | {400, 401, 403, 429, 503}, way


def test_every_operation_has_an_id_of_its_own_and_every_parameter_says_what_it_means() -> None:
    found = [one for ways in describe_routes()["paths"].values() for one in ways.values()]
    named = [one["operationId"] for one in found]
    assert len(set(named)) == len(named) == len(ROUTES)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)+", name) for name in named)
    parameters = [told for one in found for told in one.get("parameters", ())]
    assert {one["name"] for one in parameters} == {"name", "id"}
    assert all(one["description"] for one in parameters)


@each_row("name", OBJECTS)
def test_an_objects_fields_are_the_contracts(name: str) -> None:
    schema = describe_routes()["components"]["schemas"][name]
    fields, required = OBJECTS[name]
    assert set(schema["properties"]) == fields | OURS.get(name, set())
    assert required <= set(schema.get("required", [])) <= fields


def test_choices_and_limits_are_the_contracts() -> None:
    schemas = describe_routes()["components"]["schemas"]
    assert {name: schemas[name]["enum"] for name in ENUMS} == ENUMS
    limit = schemas["SearchRequest"]["properties"]["limit"]
    assert (limit["minimum"], limit["maximum"]) == (0, 100)
    assert schemas["SearchRequest"]["properties"]["namespaces"]["minItems"] == 1


def test_the_file_of_the_documentation_is_current() -> None:
    kept = (Path(__file__).parents[3] / "docs" / "plugin-v1.openapi.json").read_text(encoding="utf-8")
    assert kept == render_description(), "python -m producers.plugin.openapi > docs/plugin-v1.openapi.json"


async def test_a_plugin_serves_its_description(tmp_path: Path) -> None:
    store = InMemory(tmp_path / "away")

    async def store_of(_request: object) -> InMemory:
        return store

    transport = httpx.ASGITransport(PluginApp(store_of, ApiSettings()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9100") as client:
        assert (await client.get("/v1/openapi.json")).json() == describe_routes()
