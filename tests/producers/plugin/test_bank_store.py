"""The plugin over our own store: the contract kit, and what the issue promises beyond it."""

import base64
import io
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio

from producers.cutover.transfer import Import, export_memories
from producers.perimeter.client import PluginAddress, PluginClient
from producers.perimeter.trees import FileTree
from producers.settings import ApiSettings, PluginSettings, SearchMode
from store.erasure import Erasures
from store.identity import host_id
from store.ledger.ledger import Ledger
from store.memory.turns import TurnStore
from store.replay import run as replay
from store.replay.shadow import ReplayScope
from store.tenancy.quotas import QuotaLimits, Quotas
from tests.patience import PATIENCE_S, until
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.producers.contract_kit.judging import judge, list_cases
from tests.producers.plugin.kept import fresh, parts_of, serving
from tests.servers import TestPostgres, TestValkey
from tests.workers.conftest import World as Workers
from tests.workers.conftest import now
from tests.workers.stages import Crew

MEMORY = {"content": "x", "kind": "fact", "source": "agent"}


@pytest_asyncio.fixture(loop_scope="session")
async def quiet(fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[World]:
    """An API whose stages have nobody else's work."""
    made = build(fresh_database, broker_of(valkey.url, f"plugin-{uuid4().hex}"), settings=ApiSettings())
    yield made
    await made.close()


async def put(plugin: httpx.AsyncClient, name: str, **more: Any) -> None:
    answer = await plugin.put(f"/v1/namespaces/{name}", json={"kind": "workspace", **more})
    assert answer.status_code == 200, answer.text


async def write(plugin: httpx.AsyncClient, name: str, content: str, **more: Any) -> dict[str, Any]:
    answer = await plugin.post(f"/v1/namespaces/{name}/memories", json=MEMORY | {"content": content, **more})
    assert answer.status_code == 201, answer.text
    written: dict[str, Any] = answer.json()
    return written


async def search(plugin: httpx.AsyncClient, *names: str, **more: Any) -> list[dict[str, Any]]:
    answer = await plugin.post("/v1/search", json={"namespaces": list(names), **more})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["memories"]
    return found


@pytest_asyncio.fixture(loop_scope="session")
async def plugin(world: World, ana: Tenant) -> AsyncIterator[httpx.AsyncClient]:
    """The plugin of a tenant of its own."""
    parts = parts_of(world.database, world.notifier, world.clock)
    async with (
        serving(parts, host_id(ana.host)) as url,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client,
    ):
        yield client


async def test_every_case_of_the_kit_that_needs_no_outage_passes(plugin: httpx.AsyncClient) -> None:
    report = await judge(str(plugin.base_url))
    assert not report.failed, [(one.case.id, one.findings) for one in report.failed]
    assert report.counts() == {"passed": len(list_cases()) - 3, "failed": 0, "skipped": 3}


async def test_a_memory_is_one_result_whatever_the_stages_draw_from_it(quiet: World) -> None:
    alone = await quiet.tenant()
    name, said = fresh(), "My name is Alice and I prefer trains."
    parts = parts_of(quiet.database, quiet.notifier, quiet.clock)
    async with (
        serving(parts, host_id(alone.host)) as url,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as plugin,
    ):
        await put(plugin, name)
        await write(plugin, name, said)
        await write(plugin, name, "Alice moved to Ghent.", pin=True)
        workers = Workers(quiet.postgres, quiet.database, Ledger(quiet.database), TurnStore(quiet.database, now))
        await Crew(workers).drain()
        drawn = "select 1 from afterturn.agent_memory_unit_entity_t where removed_at is null"
        assert await quiet.sql(drawn), "the stages drew nothing: the test shows nothing"
        assert [one["content"] for one in await search(plugin, name)] == ["Alice moved to Ghent.", said]
        assert [one["content"] for one in await search(plugin, name, query="prefer trains")] == [said]
        answer = await alone.http.post("/api/v1/recall", json={"bank": name, "query": "Alice"})
        assert said in [one["text"] for one in answer.json()["results"]]


async def test_a_search_by_text_has_a_floor_and_orders_by_pin(plugin: httpx.AsyncClient) -> None:
    first, second = fresh(), fresh("team")
    for name in (first, second):
        await put(plugin, name)
    await write(plugin, first, "The invoice was paid in March", pin=True)
    await write(plugin, second, "Trains to Ghent leave at noon")
    await write(plugin, second, "Trains are cheap", pin=True)
    found = await search(plugin, first, second, query="trains")
    assert [one["content"] for one in found] == ["Trains are cheap", "Trains to Ghent leave at noon"]
    assert all(0 < one["score"] <= 1 for one in found)
    assert await search(plugin, first, second, query="zebra quagga okapi") == []


async def test_a_vector_of_another_dimension_leaves_the_text_or_names_the_dimensions(plugin: httpx.AsyncClient) -> None:
    name = fresh()
    await put(plugin, name)
    await write(plugin, name, "near", embedding=[1.0, 0.0, 1e300])
    await write(plugin, name, "far", embedding=[1.0, 0.0, -1e300])
    [near, far] = await search(plugin, name, embedding=[0, 0, 2])
    assert (near["content"], round(near["score"], 5)) == ("near", 1.0)
    assert (far["content"], round(far["score"], 5)) == ("far", -1.0)
    assert [one["content"] for one in await search(plugin, name, embedding=[1.0, 2.0], query="far")] == ["far"]
    answer = await plugin.post("/v1/search", json={"namespaces": [name], "embedding": [1.0, 2.0]})
    assert answer.status_code == 400
    assert "vectors of 3" in answer.json()["message"]
    await write(plugin, name, "near", id=near["id"])
    assert [one["content"] for one in await search(plugin, name, embedding=[0, 0, 2])] == ["far"]


async def test_what_is_forgotten_is_erased_with_a_receipt_and_a_native_memory_of_the_bank_stays(
    plugin: httpx.AsyncClient, ana: Tenant, world: World
) -> None:
    name = fresh()
    await put(plugin, name, metadata={"owner": "zq-meta"})
    written = await write(plugin, name, "zq9 the vault code", embedding=[1.0, 2.0])
    own = await ana.http.post("/api/v1/memories", json={"bank": name, "id": "own", "content": "zq8 native"})
    assert own.status_code in (200, 201), own.text
    assert [one["content"] for one in await search(plugin, name)] == ["zq9 the vault code"]
    forget = {"requested_by_namespace": name}
    gone = await plugin.request("DELETE", f"/v1/memories/{written['id']}", json=forget)
    assert (gone.status_code, gone.content) == (204, b"")
    assert await search(plugin, name) == []
    receipt = f"/api/v1/erasures/{gone.headers['afterturn-erasures']}"

    async def erased() -> bool:
        return bool((await ana.http.get(receipt)).json()["status"] == "done")

    await until(erased, "the text is erased")
    assert (await ana.http.get(receipt)).json()["counts"]["memories"] == 1
    assert not await world.sql(
        "select 1 from afterturn.plugin_vector_t where dimension = 2 and norm between 2.2 and 2.3"
    )
    await write(plugin, name, "zq7 again", id=written["id"])
    assert (await plugin.delete(f"/v1/namespaces/{name}")).status_code == 204
    assert await search(plugin, name) == []
    left = await ana.http.post("/api/v1/recall", json={"bank": name, "query": "zq8 zq7"})
    assert [one["text"] for one in left.json()["results"]] == ["zq8 native"]
    await put(plugin, name)
    assert await search(plugin, name) == []
    assert (await plugin.put(f"/v1/namespaces/{name}", json={"kind": "team"})).json().get("metadata") is None


async def test_what_was_forgotten_is_erased_after_the_time_that_is_set(ana: Tenant, world: World) -> None:
    name, host = fresh(), host_id(ana.host)
    parts = parts_of(world.database, world.notifier, world.clock, PluginSettings(erase_after=3600))
    async with serving(parts, host) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as plugin:
        await put(plugin, name)
        written = await write(plugin, name, "zq6 is kept for an hour")
        forget = {"requested_by_namespace": name}
        gone = await plugin.request("DELETE", f"/v1/memories/{written['id']}", json=forget)
        assert await search(plugin, name) == []
    erasure = UUID(gone.headers["afterturn-erasures"])
    there = "select 1 from afterturn.agent_memory_unit_t where content = 'zq6 is kept for an hour'"
    assert await world.sql(there)
    later = Erasures(world.database, lambda: world.clock() + timedelta(hours=1, seconds=1))
    assert (host, erasure) not in await Erasures(world.database, world.clock).list_stalled()
    assert (host, erasure) in await later.list_stalled()
    assert (await later.run(host, erasure)).done
    assert not await world.sql(there)


async def test_by_its_setting_a_search_has_the_references_order(ana: Tenant, world: World) -> None:
    name, host = fresh(), host_id(ana.host)
    settings = PluginSettings(search_mode=SearchMode.REFERENCE)
    far, near = "Go by train, as everybody does who goes to Ghent in winter", "Go by train"
    for chosen, first in ((PluginSettings(), far), (settings, near)):
        parts = parts_of(world.database, world.notifier, world.clock, chosen)
        async with serving(parts, host) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as plugin:
            await put(plugin, name)
            await write(plugin, name, far, id=str(UUID(int=1)), pin=True, embedding=[0, 1])
            await write(plugin, name, near, id=str(UUID(int=2)), embedding=[1, 0])
            for asked in ({"query": "train"}, {"query": "Go"}, {"embedding": [1, 0]}):
                found = await search(plugin, name, **asked)
                assert (found[0]["content"], len(found)) == (first, 2), (chosen.search_mode, asked)
                assert all("score" in one for one in found)
            for asked in ({}, {"query": "G"}):
                listed = await search(plugin, name, **asked)
                assert [one["content"] for one in listed] == [far, near]
                assert not any("score" in one for one in listed)


async def test_a_used_up_quota_is_403_and_says_which(plugin: httpx.AsyncClient, ana: Tenant, world: World) -> None:
    name = fresh()
    await put(plugin, name)
    await Quotas(world.database, world.clock).set(ana.host, None, QuotaLimits(max_bytes=500))
    refused = await plugin.post(f"/v1/namespaces/{name}/memories", json=MEMORY | {"content": "x" * 600})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert refused.json()["details"]["limit"] == "max_bytes"


async def test_a_listing_has_pages_that_neither_repeat_nor_leave_out(plugin: httpx.AsyncClient) -> None:
    name = fresh()
    await put(plugin, name)
    at = "2026-03-01T10:00:00Z"
    written = {(await write(plugin, name, f"n {n}", pin=n % 3 == 0, created_at=at))["id"] for n in range(11)}
    seen: list[dict[str, Any]] = []
    body: dict[str, Any] = {"namespaces": [name], "limit": 4}
    while True:
        page = (await plugin.post("/v1/search", json=body)).json()
        seen += page["memories"]
        if "next_cursor" not in page:
            break
        body["cursor"] = page["next_cursor"]
    assert len(seen) == 11
    assert {one["id"] for one in seen} == written
    assert [one.get("pin", False) for one in seen] == [True] * 4 + [False] * 7
    for cursor in ("x", *(base64.b64encode(place.encode()).decode() for place in (f"0 {at}", f"0 {at} a b c"))):
        wrong = await plugin.post("/v1/search", json={"namespaces": [name], "cursor": cursor})
        assert wrong.status_code == 400


async def test_a_listing_has_each_memory_of_the_same_id_and_time_in_several_namespaces(
    plugin: httpx.AsyncClient,
) -> None:
    names, at = [fresh() for _ in range(3)], "2026-03-01T10:00:00Z"
    ids = [str(UUID(int=n)) for n in range(1, 5)]
    for name in names:
        await put(plugin, name)
        for n, memory_id in enumerate(ids):
            await write(plugin, name, name, id=memory_id, created_at=at, pin=n == 0)
    seen = list[tuple[str, str]]()
    body: dict[str, Any] = {"namespaces": names, "limit": 2}
    while True:
        page = (await plugin.post("/v1/search", json=body)).json()
        seen += [(one["id"], one["namespace"]) for one in page["memories"]]
        if "next_cursor" not in page:
            break
        body["cursor"] = page["next_cursor"]
    assert len(seen) == len(set(seen)) == 12
    assert {one for one, _ in seen[:3]} == {ids[0]}


@pytest.mark.parametrize("query", [None, "lemon", "l"])
async def test_an_answer_ends_where_its_memories_are_large_and_a_listing_goes_on(
    plugin: httpx.AsyncClient, query: str | None
) -> None:
    name, large = fresh(), "lemon " * 200_000
    await put(plugin, name)
    for n in range(6):
        await write(plugin, name, f"{large}{n}", embedding=[1.0, float(n)], pin=n == 5)
    body: dict[str, Any] = {"namespaces": [name], "query": query}
    first = (await plugin.post("/v1/search", json=body)).json()
    assert len(first["memories"]) == 4
    assert first["memories"][0]["pin"], "the pinned one is first"
    near = await search(plugin, name, embedding=[1.0, 0.0], query=query)
    assert [one["content"][-1] for one in near] == ["5", "0", "1", "2"]
    if query is not None:
        assert "next_cursor" not in first
        return
    rest = (await plugin.post("/v1/search", json=body | {"cursor": first["next_cursor"]})).json()
    assert {one["content"][-1] for page in (first, rest) for one in page["memories"]} == set("012345")
    assert "next_cursor" not in rest


async def test_an_export_has_everything_and_an_import_makes_it_again(
    plugin: httpx.AsyncClient, world: World, tmp_path: Path
) -> None:
    root, own = f"root{uuid4().hex}", f"self{uuid4().hex}"
    tree = tmp_path / "tree.json"
    tree.write_text(json.dumps({"workspaces": [{"id": root}, {"id": own, "parent": root}]}))
    name, end = f"workspace:{own}", "2099-01-02T03:04:05Z"
    await put(plugin, name, metadata={"n": 2**63 + 1, "deep": [None]}, expires_at=end)
    await put(plugin, f"team:{root}", metadata={"empty": True})
    whole = {"pin": True, "propagation": {"a": [1, None]}, "expires_at": end, "created_at": "2025-06-01T00:00:00Z"}
    for n, vector in enumerate([[3.0, 4.0], [-1e300, 2e299], [1e-9] * 4096, None] * 10):
        await write(plugin, name, f"memory {n}", embedding=vector, **(whole if n == 0 else {"kind": "summary"}))
    out, other = io.BytesIO(), await world.tenant()
    async with PluginClient(PluginAddress(str(plugin.base_url), PATIENCE_S)) as client:
        assert await export_memories(client, FileTree(tree), out) == (40, 0)
    lines = out.getvalue().splitlines(keepends=True)
    parts = parts_of(world.database, world.notifier, world.clock)
    async with (
        serving(parts, host_id(other.host)) as url,
        PluginClient(PluginAddress(url, PATIENCE_S)) as client,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as there,
    ):
        for _again in range(2):
            counts = (await Import(client).run(lines)).as_json()
            assert counts == {"imported": 40, "skipped": 0, "errors": 0, "total": 40}
        for more, count in (
            ({}, 40), ({"embedding": [4, 3]}, 20), ({"embedding": [1, 0.1]}, 20), ({"embedding": [1] * 4096}, 10)
        ):  # fmt: skip
            told, found = [await search(one, name, limit=100, **more) for one in (plugin, there)]
            assert len(found) == count
            scores = [[one.pop("score", 0.0) for one in some] for some in (told, found)]
            assert sorted(found, key=itemgetter("id")) == sorted(told, key=itemgetter("id"))
            assert scores[0] == pytest.approx(scores[1], abs=1e-6)
        await replay.repair_scope(world.postgres.owner_url, ReplayScope(host_id(other.host)))
        assert len(await search(there, name, limit=100, embedding=[4, 3])) == 20
        again = (await there.put(f"/v1/namespaces/{name}", json={"kind": "workspace"})).json()
        assert (again["metadata"], again["expires_at"]) == ({"n": 2**63 + 1, "deep": [None]}, end)
        assert (await there.patch(f"/v1/namespaces/team:{root}", json={"expires_at": end})).json()["metadata"]
    wrong = await plugin.post("/v1/search", json={"namespaces": [name], "export": True, "query": "memory"})
    assert wrong.status_code == 400
    assert all("embedding" not in one for one in await search(plugin, name, limit=100))


async def test_after_a_replay_the_plugin_shows_the_same(
    plugin: httpx.AsyncClient, ana: Tenant, postgres: TestPostgres
) -> None:
    name = fresh()
    await put(plugin, name, metadata={"n": 2**63 + 1})
    await write(plugin, name, "kept", propagation={"deep": [1, {"n": 2**70}]}, embedding=[0.1, 0.2])
    before = await search(plugin, name), await search(plugin, name, embedding=[0.1, 0.2])
    assert list(map(len, before)) == [1, 1]
    await replay.repair_scope(postgres.owner_url, ReplayScope(host_id(ana.host)))
    assert (await search(plugin, name), await search(plugin, name, embedding=[0.1, 0.2])) == before
    assert before[0][0]["propagation"] == {"deep": [1, {"n": 2**70}]}
    again = await plugin.put(f"/v1/namespaces/{name}", json={"kind": "team"})
    assert again.json()["metadata"] == {"n": 2**63 + 1}
