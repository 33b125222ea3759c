"""`afterturn backfill` as an operator meets it: one of three modes, counts by table, and its exit status."""

import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from deploy.components.bootstrap import HOST
from tests.deploy.operated import Busy, Operated
from tests.seed_tables import ROWS_OF_BANK, fill_platform, platform_database
from tests.servers import TestPostgres


@pytest_asyncio.fixture(loop_scope="session")
async def rows(postgres: TestPostgres, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    async with platform_database(postgres) as url:
        monkeypatch.setenv("DATABASE_URL", url)
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def operated(busy: Busy) -> Operated:
    await busy.append(("s", "t"))  # the tenant's first turn
    await busy.finish()
    return busy


def total(told: dict[str, Any], name: str) -> int:
    return sum(counts[name] for counts in told["tables"].values())


async def test_rows_are_counted_brought_over_and_compared(operated: Operated, rows: str) -> None:
    await fill_platform(rows, 1)
    planned = await operated.answer("backfill", "--dry-run")
    assert (total(planned, "read"), total(planned, "known")) == (ROWS_OF_BANK, 0)
    done = await operated.answer("backfill", "--apply")
    assert total(done, "written") == total(planned, "written") > 0
    # The living units, and with them the reflections.
    assert (done["words"], done["vectors"], done["mismatches"], done["named"]) == (96, 101, 0, [])
    result = await operated.run("backfill", "--verify")
    assert (result.exit_code, "0 mismatches" in result.stderr) == (0, True)
    assert "agent_memory_unit_t" in result.stdout
    connection = await asyncpg.connect(rows)  # type: ignore[no-untyped-call]  # asyncpg leaves it without
    await connection.execute("update agent_memory_directive_t set content = 'The Grimpenmire' where priority = 1")
    await connection.close()
    differs = await operated.run("backfill", "--verify")
    assert (differs.exit_code, "1 mismatches" in differs.stderr) == (1, True)
    assert "Grimpenmire" not in differs.stdout + differs.stderr
    audited = await operated.answer("audit", "list", "--operation", "backfill --apply")
    assert [call["rows"] for call in audited["calls"]] == [total(done, "written")]


async def test_what_cannot_be_done_is_said_and_exits_2(
    operated: Operated, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in ((), ("--apply", "--verify"), ("--dry-run", "--apply")):
        result = await operated.run("backfill", *arguments)
        assert (result.exit_code, "exactly one of" in result.stderr) == (2, True)
    empty = await operated.run("backfill", "--apply", "--host", HOST)
    assert (empty.exit_code, "is empty" in empty.stderr) == (2, True)
    unknown = await operated.run("backfill", "--apply", "--host", "nobody")
    assert unknown.exit_code == 2
    monkeypatch.delenv("DATABASE_URL")
    without = await operated.run("backfill", "--apply")
    assert (without.exit_code, "DATABASE_URL" in without.stderr) == (2, True)
    monkeypatch.setenv("DATABASE_URL", operated.postgres.app_url.replace("+asyncpg", ""))
    ours = await operated.run("backfill", "--apply")
    assert (ours.exit_code, rows not in ours.stderr) == (2, True)
    for wrong in ("postgresql://reader@127.0.0.1:1/portal", re.sub("://[^@]+@", "://nobody:x@", rows)):
        monkeypatch.setenv("DATABASE_URL", wrong)
        away = await operated.run("backfill", "--dry-run")
        assert (away.exit_code, "see DATABASE_URL" in away.stderr) == (2, True), away.stderr
