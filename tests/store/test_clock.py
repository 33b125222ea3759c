"""One clock for all processes: the database's, however far off a machine's own is and whatever is done to it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asyncpg.exceptions import ConnectionDoesNotExistError

from store.clock import DatabaseClock
from store.database import Database
from tests.patience import PATIENCE_S
from tests.servers import TestPostgres
from tests.store.conftest import settings_of

HOUR, MOMENT = timedelta(hours=1), timedelta(minutes=1)


@dataclass
class Machine:
    """A machine whose clock is `off`, and that has been running for `on` seconds."""

    off: timedelta = HOUR
    on: float = 5000.0

    def clock(self) -> datetime:
        return datetime.now(UTC) + self.off

    def steady(self) -> float:
        return self.on


def ticking(database: Database, machine: Machine) -> DatabaseClock:
    return DatabaseClock(database, machine.clock, machine.steady)


@pytest.mark.parametrize("off", [HOUR, -HOUR, timedelta()])
async def test_the_time_is_the_databases_whatever_the_machine_says(database: Database, off: timedelta) -> None:
    clock = ticking(database, Machine(off))
    await clock.ask()
    assert abs(clock() - datetime.now(UTC)) < MOMENT


async def test_between_two_answers_it_goes_on_and_does_not_jump_with_the_machine(database: Database) -> None:
    machine = Machine(off=timedelta())
    clock = ticking(database, machine)
    await clock.ask()
    told = clock()
    machine.off, machine.on = HOUR, machine.on + 7.0
    assert clock() - told == timedelta(seconds=7)


async def test_before_the_first_answer_it_is_the_machines_and_says_that_it_is_not_known(database: Database) -> None:
    clock = ticking(database, Machine())
    assert clock() - datetime.now(UTC) > HOUR - MOMENT
    await clock.ask()
    await clock.known()


async def test_an_answer_that_took_long_changes_nothing(database: Database) -> None:
    ran = iter([0.0, 0.0, 0.0, 3600.0])
    clock = DatabaseClock(database, steady=lambda: next(ran, 0.0))
    await clock.ask()
    await clock.ask()
    assert abs(clock() - datetime.now(UTC)) < MOMENT


async def test_a_connection_that_breaks_while_it_is_opened_does_not_stop_the_clock(
    fresh_database: TestPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the driver's own error comes, wrapped by nobody."""
    monkeypatch.setattr("store.clock.TRY_AGAIN_S", 0.0)
    broken = iter([True])

    async def begun(_connection: Any) -> None:
        if next(broken, False):
            raise ConnectionDoesNotExistError

    database = Database(settings_of(fresh_database), begun)
    clock = DatabaseClock(database)
    async with clock.running(PATIENCE_S):
        assert clock._known.is_set()
    await database.close()
