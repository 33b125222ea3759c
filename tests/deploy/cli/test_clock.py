"""What operators' commands stamp is stamped by the database's clock, however far off this machine's own is."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from store import clock
from tests.deploy.cli.test_erase import operated
from tests.deploy.operated import Operated

__all__ = ["operated"]

#: How far the database's clock is ahead, and more than any command takes.
AHEAD, MOMENT = timedelta(days=7), timedelta(hours=1)


@pytest.fixture(autouse=True)
def _database_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    later = text("select clock_timestamp() + cast(:ahead as interval)").bindparams(ahead=AHEAD)
    monkeypatch.setattr(clock, "NOW", later)


def is_told_by_the_database(at: datetime) -> bool:
    return abs(at - AHEAD - datetime.now(UTC)) < MOMENT


async def column(operated: Operated, statement: str) -> datetime:
    database = operated.database()
    try:
        async with database.operator() as connection:
            found: datetime = (await connection.execute(text(statement))).scalar_one()
            return found
    finally:
        await database.close()


async def test_a_key_expires_by_the_clock_that_will_judge_it(operated: Operated) -> None:
    made = await operated.answer("keys", "create", "--expires", "3h")
    assert is_told_by_the_database(datetime.fromisoformat(made["expires_at"]) - timedelta(hours=3))


async def test_a_rotated_key_expires_by_that_clock(operated: Operated) -> None:
    key = (await operated.answer("keys", "list"))["keys"][0]["key_id"]
    made = await operated.answer("keys", "rotate", key, "--expires", "3h")
    assert is_told_by_the_database(datetime.fromisoformat(made["expires_at"]) - timedelta(hours=3))


async def test_an_erasure_and_the_note_of_it_bear_the_databases_time(operated: Operated) -> None:
    receipt = await operated.answer("erase", "user", "ana", "--yes")
    assert is_told_by_the_database(datetime.fromisoformat(receipt["requested_at"]))
    assert is_told_by_the_database(await column(operated, "select at from afterturn.call_audit_t"))


async def test_a_quota_is_counted_by_the_databases_time(operated: Operated) -> None:
    await operated.answer("quota", "set", "--max-turns", "5")
    assert is_told_by_the_database(await column(operated, "select counted_at from afterturn.quota_t"))


async def test_that_the_clocks_differ_is_said_beside_the_answer_and_not_in_it(operated: Operated) -> None:
    shown = await operated.run("quota", "show", "--json")
    assert "clock_skew" in shown.stderr
    assert len(shown.stdout.splitlines()) == 1
