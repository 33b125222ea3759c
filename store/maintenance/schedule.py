"""When each task of maintenance runs next, in one row each: many workers look, one of them runs it.

A run is held under a lease and a rising number. A killed worker loses the lease after a while, and the next
goes on at the place that was written last; a late one finds a higher number, writes nothing, and stops.
A time that was missed is not made up for: the next run is counted from the end of the last. Times are the database's,
since the workers' clocks may differ.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from store.database import Database

KNOWN = text("insert into public.afterturn_maintenance (task) values (:task) on conflict do nothing")
DUE = text("""
    select t.task from unnest(cast(:tasks as text[])) with ordinality as t(task, nth)
      left join public.afterturn_maintenance m on m.task = t.task
     where m.task is null or (m.next_run <= now() and coalesce(m.lease_until, '-infinity') <= now())
     order by t.nth""")
TAKE = text("""
    update public.afterturn_maintenance
       set run = run + 1, lease_until = now() + :lease, worker = :worker, started_at = now()
     where task = :task and (:by_hand or next_run <= now()) and coalesce(lease_until, '-infinity') <= now()
    returning run, place""")
GO_ON = text("""
    update public.afterturn_maintenance
       set lease_until = now() + :lease, place = :place, removed = removed + :removed
     where task = :task and run = :run and lease_until is not null returning true""")
FINISH = text("""
    update public.afterturn_maintenance
       set lease_until = null, ended_at = now(), outcome = :outcome, next_run = now() + :pause
     where task = :task and run = :run and lease_until is not null""")
PLANNED = text("""
    select task, nullif(next_run, '-infinity'), coalesce(lease_until > now(), false),
           started_at, ended_at, outcome, removed
      from public.afterturn_maintenance order by task""")


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a task that is ours: its number, and where the one before was cut short."""

    task: str
    number: int
    place: str | None


@dataclass(frozen=True, slots=True)
class Planned:
    """How a task stands; `removed` counts what all its runs put away."""

    task: str
    next_run: datetime | None
    running: bool
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    removed: int


class Schedule:
    """Hands out runs of tasks, each to one worker at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, tasks: list[str]) -> list[str]:
        """List those of these tasks that are due and not running."""
        async with self._database.operator() as connection:
            return list((await connection.execute(DUE, {"tasks": tasks})).scalars())

    async def take(self, task: str, *, lease: timedelta, worker: str, by_hand: bool = False) -> Run | None:
        """Take a run, by hand whether it is time or not; None when it is not, or another process runs it."""
        arguments = {"task": task, "lease": lease, "worker": worker, "by_hand": by_hand}
        async with self._database.operator() as connection:
            await connection.execute(KNOWN, {"task": task})
            row = (await connection.execute(TAKE, arguments)).one_or_none()
        return None if row is None else Run(task, row.run, row.place)

    async def go_on(self, run: Run, *, lease: timedelta, place: str | None, removed: int) -> bool:
        """Write how far a run has come and prolong its lease. False: another process has it now."""
        arguments = {"task": run.task, "run": run.number, "lease": lease, "place": place, "removed": removed}
        async with self._database.operator() as connection:
            return bool((await connection.execute(GO_ON, arguments)).scalar())

    async def finish(self, run: Run, *, outcome: str, pause: timedelta) -> None:
        """End a run; the next one may begin after `pause`. Changes nothing when another process has it now."""
        arguments = {"task": run.task, "run": run.number, "outcome": outcome, "pause": pause}
        async with self._database.operator() as connection:
            await connection.execute(FINISH, arguments)

    async def planned(self) -> list[Planned]:
        """Say how every task that ever ran stands."""
        async with self._database.operator() as connection:
            return [Planned(*row) for row in await connection.execute(PLANNED)]
