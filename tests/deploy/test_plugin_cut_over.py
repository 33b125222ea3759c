"""From a platform's table to our own plugin, by the commands of docs/plugin-cut-over.md, with a kill and an outage."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.local.ports import find_free_port
from store.identity import host_id
from tests.patience import PATIENCE_S
from tests.processes import spawned
from tests.producers.conftest import Tenant, World, ana, world
from tests.producers.cutover.legacy_database import LegacyDatabase, ws
from tests.producers.plugin.kept import parts_of, serving
from tests.servers import TestPostgres

__all__ = ["ana", "world"]
BACKFILL = (sys.executable, "-P", "-c", "from deploy.cli.memory_backfill import main; main()")
PLUGIN = (sys.executable, "-P", "-m", "deploy.cli", "plugin")
PAGE = (Path(__file__).parents[2] / "docs" / "plugin-cut-over.md").read_text(encoding="utf-8")
SCOPES = ("LOCAL", "TEAM", "GLOBAL")


@pytest_asyncio.fixture(loop_scope="session")
async def legacy(servers: tuple[TestPostgres, object], administrator: AsyncConnection) -> AsyncIterator[LegacyDatabase]:
    database = await servers[0].create(f"legacy_{uuid4().hex}", "template0", by=administrator)
    opened = await LegacyDatabase.open(database)
    yield opened
    await opened.close()
    await database.drop(by=administrator)


async def run(told: dict[str, str], *argv: str, status: int = 0) -> str:
    """Run a command to its end; return what it printed."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, env=os.environ | told, stdout=pipe, stderr=pipe)
    out, errors = await process.communicate()
    assert process.returncode == status, errors.decode()
    return out.decode()


def test_the_page_names_the_commands_that_are_tried() -> None:
    for command in ("-dry-run", "-apply", "-verify -verify-sample=200", "-reverse", "-reverse -apply"):
        assert f"memory-backfill {command}" in PAGE
    assert re.search(r"afterturn plugin\s+import", PAGE)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(240, 8, 0.5), pytest.param((5000, 40, 90.0), marks=pytest.mark.nightly)])
async def test_nothing_is_lost_doubled_or_overwritten_on_the_way_there_and_back(
    legacy: LegacyDatabase, ana: Tenant, world: World, tmp_path: Path, size: tuple[int, int, float]
) -> None:
    rows, spaces, away_s = size
    await legacy.grow({"root": None} | {f"w{n}": "root" if n < 5 else f"w{n % 5}" for n in range(spaces - 1)})
    names = ["root", *(f"w{n}" for n in range(spaces - 1))]
    for nth, name in enumerate(names):
        told = [f"memory {n} of {name} about trains" for n in range(nth, rows, spaces)]
        await legacy.remember(name, SCOPES[nth % 3], *told)
    before = await legacy.rows()
    port = find_free_port()
    told_env = {
        "DATABASE_URL": legacy.url,
        "MEMORY_PLUGIN_URL": f"http://127.0.0.1:{port}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    parts, host = parts_of(world.database, world.notifier, world.clock), host_id(ana.host)
    count = """select count(*) from afterturn.agent_memory_unit_t
                where host_id = :host and origin = 'memory' and active"""

    async def copied() -> int:
        return int((await world.sql(count, host=host))[0][0])

    dry = await run(told_env, *BACKFILL, "-dry-run")
    assert dry.splitlines()[-1] == f"Backfill complete: scanned={rows} copied={rows} skipped=0 errors=0"
    async with serving(parts, host, port):
        with spawned([*BACKFILL, "-apply"], env=os.environ | told_env, stdout=subprocess.DEVNULL) as process:
            while await copied() < rows // 2:
                assert process.poll() is None, "it ended before half was copied"
                await asyncio.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert rows // 2 <= await copied() < rows
    applying = asyncio.create_task(run(told_env, *BACKFILL, "-apply", "--patience", "10m"))
    await asyncio.sleep(away_s)
    assert not applying.done(), "it gave up on a plugin that was away"
    parts = parts_of(world.database, world.notifier, world.clock)
    async with (
        serving(parts, host, port) as url,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client,
    ):
        assert "errors=0" in (await applying).splitlines()[-1]
        assert await copied() == rows
        verdict = await run(told_env, *BACKFILL, "-verify", "-verify-sample=200")
        expected = f"Verify complete: workspaces_sampled={spaces} matches={spaces} mismatches=0 errors=0"
        assert verdict.splitlines()[-1] == expected
        place = f"workspace:{ws('root')}"
        new = {"content": "written after the cut-over", "kind": "fact", "source": "agent"}
        assert (await client.post(f"/v1/namespaces/{place}/memories", json=new)).status_code == 201
        found = await client.post("/v1/search", json={"namespaces": [place], "query": "cut-over"})
        assert found.json()["memories"][0]["content"] == new["content"]
        export = tmp_path / "memories.jsonl"
        told = json.loads((await run(told_env, *PLUGIN, "export", str(export))).splitlines()[-1])
        assert told == {"exported": rows + 1, "cut_off": 0}
        for _ in range(2 if rows < 1000 else 1):
            await run(told_env, *PLUGIN, "import", str(export))
        assert await copied() == rows + 1
        listed = await run(told_env, *BACKFILL, "-reverse")
        assert listed.splitlines()[-1] == "Reverse complete: listed=1 written=0 skipped=0 gone=0 errors=0"
        assert await legacy.rows() == before
        back = await run(told_env, *BACKFILL, "-reverse", "-apply")
        assert "written=1" in back.splitlines()[-1]
    after = await legacy.rows()
    assert [row for row in after if row in before] == before
    assert [row[2] for row in after if row not in before] == [new["content"]]
