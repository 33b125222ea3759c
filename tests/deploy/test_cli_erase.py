"""`afterturn erase` on a real database: what it asks, what it says, what is left."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deploy.bootstrap import HOST
from deploy.folder_lock import FolderLock
from store import identity
from store.keys import Keys
from store.turns import NewMessage, NewTurn, TurnStore
from tests.deploy.test_cli_operator import Operated, stack
from tests.servers import TestPostgres, TestValkey
from tests.store.erasure.dump import dump, lines_with

pytestmark = pytest.mark.law("L11")

SECRET = "Grimpenmire"
HOST_ID = identity.host_id(HOST)
UNIT = identity.unit_id(identity.turn_id(identity.session_id(identity.bank_id(HOST_ID, "default"), "monday"), "1"), 0)


@pytest.fixture
async def operated(tmp_path: Path, fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[Operated]:
    """A stack in which one user told a secret in one session."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    lock = FolderLock(folder)
    stack(folder, fresh_database, valkey.url).save(folder)
    operated = Operated(folder, fresh_database)
    database = operated.database()
    await Keys(database).create(HOST, "test")
    told = [NewMessage("user", f"We met in {SECRET}"), NewMessage("assistant", "I see")]
    turns = [NewTurn("default", "monday", "1", told, user_id="ana"), NewTurn("default", "x", "2", [told[1]])]
    await TurnStore(database, lambda: datetime.now(UTC)).append(HOST_ID, turns)
    await database.close()
    yield operated
    lock.release()


COMMANDS = [("unit", str(UNIT)), ("session", "monday"), ("user", "ana"), ("bank", "default")]


@pytest.mark.parametrize("kind, name", COMMANDS)
async def test_what_is_erased_is_in_no_dump_and_in_no_receipt(operated: Operated, kind: str, name: str) -> None:
    tried = await operated.answer("erase", kind, name, "--dry-run")
    assert tried["dry_run"] is True
    assert lines_with(await dump(operated.postgres), SECRET)
    receipt = await operated.answer("erase", kind, name, "--yes")
    assert (receipt["status"], receipt["kind"]) == ("done", kind)
    assert receipt["counts"] == tried["counts"]
    assert receipt["counts"]["messages"] >= 1
    assert receipt["unreached"]["elsewhere"]
    assert SECRET not in repr(receipt)
    assert lines_with(await dump(operated.postgres), SECRET) == []


async def test_a_receipt_can_be_read(operated: Operated) -> None:
    shown = (await operated.run("erase", "session", "monday", "--yes")).stdout
    assert "messages" in shown
    assert "backups" in shown
    assert SECRET not in shown


async def test_nothing_is_erased_unasked(operated: Operated) -> None:
    refused = await operated.run("erase", "bank", "default")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert lines_with(await dump(operated.postgres), SECRET)


@pytest.mark.parametrize("kind, name", [("unit", str(HOST_ID)), ("session", "sunday"), ("user", "bob"), ("bank", "no")])
async def test_what_is_not_there_ends_with_1(operated: Operated, kind: str, name: str) -> None:
    for how in ("--yes", "--dry-run"):
        result = await operated.run("erase", kind, name, how)
        assert result.exit_code == 1
        assert "there is no" in result.stderr
