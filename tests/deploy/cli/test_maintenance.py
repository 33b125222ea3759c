"""`afterturn maintenance` on a real database: what it would put away, what it puts away, what it says."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from deploy.cli.operator_command import read_operator_name
from store import identity
from store.ledger.stages import OWN
from store.maintenance import Pruning
from store.memory.turns import NewMessage, NewTurn, TurnStore
from tests.deploy.operated import HOST_ID, Busy, Operated
from tests.generations import make_generation_live
from tests.store.erasure.dump import dump, rows_of

OLD = datetime.now(UTC) - timedelta(days=30)


@pytest.fixture
async def operated(busy: Busy) -> Busy:
    """A stack whose one turn was done a month ago."""
    turn = NewTurn("default", "monday", "1", [NewMessage("user", "Where is Anna?")])
    done = text("update afterturn.ledger_t set status = 'done', updated_at = :at")
    async with busy.opened() as database:
        await TurnStore(database, lambda: OLD).append(HOST_ID, [turn])
        async with database.operator() as connection:
            await connection.execute(done, {"at": OLD})
    return busy


async def test_a_dry_run_counts_and_writes_nothing(operated: Operated) -> None:
    before = rows_of(await dump(operated.postgres))
    told = await operated.answer("maintenance", "--dry-run")
    assert told["dry_run"] is True
    assert {one["task"]: one["removed"] for one in told["tasks"]}["ledger"] == len(OWN)
    assert rows_of(await dump(operated.postgres)) == before


async def test_what_was_counted_is_put_away_and_the_status_stays(operated: Operated) -> None:
    before = await operated.answer("status")
    [told] = (await operated.answer("maintenance", "--task", "ledger"))["tasks"]
    assert (told["outcome"], told["removed"]) == ("done", len(OWN))
    [again] = (await operated.answer("maintenance", "--task", "ledger"))["tasks"]
    assert again["removed"] == 0
    assert await operated.answer("status") == before


async def test_what_an_operator_put_away_and_what_failed_is_in_the_call_audit(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_: Pruning, *_arguments: object) -> int:
        raise TimeoutError

    await operated.answer("maintenance", "--dry-run")
    await operated.answer("maintenance")
    monkeypatch.setattr(Pruning, "ledger", fails)
    assert (await operated.run("maintenance", "--task", "ledger")).exit_code == 1
    calls = (await operated.answer("audit", "list", "--door", "operator"))["calls"]
    told = [(call["operation"], call["actor"], call["rows"], call["code"]) for call in calls]
    who = read_operator_name()
    assert told == [("maintenance", who, 0, "FAILED"), ("maintenance", who, len(OWN), None)]


async def test_what_nobody_asked_for_is_told_as_off_and_why(operated: Operated) -> None:
    [told] = (await operated.answer("maintenance", "--task", "said"))["tasks"]
    assert (told["outcome"], told["why"]) == ("off", "maintenance.said_days is not set")
    assert "said_days" in (await operated.run("maintenance", "--dry-run")).stdout


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
    await make_generation_live(database, 77)
    await database.close()
    monkeypatch.setenv("AFTERTURN_RECALL__EXACT_UNITS", "0")
    [needed] = (await operated.answer("maintenance", "--task", "vector_indexes", "--dry-run"))["tasks"]
    assert needed["removed"] == 1
    [built] = (await operated.answer("maintenance", "--task", "vector_indexes"))["tasks"]
    assert built["outcome"] == "done"
    [needed] = (await operated.answer("maintenance", "--task", "vector_indexes", "--dry-run"))["tasks"]
    assert needed["removed"] == 0
