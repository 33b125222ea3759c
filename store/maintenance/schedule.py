"""The schedule of maintenance tasks, one row each: many workers look, one of them runs a task.

A run has a lease and a rising number. When a killed worker's lease has run out, the next worker goes on at the place
that was saved last; a late worker finds a higher number, writes nothing, and stops. A missed run is not made up for:
the next is scheduled from the end of the last. Times are the database's, since the workers' clocks may differ.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Update, func, literal_column, text, update
from sqlalchemy.dialects.postgresql import insert

from store.database import Database
from store.schema import MAINTENANCE, TIME

_LONG_AGO = literal_column("'-infinity'", TIME)
DUE = text("""
    select t.task from unnest(cast(:tasks as text[])) with ordinality as t(task, nth)
      left join public.afterturn_maintenance m on m.task = t.task
     where m.task is null or (m.next_run <= now() and coalesce(m.lease_until, '-infinity') <= now())
     order by t.nth""")
_TASK = MAINTENANCE.c
_FREE = func.coalesce(_TASK.lease_until, _LONG_AGO) <= func.now()


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A run of a task that this process has taken: its number, and the place at which the run before was cut off."""

    task: str
    number: int
    place: str | None


class Schedule:
    """The schedule in the database: hands out runs of tasks, each to one worker at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, tasks: list[str]) -> list[str]:
        """Return those of these tasks that are due and not running."""
        async with self._database.operator() as connection:
            return list((await connection.execute(DUE, {"tasks": tasks})).scalars())

    async def take(self, task: str, *, lease: timedelta, worker: str, by_hand: bool = False) -> TaskRun | None:
        """Take a run of a task; None when it is not due (unless `by_hand`), or another process runs it."""
        ready = update(MAINTENANCE).where(_TASK.task == task, _FREE)
        if not by_hand:
            ready = ready.where(_TASK.next_run <= func.now())
        taken = {"run": _TASK.run + 1, "lease_until": func.now() + lease, "worker": worker, "started_at": func.now()}
        async with self._database.operator() as connection:
            await connection.execute(insert(MAINTENANCE).values(task=task).on_conflict_do_nothing())
            row = (await connection.execute(ready.values(taken).returning(_TASK.run, _TASK.place))).one_or_none()
        return None if row is None else TaskRun(task, row.run, row.place)

    async def go_on(self, run: TaskRun, *, lease: timedelta, place: str | None, removed: int) -> bool:
        """Save a run's place and renew its lease. False: another process has the run now."""
        reached = {"lease_until": func.now() + lease, "place": place, "removed": _TASK.removed + removed}
        async with self._database.operator() as connection:
            return bool((await connection.execute(_update_run(run).values(reached))).rowcount)

    async def finish(self, run: TaskRun, *, outcome: str, pause: timedelta) -> None:
        """End a run; the next may begin after `pause`. Changes nothing when another process has the run now."""
        ended = {"lease_until": None, "ended_at": func.now(), "outcome": outcome, "next_run": func.now() + pause}
        async with self._database.operator() as connection:
            await connection.execute(_update_run(run).values(ended))


def _update_run(run: TaskRun) -> Update:
    """Return the update of a run's row that applies while this process holds its lease."""
    return update(MAINTENANCE).where(_TASK.task == run.task, _TASK.run == run.number, _TASK.lease_until.is_not(None))
