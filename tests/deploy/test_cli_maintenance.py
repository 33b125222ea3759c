"""`afterturn maintenance` on a real database: what it would put away, what it puts away, what it says."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from deploy.bootstrap import HOST
from deploy.folder_lock import FolderLock
from store import identity
from store.keys import Keys
from store.turns import NewMessage, NewTurn, TurnStore
from tests.deploy.test_cli_operator import Operated, stack
from tests.servers import TestPostgres, TestValkey
from tests.store.erasure.dump import dump, rows_of

HOST_ID = identity.host_id(HOST)
OLD = datetime.now(UTC) - timedelta(days=30)


@pytest.fixture
async def operated(tmp_path: Path, fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[Operated]:
    """A stack whose one turn was done a month ago."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    lock = FolderLock(folder)
    stack(folder, fresh_database, valkey.url).save(folder)
    operated = Operated(folder, fresh_database)
    database = operated.database()
    await Keys(database).create(HOST, "test")
    turn = NewTurn("default", "monday", "1", [NewMessage("user", "Where is Anna?")])
    await TurnStore(database, lambda: OLD).append(HOST_ID, [turn])
    async with database.operator() as connection:
        await connection.execute(text("update afterturn.ledger_t set status = 'done', updated_at = :at"), {"at": OLD})
    await database.close()
    yield operated
    lock.release()


async def test_a_dry_run_counts_and_writes_nothing(operated: Operated) -> None:
    before = rows_of(await dump(operated.postgres))
    told = await operated.answer("maintenance", "--dry-run")
    assert told["dry_run"] is True
    assert {one["task"]: one["removed"] for one in told["tasks"]}["ledger"] == 4
    assert rows_of(await dump(operated.postgres)) == before


async def test_what_was_counted_is_put_away_and_the_status_stays(operated: Operated) -> None:
    before = await operated.answer("status")
    [told] = (await operated.answer("maintenance", "--task", "ledger"))["tasks"]
    assert (told["outcome"], told["removed"]) == ("done", 4)
    [again] = (await operated.answer("maintenance", "--task", "ledger"))["tasks"]
    assert again["removed"] == 0
    assert await operated.answer("status") == before


async def test_what_nobody_asked_for_is_told_as_off_and_why(operated: Operated) -> None:
    [told] = (await operated.answer("maintenance", "--task", "audit"))["tasks"]
    assert (told["outcome"], told["why"]) == ("off", "maintenance.audit_days is not set")
    assert "audit_days" in (await operated.run("maintenance", "--dry-run")).stdout


async def test_an_unknown_task_is_wrong_usage_and_the_tasks_are_named(operated: Operated) -> None:
    result = await operated.run("maintenance", "--task", "dusting")
    assert result.exit_code == 2
    assert "ledger" in result.stderr


async def test_an_index_over_vectors_is_built_by_hand_where_a_bank_needs_one(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = operated.database()
    async with database.tenant(HOST_ID) as connection:
        carry = text("select carried from afterturn.post_words(:host, :bank, 10, true)")
        await connection.execute(carry, {"host": HOST_ID, "bank": identity.bank_id(HOST_ID, "default")})
    await database.close()
    monkeypatch.setenv("AFTERTURN_RECALL__EXACT_UNITS", "0")
    [needed] = (await operated.answer("maintenance", "--task", "vector_indexes", "--dry-run"))["tasks"]
    assert needed["removed"] == 1
    [built] = (await operated.answer("maintenance", "--task", "vector_indexes"))["tasks"]
    assert built["outcome"] == "done"
    [needed] = (await operated.answer("maintenance", "--task", "vector_indexes", "--dry-run"))["tasks"]
    assert needed["removed"] == 0
