"""The official conformance suite and the TypeScript SDK's client against /mcp, on a socket.

Both are packages of npm: `npm install @modelcontextprotocol/conformance@0.1.13 @modelcontextprotocol/sdk` (later suites
need Node 22), and then `AFTERTURN_NODE_MODULES=.../node_modules make nightly`. Scenarios that call what the suite's own
example server has fit no other server, and are left out.
"""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.producers.conftest import Tenant, World
from tests.serving import serve

MODULES = Path(os.environ.get("AFTERTURN_NODE_MODULES", "/nowhere"))
SUITE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
CLIENT = MODULES / "@modelcontextprotocol/sdk/dist/esm/client"
SCENARIOS = (
    *("server-initialize", "ping", "tools-list", "resources-list", "prompts-list"),
    "dns-rebinding-protection",
)
SCRIPT = """
import { Client } from 'CLIENT/index.js';
import { StreamableHTTPClientTransport } from 'CLIENT/streamableHttp.js';
const client = new Client({ name: 'test', version: '1' });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const items = [{ type: 'message', role: 'user', content: 'The boiler is serviced in May' }];
const kept = await client.callTool({ name: 'memory_after_turn', arguments: { turn_id: '1', input_items: items } });
const found = await client.callTool({ name: 'memory_search', arguments: { query: 'boiler' } });
const refused = await client.callTool({ name: 'memory_search', arguments: {} });
const told = { tools, kept: kept.structuredContent, found: found.structuredContent, refused: refused.isError };
console.log(JSON.stringify(told));
await client.close();
"""

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not SUITE.exists() or not shutil.which("node"), reason="AFTERTURN_NODE_MODULES names no suite"),
]


def with_key(app: ASGIApp, tenant: Tenant) -> ASGIApp:
    """Return the application behind a key that a client without one is given."""

    async def serve_with_key(scope: Scope, receive: Receive, send: Send) -> None:
        key = (b"authorization", f"Bearer {tenant.token}".encode())
        await app({**scope, "headers": [*scope["headers"], key]} if scope["type"] == "http" else scope, receive, send)

    return serve_with_key


async def run_node(*arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        "node", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_conformance_suite_passes(world: World, ana: Tenant, scenario: str) -> None:
    async with serve(with_key(world.app, ana)) as url:
        code, said = await run_node(str(SUITE), "server", "--url", f"{url}/mcp", "--scenario", scenario)
    assert code == 0, said


async def test_the_typescript_client_keeps_and_finds(world: World, ana: Tenant, tmp_path: Path) -> None:
    script = tmp_path / "client.mjs"
    script.write_text(SCRIPT.replace("CLIENT", str(CLIENT)))
    async with serve(with_key(world.app, ana)) as url:
        code, said = await run_node(str(script), f"{url}/mcp")
    assert code == 0, said
    told: dict[str, Any] = json.loads(said)
    assert "memory_before_turn" in told["tools"]
    assert (told["kept"], told["refused"]) == ({"ok": True, "project": "default"}, True)
    assert "boiler" in told["found"]["results"][0]["text"]
