"""The memory tools over MCP, called by the official SDK's clients of both eras, and badly by hand."""

import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest
from afterturn_client.reference import is_frame
from mcp import types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from producers.mcp.server import describe_tool
from producers.mcp.settings import McpSettings, MemoryToolSettings, ToolName, ToolSettings, TurnMemorySettings
from producers.mcp.tools import NOTHING, TOOLS
from producers.service import session_calls
from producers.service.recall_service import RecallService
from producers.settings import ApiSettings
from producers.turns.directories import DIRECTORIES
from store import identity
from tests.patience import until
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.servers import TestValkey
from tests.serving import serve
from tests.tables import each_row

MARK = "zq93quartz"
REFUSED = r'"\$ref"|"\$defs"|"format": "uuid"'
ERAS = ("legacy", "auto", "2026-07-28")
#: What is served where no setting says otherwise.
SERVED = [name for name, tool in TOOLS.items() if tool.on]
ACCEPT = {"accept": "application/json"}


@asynccontextmanager
async def client_of(world: World, tenant: Tenant, mode: str = "auto", path: str = "/mcp") -> AsyncIterator[Client]:
    """A client of the SDK, through every layer but the socket."""
    headers = {"authorization": f"Bearer {tenant.token}"}
    async with (
        httpx2.AsyncClient(transport=httpx2.ASGITransport(world.app), headers=headers) as http,
        Client(streamable_http_client(f"http://127.0.0.1:8300{path}", http_client=http), mode=mode) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return what a tool answers, which the client holds to the tool's schema."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content or {}
    if tool == "memory_search":  # for a model: framed
        framed = [part.text for part in result.content if isinstance(part, types.TextContent)]
        assert framed[0] == (found["reference"]["content"] if found["results"] else NOTHING)
        assert is_frame(framed[0]) == bool(found["results"])
    else:
        assert json.loads(text_of(result)) == found
    return found


async def refusal(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    told: dict[str, Any] = json.loads(text_of(result))
    assert set(told) == {"code", "message", "retryable"}
    return told


def text_of(result: Any) -> str:
    [part] = result.content
    assert isinstance(part, types.TextContent)
    return part.text


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_clients_of_both_eras_keep_a_turn_and_prepare_the_next(
    world: World, ana: Tenant, mode: str, path: str
) -> None:
    async with client_of(world, ana, mode, path) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == SERVED
        kept = await call(
            client,
            "memory_after_turn",
            session_id="s",
            turn_id="1",
            input_items=[said("We fly to Lisbon on Friday")],
            output_items=[said("Noted", "assistant")],
        )
        assert kept == {"ok": True, "project": "default"}
        shown = await call(client, "memory_before_turn", session_id="s", turn_id="2", current_input="When do we fly?")
        assert shown["input_items"][-1] == said("When do we fly?")
        assert "Lisbon" in str(shown["input_items"])
        assert set(shown) == {
            *("project", "input_items", "recall_fact_ids", "recall_insight_ids", "context_token_count"),
        }


async def test_a_memory_is_remembered_found_from_another_session_and_forgotten(world: World, ana: Tenant) -> None:
    async with client_of(world, ana) as client:
        first = await call(client, "memory_remember", text="The boiler is serviced in May", title="House")
        again = await call(client, "memory_remember", text="The boiler is serviced in May", title="House")
        assert (again["id"], again["duplicate"], first["duplicate"]) == (first["id"], True, False)
        found = await call(client, "memory_search", query="boiler", k=3)
        assert "boiler" in found["results"][0]["text"]
        assert found["reference"]["role"] == "user"
        shown = await call(client, "memory_before_turn", session_id="new", current_input_text="the boiler?")
        assert "serviced in May" in str(shown["input_items"])
        assert await call(client, "memory_forget", id=first["id"]) == {"ok": True, "project": "default"}
        assert (await call(client, "memory_search", query="boiler"))["results"] == []
        long = await call(client, "memory_remember", text="The attic is dry. " * 100)
        assert await call(client, "memory_forget", id=long["id"]) == {"ok": True, "project": "default"}
        for gone in (first["id"], long["id"], "nothing of the kind"):
            told = await refusal(client, "memory_forget", id=gone)
            assert (told["code"], told["retryable"]) == ("INVALID_ARGUMENT", False)


async def test_one_unit_that_was_found_is_forgotten_by_its_id(world: World, ana: Tenant) -> None:
    async with client_of(world, ana) as client:
        await call(client, "memory_after_turn", turn_id="1", input_items=[said("The key is under the mat")])
        [found] = (await call(client, "memory_search", query="key"))["results"]
        await call(client, "memory_forget", id=found["unit_id"])
        assert (await call(client, "memory_search", query="key"))["results"] == []


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_clients_that_start_a_program_reach_the_same_memory(
    world: World, ana: Tenant, mode: str, tmp_path: Path
) -> None:
    (tmp_path / "garden" / ".git").mkdir(parents=True)
    async with serve(world.app) as url:
        started = StdioServerParameters(
            command=sys.executable,
            args=["-m", "afterturn_client.command", "mcp", "--url", url],
            env={**os.environ, "AFTERTURN_API_KEY": ana.token, "XDG_STATE_HOME": str(tmp_path)},
            cwd=tmp_path / "garden",
        )
        async with Client(started, mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == SERVED
            kept = await call(client, "memory_after_turn", turn_id="1", input_items=[said("The roses need water")])
            assert kept == {"ok": True, "project": "garden"}
            for _ in range(3):
                told = await refusal(client, "memory_after_turn", turn_id="2", input_items=[said("x" * 3 * 2**20)])
                assert (told["code"], told["retryable"]) == ("INVALID_ARGUMENT", False)
            assert (await call(client, "memory_search", query="roses"))["results"]
    async with client_of(world, ana) as client:
        assert (await call(client, "memory_search", query="roses"))["results"] == []
        assert (await call(client, "memory_search", query="roses", project="garden"))["results"]


async def test_maintenance_says_what_is_left_and_what_was_done(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"session_id": "s", "project": "house"}
    ended = "update afterturn.ledger_t set status = 'done' where host_id = :h and stage = any(:s)"
    none = {"ended": 0, "summarised": 0, "digested": 0, "consolidated": 0}
    async with client_of(world, ana) as client:
        idle = await call(client, "memory_run_maintenance", **place)
        assert idle == {"ok": True, "project": "house", "done": True, "left": 0, "counts": none}
        await call(client, "memory_after_turn", turn_id="1", input_items=[said("The boiler is old")], **place)
        # There is no worker here: stages end by hand while calls wait.
        for stages, done, left, counts in (
            (["extraction"], False, 2, {"extraction": 1, "embedding": 0, "projection": 0}),
            (["embedding", "projection"], True, 0, {"embedding": 1, "projection": 1}),
        ):
            monkeypatch.setattr(session_calls, "WAIT_S", 60.0)
            looks: list[float] = []
            monkeypatch.setattr(
                session_calls, "compute_poll_delay", lambda waited, seen=looks: seen.append(waited) or 0.01
            )
            started = asyncio.create_task(call(client, "memory_run_maintenance", **place))
            await until(lambda seen=looks: bool(seen), "the call looks for the first time")  # type: ignore[misc]
            await world.sql(ended, h=identity.host_id(ana.host), s=stages)
            enough = len(looks) + 2  # the look that was under way may have been too early
            await until(lambda n=enough, seen=looks, task=started: task.done() or len(seen) >= n, "it looks again")  # type: ignore[misc]
            monkeypatch.setattr(session_calls, "WAIT_S", 0.0)
            told = await started
            once = {**none, "digested": int(not done)}
            assert (told["ok"], told["done"], told["left"], told["counts"]) == (True, done, left, counts | once)
    reader = await world.tenant(ana.host, write=False)
    async with client_of(world, reader) as client:
        assert (await refusal(client, "memory_run_maintenance"))["code"] == "PERMISSION_DENIED"
    await reader.http.aclose()


async def test_trap_12_and_14_a_session_is_listed_as_the_contracts_directories_and_nothing_is_made(
    world: World, ana: Tenant
) -> None:
    """Traps 12 and 14: snake_case, confined to the session, no write."""
    async with client_of(world, ana) as client:
        empty = await call(client, "memory_list_dir_with_abstract", session_id="s")
        assert empty == {"project": "default", "summaries": [], "has_more": False}
        await call(client, "memory_after_turn", session_id="s", turn_id="1", input_items=[said("The boiler is old")])
        events = await count_events(world, ana)
        whole = (await call(client, "memory_list_dir_with_abstract", session_id="s"))["summaries"]
        assert [one["path"] for one in whole] == [f"/memory/s{'/' * bool(name)}{name}" for name in sorted(DIRECTORIES)]
        assert len(whole) == 14
        for one in whole:
            assert set(one) == {"path", "abstract", "updated_at", "has_overview", "overview"}
            assert 100 <= len(one["abstract"].split()) <= 200, one
            assert one["has_overview"]
            assert bool(one["overview"]) == (one["path"] == "/memory/s")
            assert one["updated_at"].endswith("Z")
        assert "Stated: The boiler is old (turn 1)" in whole[0]["abstract"]
        for path, depth, limit, names in (
            ("", 1, 200, ["", "events", "indexes", "insights", "memory_tiers", "meta", "runtime"]),
            ("events", 0, 2, ["events", "events/archive"]),
            ("/memory/s/memory_tiers/", 8, 200, [f"memory_tiers{tier}" for tier in ("", "/L0", "/L1", "/L2")]),
            ("nowhere", 8, 200, []),
        ):
            wanted = {"path": path, "depth": depth, "limit": limit}
            told = await call(client, "memory_list_dir_with_abstract", session_id="s", **wanted)
            assert [one["path"].removeprefix("/memory/s").removeprefix("/") for one in told["summaries"]] == names
            assert told["has_more"] is (limit == 2)
        assert await count_events(world, ana) == events
        item = said("My name is Ann. I like jazz. Today I need milk.")
        await call(client, "memory_after_turn", session_id="s", turn_id="2", input_items=[item])
        whole = (await call(client, "memory_list_dir_with_abstract", session_id="s"))["summaries"]
        abstracts = {one["path"].rpartition("/")[2]: one["abstract"] for one in whole}
        held = {"L0": "name is Ann", "L1": "milk", "L2": "jazz", "indexes": "name is Ann", "memory_tiers": "jazz"}
        assert [name for name, says in held.items() if says not in abstracts[name]] == []
        assert "jazz" not in abstracts["L0"]


async def count_events(world: World, tenant: Tenant) -> int:
    [[found]] = await world.sql(
        "select count(*) from afterturn.event_store_t where host_id = :h", h=identity.host_id(tenant.host)
    )
    return int(found)


async def test_what_a_prepared_turn_tells_and_which_tools_there_are_is_set(world: World, valkey: TestValkey) -> None:
    """The isolation gate of the contract: with the scope `session` nothing of another session is told."""
    ana, ben = await world.tenant(), await world.tenant()
    [[key]] = await world.sql("select key_id from afterturn.api_key_t where host_id = :h", h=identity.host_id(ben.host))
    tools = ToolSettings(
        each={"memory_remember": False},
        tenants={ben.host: {"memory_remember": True, "memory_search": False}},
        keys={key: {"memory_search": True, "memory_forget": False}},
    )
    memory = TurnMemorySettings(scope="session", recent_context_items=1, search_limit=1)
    made = build(
        world.postgres,
        broker_of(valkey.url, "set-mcp"),
        settings=ApiSettings(mcp=McpSettings(tools=tools, memory=memory)),
    )
    try:
        async with client_of(made, ana) as client:
            assert "memory_remember" not in {tool.name for tool in (await client.list_tools()).tools}
            assert (await refusal(client, "memory_remember", text="x"))["code"] == "INVALID_ARGUMENT"
            for n, session in enumerate(("one", "two", "two")):
                items = [said(f"the boiler of house {session} {n}")]
                await call(client, "memory_after_turn", session_id=session, turn_id=str(n), input_items=items)
            asked = {"session_id": "two", "current_input": "which boiler?"}
            shown = await call(client, "memory_before_turn", **asked)
            assert "house one" not in str(shown)
            # The newest item as history, the older one told beside it.
            assert ("house two 1" in str(shown), shown["input_items"][-2]) == (True, said("the boiler of house two 2"))
            wide = await call(client, "memory_before_turn", **asked, scope="project")
            assert "house" in str(wide["input_items"][:2])
        async with client_of(made, ben) as client:
            there = {tool.name for tool in (await client.list_tools()).tools}
            assert {"memory_remember", "memory_search"} <= there
            assert "memory_forget" not in there
    finally:
        await ana.http.aclose()
        await ben.http.aclose()
        await made.close()


@pytest.mark.law("L2")
async def test_eight_clients_keep_the_same_turn_once_and_another_request_is_a_conflict(
    world: World, ana: Tenant
) -> None:
    async def keep(mode: str) -> dict[str, Any]:
        async with client_of(world, ana, mode) as client:
            return await call(client, "memory_after_turn", session_id="s", turn_id="1", input_items=[said("hello")])

    answers = await asyncio.gather(*(keep(ERAS[n % 2]) for n in range(8)))
    assert answers == [{"ok": True, "project": "default"}] * 8
    [[turns]] = await world.sql(
        "select count(*) from afterturn.turn_t where host_id = :h", h=identity.host_id(ana.host)
    )
    assert turns == 1
    async with client_of(world, ana) as client:
        told = await refusal(client, "memory_after_turn", session_id="s", turn_id="1", input_items=[said("other")])
        assert (told["code"], told["retryable"]) == ("TURN_CONFLICT", False)


@each_row(
    "tool, arguments",
    [
        ("memory_before_turn", {}),
        ("memory_before_turn", {"current_input": "x", "unknown": 1}),
        ("memory_before_turn", {"current_input": "x", "session_id": ".."}),
        ("memory_before_turn", {"current_input": "x", "project": " "}),
        ("memory_before_turn", {"current_input": 7}),
        ("memory_before_turn", {"current_input": "x", "max_input_tok": True}),
        ("memory_before_turn", {"current_input": "nul \0"}),
        ("memory_after_turn", {"turn_id": "1", "input_items": [said("x")] * 1025}),
        ("memory_after_turn", {"turn_id": "1", "input_items": [{"no": "type"}]}),
        ("memory_search", {"query": "x", "k": 0}),
        ("memory_search", {}),
        ("memory_remember", {"text": ""}),
        ("memory_run_turn", {}),
        ("memory_before_turn", {"current_input": "x", "scope": "all"}),
        ("memory_run_maintenance", {"session_id": "a/b"}),
        ("memory_run_maintenance", {"project": ""}),
        ("memory_list_dir_with_abstract", {"path": "/memory/other"}),
        ("memory_list_dir_with_abstract", {"path": "events/../../other"}),
        ("memory_list_dir_with_abstract", {"path": "two words"}),
        ("memory_list_dir_with_abstract", {"path": "x" * 513}),
        ("memory_list_dir_with_abstract", {"depth": -1}),
        ("memory_list_dir_with_abstract", {"limit": 0}),
        ("memory_list_dir_with_abstract", {"limit": 1025}),
    ],
)
async def test_arguments_that_break_a_rule_are_named_and_nothing_is_kept(
    world: World, ana: Tenant, tool: str, arguments: dict[str, Any]
) -> None:
    async with client_of(world, ana) as client:
        told = await refusal(client, tool, **arguments)
        assert (told["code"], told["retryable"]) == ("INVALID_ARGUMENT", False)
        assert (await call(client, "memory_search", query="x"))["results"] == []


async def test_defaults_of_the_contract_hold(world: World, ana: Tenant) -> None:
    async with client_of(world, ana) as client:
        await call(client, "memory_after_turn", input_items=[said("one")], plugin="any")
        await call(client, "memory_after_turn", input_items=[said("two")])
        shown = await call(client, "memory_before_turn", current_input=said("three"), base_instructions="Be brief")
        assert shown["input_items"] == [said("one"), said("two"), said("three")]
        assert shown["project"] == "default"


async def test_a_key_that_may_only_read_keeps_nothing_and_one_that_opens_nothing_is_refused(world: World) -> None:
    reader = await world.tenant(write=False)
    async with client_of(world, reader) as client:
        told = await refusal(client, "memory_after_turn", turn_id="1", input_items=[said("x")])
        assert (told["code"], told["retryable"]) == ("PERMISSION_DENIED", False)
    refused = await world.client().post("/mcp", json={})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    await reader.http.aclose()


async def test_all_tools_are_described_in_little(world: World, ana: Tenant) -> None:
    described = [describe_tool(tool) for tool in TOOLS.values()]
    assert len(described) <= 8
    assert set(TOOLS) - set(SERVED) == {"memory_run_turn"}
    assert set(TOOLS) == set(get_args(ToolName))
    size = sum(len(json.dumps(one.model_dump(mode="json", by_alias=True, exclude_none=True))) for one in described)
    assert size < 16_000
    for one in described:
        for schema in (one.input_schema, one.output_schema):
            # Strict clients take a schema that is whole, and few formats.
            assert re.findall(REFUSED, json.dumps(schema)) == [], one.name
        assert "required" not in one.input_schema or set(one.input_schema["required"]) <= {"query", "text", "id"}
        for name, schema in one.input_schema["properties"].items():
            if schema.get("type") == "array":
                assert schema["items"] == {"type": "object", "additionalProperties": True}, name
    async with client_of(world, ana, "legacy") as client:
        assert client.server_info is not None
        assert client.server_info.name == "afterturn"
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        assert [name for name, hint in hints.items() if hint and hint.read_only_hint] == [
            "memory_before_turn",
            "memory_search",
            "memory_list_dir_with_abstract",
        ]


async def test_each_call_of_a_tool_is_a_row_of_the_call_audit(world: World, ana: Tenant) -> None:
    async with client_of(world, ana, "2026-07-28") as client:
        await call(client, "memory_search", query="x")
        await refusal(client, "memory_search", query="x", k=0)
        await refusal(client, f"memory_{MARK}")
    assert await world.recorder.flush()
    rows = await world.sql(
        """select operation, code from afterturn.call_audit_t
            where host_id = :h and door = 'mcp' and operation <> 'POST /mcp' order by call_id""",
        h=identity.host_id(ana.host),
    )
    assert [tuple(row) for row in rows] == [
        ("POST /mcp memory_search", None),
        ("POST /mcp memory_search", "INVALID_ARGUMENT"),
        ("POST /mcp unknown", "INVALID_ARGUMENT"),
    ]


@pytest.mark.parametrize("mode", ERAS)
async def test_the_prompt_and_the_resources_are_data_for_keys_that_may_search(
    world: World, ana: Tenant, valkey: TestValkey, mode: str
) -> None:
    async with client_of(world, ana, mode) as client:
        [prompt] = (await client.list_prompts()).prompts
        assert (prompt.name, [one.name for one in prompt.arguments or ()]) == ("recall", ["query", "project"])
        await call(client, "memory_remember", project="a/b c", text="The boiler is serviced in May")
        for project, holds in (("a/b c", True), ("empty", False)):
            [message] = (await client.get_prompt("recall", {"query": "boiler", "project": project})).messages
            text = text_of_part(message.content)
            assert (message.role, "serviced in May" in text, "<memory_reference>" in text) == ("user", holds, holds)
        [resource] = (await client.list_resources()).resources
        assert (resource.name, str(resource.uri)) == ("a/b c", "memory://a%2Fb%20c")
        [template] = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "memory://{project}"
        [content] = (await client.read_resource(str(resource.uri))).contents
        told = json.loads(content.text)  # type: ignore[union-attr]
        assert (told["project"], told["untrusted"], told["facts"]) == ("a/b c", True, [])
        for refused in (
            client.get_prompt("recall", {"query": ""}),
            client.get_prompt("other", {}),
            client.read_resource("file:///etc/passwd"),
            client.read_resource("memory://"),
        ):
            with pytest.raises(MCPError, match="INVALID_ARGUMENT"):
                await refused
    off = ApiSettings(mcp=McpSettings(tools=ToolSettings(each={"memory_search": False})))
    silent = build(world.postgres, broker_of(valkey.url, "silent"), settings=off)
    try:
        async with client_of(silent, ana, mode) as client:
            assert (await client.list_prompts()).prompts == []
            assert (await client.list_resources()).resources == []
            with pytest.raises(MCPError, match="PERMISSION_DENIED"):
                await client.read_resource("memory://default")
    finally:
        await silent.close()


async def test_a_resource_tells_all_facts_page_by_page_the_lasting_first(ana: Tenant, world: World) -> None:
    said = ["My name is Alice.", *(f"I like thing number {nth}." for nth in range(205))]
    for turn in range(0, len(said), 41):
        body = {
            "session_id": "s",
            "turn_id": str(turn),
            "messages": [{"role": "user", "content": words} for words in said[turn : turn + 41]],
        }
        assert (await ana.http.post("/api/v1/turns", json=body)).status_code == 201
    async with client_of(world, ana) as client:
        uri, pages = "memory://default", list[list[dict[str, Any]]]()
        while uri:
            [content] = (await client.read_resource(uri)).contents
            told = json.loads(content.text)  # type: ignore[union-attr]
            pages.append(told["facts"])
            uri = told["next"]
        assert [len(page) for page in pages] == [200, 6]
        assert (pages[0][0]["value"], pages[0][0]["subject"]) == ("Alice", "you")
        assert len({one["value"] for page in pages for one in page}) == 206
        for page in ("0", "01", "-1", "101", "x", ""):
            with pytest.raises(MCPError, match="INVALID_ARGUMENT"):
                await client.read_resource(f"memory://default?page={page}")


def text_of_part(part: Any) -> str:
    assert isinstance(part, types.TextContent)
    return part.text


async def test_maintenance_ends_what_is_over(world: World, ana: Tenant) -> None:
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    turn = {"session_id": "s", "turn_id": "1", "messages": [{"role": "user", "content": "soon over"}]}
    kept = await ana.http.post("/api/v1/turns", json={**turn, "expires_at": past})
    assert kept.status_code == 201, kept.text
    async with client_of(world, ana) as client:
        assert (await call(client, "memory_search", query="over"))["results"] == []
        told = await asyncio.gather(*(call(client, "memory_run_maintenance", session_id="none") for _ in range(2)))
    assert sum(one["counts"]["ended"] for one in told) == 1


async def test_the_log_names_project_session_and_turn_by_their_ids(
    world: World, ana: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    async with client_of(world, ana) as client:
        await call(client, "memory_after_turn", project=MARK, session_id=MARK, turn_id=MARK, input_items=[said("x")])
    project = identity.bank_id(identity.host_id(ana.host), MARK)
    session = identity.session_id(project, MARK)
    [line] = [line for line in "".join(capsys.readouterr()).splitlines() if "tool=memory_after_turn" in line]
    for told in (f"project={project}", f"session={session}", f"turn={identity.turn_id(session, MARK)}", "request_id="):
        assert told in line
    assert MARK not in line


def request(method: str, params: Any, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **more}).encode()


@pytest.mark.law("L7")
async def test_what_is_no_request_is_answered_without_being_repeated(
    ana: Tenant, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    deep = b"[" * 100_000
    bodies = [
        b"",
        b"{",
        b"[]",
        b"null",
        MARK.encode(),
        deep,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + deep,
        b"[" + request("tools/list", {}) + b"]",
        b"\xff\xfe",
        request("tools/call", [MARK]),
        request("tools/call", {"name": MARK}),
        request("tools/call", {"name": 7, "arguments": {"x": MARK}}),
        request("tools/call", {"name": "memory_search", "arguments": MARK}),
        request("tools/call", {"name": "memory_search", "arguments": {"query": f"\ud800{MARK}"}}),
        request("tools/call", {"name": "memory_search", "arguments": {"query": float("nan"), "k": MARK}}),
        request("tools/call", {"name": "memory_search", "arguments": {"query": 10**400, "project": [MARK]}}),
        request(MARK, {}),
        request("tools/list", {"cursor": {"x": MARK}}),
        request("initialize", {"protocolVersion": MARK}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": MARK}}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": MARK, "result": {}}).encode(),
    ]
    for body in bodies:
        for era in ({}, {"mcp-protocol-version": "2025-06-18"}, {"mcp-protocol-version": "2026-07-28"}):
            headers = {**ACCEPT, **era, "content-type": "application/json"}
            reply = await ana.http.post("/mcp", content=body, headers=headers)
            assert reply.status_code < 500, (body[:99], reply.text)
            # A request's own id comes back, as the protocol has it; and the revision that was asked for may be named.
            if b"initialize" not in body and b'"id": "' not in body:
                assert MARK not in reply.text, (body[:99], era)
    heard = capsys.readouterr()
    assert MARK not in f"{caplog.text}{heard.out}{heard.err}"


@pytest.mark.law("L7")
async def test_an_unexpected_error_tells_nothing_of_itself(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    async def fail(*_: Any) -> None:
        raise RuntimeError(MARK)

    monkeypatch.setattr(RecallService, "recall", fail)
    caplog.set_level(logging.DEBUG)
    for mode in ERAS:
        async with client_of(world, ana, mode) as client:
            told = await refusal(client, "memory_search", query=MARK)
            assert told == {"code": "INTERNAL_ERROR", "message": "internal error", "retryable": True}
    # The client of this test speaks of what it sends, and it is no part of the service.
    ours = "\n".join(one.getMessage() for one in caplog.records if not one.name.startswith("http"))
    heard = capsys.readouterr()
    assert MARK not in f"{ours}{heard.out}{heard.err}"
    assert "RuntimeError" in heard.out + heard.err


async def test_only_post_is_served(ana: Tenant) -> None:
    for method in ("GET", "DELETE", "PUT"):
        reply = await ana.http.request(method, "/mcp", headers={"accept": "text/event-stream"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")


async def test_the_interface_can_be_switched_off(world: World, valkey: TestValkey) -> None:
    without = build(
        world.postgres,
        broker_of(valkey.url, "without-mcp"),
        settings=ApiSettings(mcp=McpSettings(tools=ToolSettings(memory=MemoryToolSettings(enabled=False)))),
    )
    try:
        tenant = await without.tenant()
        assert (await tenant.http.post("/mcp", json={})).status_code == 404
        await tenant.http.aclose()
    finally:
        await without.close()
