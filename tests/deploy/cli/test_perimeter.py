"""`afterturn plugin perimeter` as a process: it tells where it listens, serves by key, and ends politely."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from typer.testing import CliRunner

from deploy.cli import perimeter
from deploy.cli.app import build_cli
from deploy.local.ports import find_free_port
from producers.contract_kit import flat_plugin as flat
from producers.contract_kit.flat_plugin import FlatStore
from producers.perimeter.client import PluginAddress
from tests.embeddings.models import KEY as EMBEDDING_KEY
from tests.embeddings.models import MODEL, embedding_service
from tests.patience import PATIENCE_S
from tests.processes import spawned
from tests.producers.contract_kit.judging import served
from tests.producers.contract_kit.reference import ReferenceHandler
from tests.producers.perimeter.plugins import answering, logged, recorded, scripted
from tests.producers.perimeter.test_embedder import MeaningStore

KEY = "uk-0123456789abcdef"


def files(folder: Path, *, keys: tuple[str, ...] = (KEY,)) -> list[str]:
    listed = [{"sha256": hashlib.sha256(key.encode()).hexdigest(), "workspace": "self"} for key in keys]
    (folder / "keys.json").write_text(json.dumps({"keys": listed}))
    (folder / "tree.yaml").write_text("workspaces: [{id: root, name: Acme}, {id: self, parent: root}]")
    named = {"keys": "keys.json", "workspaces": "tree.yaml", "audit": "audit.jsonl"}
    return [argument for name, file in named.items() for argument in (f"--{name}", str(folder / file))]


@contextmanager
def serving(folder: Path, plugin_url: str, *more: str, **named: str) -> Iterator[tuple["subprocess.Popen[Any]", str]]:
    """Run the perimeter before a plugin; lend its process and its URL. Its log is `folder`/log."""
    listen = f"127.0.0.1:{find_free_port()}"
    argv = [sys.executable, "-P", "-m", "deploy.cli", "plugin", "perimeter", "--listen", listen, *more]
    environment = os.environ | {"MEMORY_PLUGIN_URL": plugin_url, "DATABASE_URL": ""} | named
    with (
        (folder / "log").open("w") as log,
        spawned([*argv, *files(folder)], env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["perimeter"]


@contextmanager
def flat_plugin(folder: Path) -> Iterator[str]:
    """Run the flat plugin as its guide does, by the standard library alone; lend its URL."""
    argv = [sys.executable, "-P", "-S", flat.__file__, "--listen", "127.0.0.1:0"]
    with spawned(argv, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]


async def test_every_tool_and_page_works_on_the_flat_plugin_over_processes(tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    with flat_plugin(tmp_path) as plugin_url, serving(tmp_path, plugin_url, "--mcp") as (_, url):
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as agent,
            httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE_S) as page,
        ):
            called = set()

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                called.add(tool)
                result = await agent.call_tool(tool, arguments)
                assert not result.is_error, result.content
                return result.structured_content or {}

            listed = {tool.name: set(tool.input_schema["properties"]) for tool in (await agent.list_tools()).tools}
            assert not listed["commit_memory"] & {"pin", "expires_at"}
            assert "expires_at" not in listed["commit_summary"]
            assert "query" not in listed["search_memory"]
            kept = await call("commit_memory", content="I prefer trains", pin=True)
            assert (kept["namespace"], kept["ignored"]) == ("workspace:self", ["pin"])
            summary = await call("commit_summary", content="They talked of trains", namespace="team:root")
            assert (summary["namespace"], summary["ignored"]) == ("team:root", ["expires_at"])
            found = await call("search_memory", query="no word of either")
            assert {one["id"] for one in found["memories"]} == {kept["id"], summary["id"]}
            assert found["ignored"] == ["query"]
            readable = (await call("list_readable_namespaces"))["namespaces"]
            assert [one["name"] for one in readable] == ["workspace:self", "team:root", "org:root"]
            writable = (await call("list_writable_namespaces"))["namespaces"]
            assert [one["name"] for one in writable] == ["workspace:self", "team:root"]
            names = (await page.get("/workspaces/self/v2/namespaces")).raise_for_status().json()
            assert {way: [one["name"] for one in names[way]] for way in names} == {
                "readable": ["workspace:self", "team:root", "org:root"],
                "writable": ["workspace:self", "team:root"],
            }
            asked = {"query": "no word of either", "kind": "summary", "limit": "1"}
            shown = (await page.get("/workspaces/self/v2/memories", params=asked)).raise_for_status().json()
            assert [one["id"] for one in shown["memories"]] == [summary["id"]]
            assert shown["ignored"] == ["query"]
            assert await call("forget_memory", memory_id=kept["id"]) == {"forgotten": True}
            left = (await page.get("/workspaces/self/v2/memories")).json()["memories"]
            assert [one["id"] for one in left] == [summary["id"]]
    assert called == set(listed)


async def test_a_plugin_of_vectors_alone_is_searched_by_the_model_of_the_settings(tmp_path: Path) -> None:
    with (
        embedding_service() as service,
        recorded(MeaningStore(tmp_path / "away"), ReferenceHandler) as (plugin_url, sent),
        serving(
            tmp_path, plugin_url, "--mcp", "--recall-memory", "--embedder",
            AFTERTURN_EMBEDDING__PROVIDER="remote", AFTERTURN_EMBEDDING__REMOTE__BASE_URL=service.url,
            AFTERTURN_EMBEDDING__REMOTE__MODEL=MODEL, AFTERTURN_EMBEDDING__REMOTE__API_KEY=EMBEDDING_KEY,
        ) as (_, url),
    ):  # fmt: skip
        assert service.asked == []
        headers = {"authorization": f"Bearer {KEY}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as agent,
            httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE_S) as page,
        ):
            for content in ("I prefer trains", "an allergy to nuts"):
                assert not (await agent.call_tool("commit_memory", {"content": content})).is_error
            recalled = await agent.call_tool("recall_memory", {"query": "an allergy to nuts"})
            asked = {"query": "I prefer trains", "limit": "1"}
            shown = (await page.get("/workspaces/self/v2/memories", params=asked)).raise_for_status().json()
        assert recalled.structured_content is not None
        assert recalled.structured_content["memories"][0]["content"] == "an allergy to nuts"
        assert [one["content"] for one in shown["memories"]] == ["I prefer trains"]
    assert "ignored" not in shown
    assert service.complaints == []
    texts = [text for batch in service.asked for text in batch if text.strip()]
    assert texts == ["I prefer trains", "an allergy to nuts", "an allergy to nuts", "I prefer trains"]
    assert all(body.keys() == {"namespaces", "embedding", "limit"} for body in sent.bodies("POST", "/v1/search"))


def test_it_serves_each_workspace_by_its_key_until_it_is_told_to_stop(tmp_path: Path) -> None:
    store = FlatStore()
    for name, content in (("workspace:self", "mine"), ("workspace:root", "not mine"), ("org:root", "everyone's")):
        store.upsert_namespace(name, {"kind": name.partition(":")[0]})
        store.write(name, {"content": content, "kind": "fact", "source": "agent"})
    with served(store=store) as plugin_url, serving(tmp_path, plugin_url) as (process, url):
        headers = {"authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE_S) as client:
            names = client.get("/workspaces/self/v2/namespaces").json()
            assert [one["name"] for one in names["writable"]] == ["workspace:self", "team:root"]
            found = client.get("/workspaces/self/v2/memories").json()["memories"]
            assert {one["namespace"]: one["content"].rpartition("]: ")[2] for one in found} == {
                "workspace:self": "mine",
                "org:root": "everyone's",
            }
            assert client.get("/workspaces/root/v2/memories").status_code == 404
            (mine,) = (one["id"] for one in found if one["namespace"] == "workspace:self")
            assert client.delete(f"/workspaces/self/v2/memories/{mine}").json() == {"forgotten": True}
            files(tmp_path, keys=())
            assert client.get("/workspaces/self/v2/namespaces").status_code == 401
        process.send_signal(signal.SIGTERM)
        status = process.wait(PATIENCE_S)
        assert status == 0, (tmp_path / "log").read_text()
    assert not any(secret in (tmp_path / "log").read_text() for secret in (KEY, "mine", "everyone"))


@pytest.mark.parametrize(
    "listen, said", [("9101", "an address and a port"), ("host:1", "an address"), ("127.0.0.1:70000", "an address")]
)
def test_an_address_that_is_none_ends_with_status_2(tmp_path: Path, listen: str, said: str) -> None:
    result = run(["--listen", listen, *files(tmp_path)])
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_a_tree_that_is_none_or_a_plugin_url_that_names_none_ends_with_status_2(tmp_path: Path) -> None:
    arguments = ["--listen", f"127.0.0.1:{find_free_port()}", *files(tmp_path)]
    assert run(arguments, MEMORY_PLUGIN_URL="ftp://x").exit_code == 2
    (tmp_path / "tree.yaml").write_text("table: {}")
    assert "DATABASE_URL is required" in run(arguments).stderr
    (tmp_path / "tree.yaml").write_text("[]")
    assert "`workspaces` or `table`" in run(arguments).stderr


def test_the_older_tool_without_mcp_and_a_model_that_is_none_end_with_status_2(tmp_path: Path) -> None:
    arguments = ["--listen", f"127.0.0.1:{find_free_port()}", *files(tmp_path)]
    result = run([*arguments, "--recall-memory"])
    assert (result.exit_code, "--mcp" in result.stderr) == (2, True)
    result = run([*arguments, "--embedder"], AFTERTURN_EMBEDDING__MODEL=str(tmp_path))
    assert (result.exit_code, "embedding.model" in result.stderr) == (2, True)


async def test_a_plugin_that_is_away_at_the_start_is_logged_and_asked_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(perimeter, "BOOT_S", 0.05)
    unanswered = asyncio.Event()

    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await unanswered.wait()
        writer.close()

    async with AsyncExitStack() as stack:
        silent = await asyncio.start_server(hold, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        with logged() as logs, scripted(answering(503)) as (failing, _):
            assert await perimeter._open_plugin(stack, None) is None
            for url in (f"http://127.0.0.1:{find_free_port()}", f"http://127.0.0.1:{port}", failing):
                assert await perimeter._open_plugin(stack, PluginAddress(url, PATIENCE_S)) is not None
        unanswered.set()
        silent.close()
    told = [(line["event"], line.get("error")) for line in logs]
    assert told == [
        ("no_memory_plugin", None),
        ("memory_plugin_unavailable", "PluginUnavailable"),
        ("memory_plugin_unavailable", "TimeoutError"),
        ("memory_plugin_unavailable", "PluginUnavailable"),
    ]


def run(arguments: list[str], **named: str) -> Any:
    environment = {"MEMORY_PLUGIN_URL": "", "DATABASE_URL": ""} | named
    return CliRunner().invoke(build_cli("plugin"), ["plugin", "perimeter", *arguments], env=environment)
