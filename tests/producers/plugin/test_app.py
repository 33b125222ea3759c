"""Our seven routes of contract v1 over HTTP, judged by our own contract kit, and what the kit does not ask."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from afterturn_client.moments import format_utc
from starlette.requests import Request

from producers.contract_kit.flat_plugin import PluginError
from producers.errors import FieldProblem, Invalid, Overloaded, Unauthenticated
from producers.fair_queue import BYTES_A_UNIT, TURN_WEIGHT, FairQueue
from producers.perimeter.client import PluginAddress, PluginClient, build_body
from producers.plugin import app as plugin_app
from producers.plugin.app import PluginApp
from producers.plugin.store import PluginStore
from producers.plugin.wire import (
    Found,
    Health,
    Memory,
    MemoryWrite,
    Namespace,
    NamespaceKind,
    SearchRequest,
    Written,
)
from producers.service.json_values import limit_json_now
from producers.settings import ApiSettings, FairnessSettings
from store.errors import NotFound, QuotaExceeded, RateLimited, ResourceBusy, TurnBusy
from tests.patience import PATIENCE_S
from tests.producers.contract_kit.judging import judge, list_cases
from tests.producers.contract_kit.reference import ReferenceStore
from tests.producers.perimeter.plugins import logged
from tests.serving import serve_in_thread

MEMORY = {"content": "x", "kind": "fact", "source": "agent"}


class InMemory:
    """A store that takes what the routes checked: were anything else to reach it, that would be a 500."""

    def __init__(self, away: Path, capabilities: tuple[str, ...] = ReferenceStore.capabilities) -> None:
        self.kept = ReferenceStore(away)
        self.capabilities = frozenset(capabilities)
        self.tenant = UUID(int=1)
        self.fails: Exception | None = None

    async def health(self) -> Health:
        self.check()
        return Health(status="ok", version="1.0.0", capabilities=tuple(self.capabilities))

    async def upsert_namespace(self, name: str, kind: NamespaceKind, changes: Mapping[str, Any]) -> Namespace:
        return Namespace.model_validate(self.call("upsert_namespace", name, {"kind": kind.value} | wired(changes)))

    async def patch_namespace(self, name: str, changes: Mapping[str, Any]) -> Namespace:
        return Namespace.model_validate(self.call("patch_namespace", name, wired(changes)))

    async def delete_namespace(self, name: str) -> Sequence[UUID]:
        self.call("delete_namespace", name)
        return ()

    async def write(self, namespace: str, memory: MemoryWrite) -> Written:
        return Written.model_validate(self.call("write", namespace, memory.as_json()))

    async def search(self, request: SearchRequest) -> Found:
        found = self.call("search", request.as_json())["memories"]
        return Found(memories=tuple(Memory.model_validate(one) for one in found))

    async def forget(self, namespace: str, memory_id: UUID) -> Sequence[UUID]:
        self.call("forget", str(memory_id), {"requested_by_namespace": namespace})
        return ()

    def call(self, name: str, *arguments: Any) -> Any:
        self.check()
        try:
            return getattr(self.kept, name)(*arguments)
        except PluginError as error:
            assert error.status == 404, error
            raise NotFound(str(error)) from None

    def check(self) -> None:
        if self.fails is not None:
            raise self.fails
        if self.kept.away.exists():
            raise ConnectionRefusedError("hush: the database is away")


def wired(changes: Mapping[str, Any]) -> dict[str, Any]:
    end = changes.get("expires_at")
    return {**changes} | ({"expires_at": format_utc(end)} if end else {})


TOKEN = "Bearer letmein"


@asynccontextmanager
async def serving(store: PluginStore, *, keyed: bool = False, **limits: Any) -> AsyncIterator[str]:
    """Serve it over HTTP in a thread, and lend the URL."""

    async def store_of(request: Request) -> PluginStore:
        if keyed and request.headers.get("authorization") != TOKEN:
            raise Unauthenticated("a valid key is needed: Authorization: Bearer <key>")
        return store

    app = PluginApp(store_of, ApiSettings(**limits))
    with serve_in_thread(app) as url:
        yield url


@asynccontextmanager
async def asking(store: PluginStore, **named: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(store, **named) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S) as client,
    ):
        yield client


@pytest.fixture
def store(tmp_path: Path) -> InMemory:
    return InMemory(tmp_path / "away")


async def test_every_case_of_the_contract_kit_passes_with_every_capability_and_with_none(
    store: InMemory, tmp_path: Path
) -> None:
    async with serving(store) as url, serving(InMemory(tmp_path / "never", ())) as flat_url:
        full, flat = await judge(url, store.kept.away), await judge(flat_url)
    assert full.counts() == {"passed": len(list_cases()), "failed": 0, "skipped": 0}, full.failed
    assert not full.left_behind
    claimable = sum(bool(case.needs) for case in list_cases())
    assert flat.counts()["failed"] == 0, flat.failed
    assert flat.counts()["skipped"] >= claimable > 0


async def test_a_store_without_capabilities_is_handed_none_of_their_fields(tmp_path: Path) -> None:
    store = InMemory(tmp_path / "away", ())
    async with asking(store) as client:
        await client.put("/v1/namespaces/team:a", json={"kind": "team", "expires_at": "nonsense"})
        odd = {"pin": "yes", "embedding": ["x"], "propagation": 7, "expires_at": 5, "created_at": 5, "more": 1}
        answer = await client.post("/v1/namespaces/team:a/memories", json=MEMORY | odd)
    assert answer.status_code == 201
    (kept,) = store.kept.memories.values()
    assert {name for name, value in kept.items() if value is not None} == {"id", "namespace", "created_at", *MEMORY}


async def test_the_perimeters_client_and_the_server_understand_each_other(store: InMemory) -> None:
    async with serving(store) as url, PluginClient(PluginAddress(url, PATIENCE_S)) as plugin:
        assert await plugin.capabilities() == frozenset(ReferenceStore.capabilities)
        with pytest.raises(Exception, match="no namespace") as caught:
            await plugin.write("team:a", build_body(MemoryWrite, **MEMORY))
        assert getattr(caught.value, "status", None) == 404


@pytest.mark.parametrize(
    "path, status",
    [("team:a", 200), ("team%3Aa", 200), ("team%253Aa", 400), ("team:a%0A", 400), ("team:a%2Fb", 400), ("team:a/", 404),
     ("team:%D0%B0", 400), ("team:%FF", 400), ("gateway:a", 400), ("TEAM:a", 400), ("..%2Fteam:a", 400)],
)  # fmt: skip
async def test_a_name_is_decoded_once_and_no_look_alike_is_taken(store: InMemory, path: str, status: int) -> None:
    async with asking(store) as client:
        answer = await client.put(f"/v1/namespaces/{path}", json={"kind": "team"})
        assert answer.status_code == status, answer.text
    assert set(store.kept.namespaces) == ({"team:a"} if status == 200 else set())


async def test_a_search_is_work_of_its_tenant_by_the_bytes_of_its_answer(store: InMemory) -> None:
    fair = FairQueue(FairnessSettings(), lambda: 0.0)

    async def store_of(_request: Request) -> PluginStore:
        return store

    transport = httpx.ASGITransport(PluginApp(store_of, ApiSettings(), fair))
    async with httpx.AsyncClient(transport=transport, base_url="http://plugin") as client:
        await client.put("/v1/namespaces/team:a", json={"kind": "team"})
        await client.post("/v1/namespaces/team:a/memories", json={**MEMORY, "content": "lemon " * 1_000})
        before = fair._tenants[store.tenant].served
        found = await client.post("/v1/search", json={"namespaces": ["team:a"], "query": "lemon"})
    assert found.json()["memories"]
    assert fair._tenants[store.tenant].served - before == TURN_WEIGHT + len(found.content) / BYTES_A_UNIT


@pytest.mark.parametrize(
    "body",
    [
        {"namespaces": [f"team:n{n}" for n in range(1_001)]},
        {"namespaces": ["team:a"], "kinds": ["none"] * 5_000},
        {"namespaces": ["team:a"], "query": "x", "embedding": [1] * 60_000},
    ],
)
async def test_a_search_of_very_many_values_is_refused(store: InMemory, body: dict[str, Any]) -> None:
    async with asking(store) as client:
        answer = await client.post("/v1/search", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert len(answer.content) < 1_000


FAILURES = [
    (QuotaExceeded("max_turns", "host", 5), 403, "forbidden", None),
    (RateLimited("turns_per_minute", "host", 5, 17), 429, "unavailable", "17"),
    (Overloaded("too much at a time", 3), 429, "unavailable", "3"),
    (TurnBusy("hush"), 429, "unavailable", "1"),
    (ResourceBusy("hush"), 503, "unavailable", None),
    (ConnectionRefusedError("hush"), 503, "unavailable", None),
    (TimeoutError("hush"), 503, "unavailable", None),
    (Invalid(FieldProblem("content", "is too long")), 400, "bad_request", None),
    (RuntimeError("hush"), 500, "internal", None),
]


@pytest.mark.parametrize("error, status, code, wait", FAILURES)
async def test_a_failure_of_the_store_is_what_a_caller_can_act_upon_and_leaks_nothing(
    store: InMemory, error: Exception, status: int, code: str, wait: str | None
) -> None:
    with logged() as logs:
        async with asking(store) as client:
            store.fails = error
            answer = await client.post("/v1/namespaces/team:a/memories", json=MEMORY)
    assert (answer.status_code, answer.json()["code"], answer.headers.get("retry-after")) == (status, code, wait)
    assert "hush" not in answer.text + str(logs)
    if status == 403:
        assert answer.json()["details"] == {"limit": "max_turns", "scope": "host", "allowed": 5}


async def test_health_while_the_store_is_away_is_503_in_both_shapes(store: InMemory) -> None:
    store.kept.away.touch()
    async with asking(store) as client:
        answer = await client.get("/v1/health")
    assert answer.status_code == 503
    assert answer.json().keys() == {"status", "version", "capabilities", "code", "message"}
    assert (answer.json()["status"], answer.json()["code"]) == ("degraded", "unavailable")


async def test_health_answers_in_its_time_where_the_store_does_not(
    store: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_app, "HEALTH_S", 0.05)
    monkeypatch.setattr(store, "health", asyncio.Event().wait)
    async with asking(store) as client:
        answer = await client.get("/v1/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "degraded")


async def test_with_keys_no_route_answers_without_one(store: InMemory) -> None:
    async with asking(store, keyed=True) as client:
        for method, path in (("GET", "/v1/health"), ("POST", "/v1/search"), ("PUT", "/v1/namespaces/team:a")):
            answer = await client.request(method, path, json={"kind": "team", "namespaces": ["team:a"]})
            assert (answer.status_code, answer.json()["code"]) == (401, "forbidden")
        known = {"authorization": TOKEN}
        assert (await client.get("/v1/health", headers=known)).status_code == 200


@pytest.mark.law("L7")
async def test_a_credential_and_the_callers_own_key_are_not_handed_to_the_store(store: InMemory) -> None:
    secret, key = "sk-zq77Abcdefghij0123456789", "a-key-of-this-caller"
    told = f"{secret} and {key}"
    async with (
        serving(store) as url,
        httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"}) as http,
    ):
        name = "/v1/namespaces/workspace:a"
        assert (await http.put(name, json={"kind": "workspace", "metadata": {secret: [told]}})).status_code == 200
        assert (await http.patch(name, json={"metadata": {"note": told, "id": told}})).status_code == 200
        opaque = {"to": told, "metadata": {"type": told}, "data": [told], "arguments": f"key {told}"}
        body = {**MEMORY, "content": told, "propagation": opaque}
        assert (await http.post(f"{name}/memories", json=body)).status_code == 201
        found = await http.post("/v1/search", json={"namespaces": ["workspace:a"]})
    assert found.json()["memories"][0]["content"] == "[REDACTED:SK_TOKEN] and [REDACTED:OWN_KEY]"
    assert not any(one in repr(vars(store.kept)) for one in (secret, key))


async def test_a_body_past_the_limit_is_refused_and_reaches_no_store(store: InMemory) -> None:
    async with asking(store, max_request_bytes=4096) as client:
        await client.put("/v1/namespaces/team:a", json={"kind": "team"})
        answer = await client.post("/v1/namespaces/team:a/memories", json=MEMORY | {"content": "x" * 5000})
    assert (answer.status_code, answer.json()["code"]) == (413, "bad_request")
    assert not store.kept.memories


@pytest.mark.parametrize("number", ["0.1000000000000000055511151231257827", "1e400", "123456789.12345678901234567"])
async def test_a_number_that_could_not_be_returned_digit_for_digit_is_refused(store: InMemory, number: str) -> None:
    async with asking(store) as client:
        await client.put("/v1/namespaces/team:a", json={"kind": "team"})
        for name in ("propagation", "metadata"):
            raw = json.dumps(MEMORY | {"kind": "fact", name: {"a": [0]}}).replace("[0]", f"[{number}]").encode()
            path, method = ("/v1/namespaces/team:a/memories", "POST") if name == "propagation" else (
                "/v1/namespaces/team:a", "PATCH"
            )  # fmt: skip
            answer = await client.request(method, path, content=raw)
            assert answer.status_code == 400, answer.text
        vector = json.dumps(MEMORY | {"embedding": [0, 1]}).replace("[0,", "[0.1000000000000000055511151231257827,")
        assert (await client.post("/v1/namespaces/team:a/memories", content=vector.encode())).status_code == 201


@pytest.mark.parametrize("excess, status", [(0, (200, 201)), (1, (400, 400))])
async def test_an_opaque_object_of_64_kib_comes_back_and_a_longer_one_is_refused(
    store: InMemory, excess: int, status: tuple[int, int]
) -> None:
    told = {"a": "\u20ac" * 21_800 + "x" * (65_536 - 65_400 - len('{"a":""}') + excess)}
    assert len(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()) == 65_536 + excess
    async with asking(store) as client:
        await client.put("/v1/namespaces/team:a", json={"kind": "team"})
        put = await client.put("/v1/namespaces/team:a", json={"kind": "team", "metadata": told})
        post = await client.post("/v1/namespaces/team:a/memories", json=MEMORY | {"propagation": told})
        found = await client.post("/v1/search", json={"namespaces": ["team:a"]})
    assert (put.status_code, post.status_code) == status
    assert [one["propagation"] for one in found.json()["memories"]] == ([] if excess else [told])
    assert len(put.content) < 1_000 if excess else put.json()["metadata"] == told


async def test_an_opaque_object_that_grows_beyond_64_kib_when_it_is_written_is_refused(store: InMemory) -> None:
    numbers = '{"a":[' + ",".join(["1e15"] * 3_500) + "]}"
    assert len(numbers) < 20_000
    assert len(json.dumps(json.loads(numbers), separators=(",", ":"))) > 65_536
    async with asking(store) as client:
        await client.put("/v1/namespaces/team:a", json={"kind": "team"})
        patch = await client.patch("/v1/namespaces/team:a", content=f'{{"metadata":{numbers}}}')
        memory = f'{json.dumps(MEMORY)[:-1]},"propagation":{numbers}}}'
        post = await client.post("/v1/namespaces/team:a/memories", content=memory)
    assert (patch.status_code, post.status_code) == (400, 400)


async def test_an_opaque_object_that_the_route_does_not_know_is_ignored_however_long_it_is(tmp_path: Path) -> None:
    told, store = {"a": ["x" * 70_000, 0.5]}, InMemory(tmp_path / "away", ())
    async with asking(store) as client:
        put = await client.put("/v1/namespaces/team:a", json={"kind": "team", "propagation": told})
        memory = json.dumps(MEMORY | {"metadata": told, "propagation": told}).replace("0.5", f"0.{'1' * 40}")
        post = await client.post("/v1/namespaces/team:a/memories", content=memory)
        found = await client.post("/v1/search", json={"namespaces": ["team:a"], "metadata": told})
    assert (put.status_code, post.status_code, found.status_code) == (200, 201, 200)
    assert [one["content"] for one in found.json()["memories"]] == [MEMORY["content"]]


@pytest.mark.parametrize("levels, status", [(100, (200, 201, 200)), (101, (400, 400, 200)), (300, (400, 400, 200))])
async def test_an_opaque_object_of_more_levels_than_an_answer_can_have_is_refused(
    store: InMemory, levels: int, status: tuple[int, ...]
) -> None:
    lists = '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    objects = '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)
    async with asking(store) as client:
        await client.put("/v1/namespaces/team:a", json={"kind": "team"})
        put = await client.put("/v1/namespaces/team:a", content=f'{{"kind":"team","metadata":{lists}}}')
        memory = f'{json.dumps(MEMORY)[:-1]},"propagation":{objects}}}'
        post = await client.post("/v1/namespaces/team:a/memories", content=memory)
        found = await client.post("/v1/search", json={"namespaces": ["team:a"]})
    assert (put.status_code, post.status_code, found.status_code) == status


async def test_a_long_body_is_read_and_a_long_answer_written_off_the_event_loop(
    store: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    off_loop = list[bool]()

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            off_loop.append(threading.current_thread().name.startswith("long-texts"))
            return function(*arguments, **named)

        return call

    monkeypatch.setattr("producers.plugin.bodies.limit_json_now", noting(limit_json_now))
    monkeypatch.setattr(Memory, "model_dump_json", noting(Memory.model_dump_json))
    async with asking(store) as client:
        await client.put("/v1/namespaces/team:a", json={"kind": "team"})
        await client.post("/v1/namespaces/team:a/memories", json=MEMORY | {"content": "x" * 30_000})
        found = await client.post("/v1/search", json={"namespaces": ["team:a"]})
    assert len(found.json()["memories"]) == 1
    assert off_loop == [False, True, False, True]


@pytest.mark.parametrize("end", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_an_end_that_utc_has_in_no_year_is_refused(store: InMemory, end: str) -> None:
    async with asking(store) as client:
        put = await client.put("/v1/namespaces/team:a", json={"kind": "team", "expires_at": end})
        assert (put.status_code, put.json()["code"]) == (400, "bad_request")
        await client.put("/v1/namespaces/team:a", json={"kind": "team"})
        assert (
            await client.post("/v1/namespaces/team:a/memories", json=MEMORY | {"expires_at": end})
        ).status_code == 400


async def test_what_is_wrong_is_named_and_not_repeated(store: InMemory) -> None:
    async with asking(store) as client:
        await client.put("/v1/namespaces/team:a", json={"kind": "team"})
        answer = await client.post("/v1/namespaces/team:a/memories", json=MEMORY | {"kind": "hush", "source": 7})
    assert answer.status_code == 400
    assert {"kind", "source"} <= {word.rstrip(":") for word in answer.json()["message"].split()}
    assert "hush" not in answer.text
