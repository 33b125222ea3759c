"""`afterturn maintenance`: run the workers' maintenance tasks now, or count what they would do."""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from deploy.cli.operator_command import exit_on_outage, record_act
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import build_database_settings, find_owner_url, find_running_stack, read_settings
from deploy.local.stack import Stack
from deploy.settings import Settings
from deploy.tables import ResultTable
from producers.mcp.bank_memory import BankMemory
from producers.service.session_summaries import RuleDigester, Summariser
from store.clock import DatabaseClock
from store.database import Database
from store.derived.vector_indexes import VectorIndexes
from store.erasure import Erasures
from store.maintenance import Consolidation, ExpiryTask, Pruning, Schedule, WordReanalysis
from store.memory.turns import TurnStore
from store.recall.jobs import RecallJobs
from workers.maintenance import Maintainer, Needs, Task, TaskOutcome, build_tasks, index_task, recall_check_task

TaskOption = Annotated[
    list[str] | None, typer.Option("--task", metavar="NAME", help="Run only this task (repeatable).")
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Count what would be pruned; change nothing.")]
ConfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A YAML or JSON file (default: AFTERTURN_CONFIG).")
]

MaintenanceRun = Callable[[Database, Sequence[Task], Maintainer], Awaitable[list[TaskOutcome]]]


def maintenance_command(
    *,
    task: TaskOption = None,
    dry_run: DryOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run maintenance tasks now instead of waiting for the workers' schedule.

    `recall_jobs` prunes expired answers; `open_turns` prunes turns of memory_run_turn without an output; `erasures`
    resumes interrupted erasures; `words` re-indexes banks whose language changed; `claims` prunes claims of dead
    workers; `ledger` prunes done turns (`maintenance.ledger_days`; their status and counts stay), `late_rows` rows that
    were opened for them later; `audit` prunes the audit of calls to the Memory Gateway (`maintenance.audit_days`);
    `calls` prunes the audit of API calls (`maintenance.calls_days`); `ending` ends what has expired, `ended` erases its
    text (`maintenance.ended_days`); `said` erases old turns permanently, with a receipt (off unless
    `maintenance.said_days` is set);
    `sessions` summarises long sessions, and `consolidation` links facts to newer ones that say the same (both off with
    `maintenance.sessions` `tool`); `digests` reads what abstracts tell of sessions;
    `recall_check` compares recall with an exact search in a bank larger than `recall.exact_units`, for the metrics;
    `vector_indexes` builds vector indexes for such banks, which needs the database's owner: `afterturn up` does it
    itself, and so does a worker that has `database.owner_url`. A task that a worker is running is reported as busy.
    Exits 1 when a task fails.

    **Example:** `afterturn maintenance --dry-run`
    """
    settings = read_settings(config)
    stack, work = find_running_stack(data, config), count_tasks if dry_run else run_tasks
    with exit_on_outage():
        told = asyncio.run(_run_maintenance(stack, settings, task, work))
    if as_json:
        print_json({"dry_run": dry_run, "tasks": [_serialise_result(one) for one in told]})
    else:
        create_console().print(_render_results(told, dry_run=dry_run))
    raise typer.Exit(1 if any(one.outcome == "failed" for one in told) else 0)


async def count_tasks(_database: Database, tasks: Sequence[Task], _maintainer: Maintainer) -> list[TaskOutcome]:
    """Print what each task would prune."""
    told = []
    for task in tasks:
        start = time.monotonic()
        found = await task.count()
        told.append(TaskOutcome(task.name, "off" if task.off else "dry", found, time.monotonic() - start, task.off))
    return told


async def run_tasks(database: Database, tasks: Sequence[Task], maintainer: Maintainer) -> list[TaskOutcome]:
    """Run each task to its end, and record in the call audit what was pruned."""
    told: list[TaskOutcome] = []
    async with record_act(database, "maintenance") as act:
        act.rows = 0
        for task in tasks:
            told.append(await maintainer.work(task, by_hand=True))
            act.rows += told[-1].removed
        act.code = "FAILED" if any(one.outcome == "failed" for one in told) else None
    return told


async def _run_maintenance(
    stack: Stack, settings: Settings, names: Sequence[str] | None, work: MaintenanceRun
) -> list[TaskOutcome]:
    database = Database(build_database_settings(stack))
    indexes = VectorIndexes(find_owner_url(stack), settings.recall.exact_units)
    try:
        clock = await DatabaseClock.asked(database)
        jobs, erasures, words = RecallJobs(database, clock), Erasures(database, clock), WordReanalysis(database)
        turns = TurnStore(database, clock)
        limits = BankMemory(settings.api.mcp.memory).limit_summaries
        summariser = Summariser(turns.summaries, turns.sessions, limits, RuleDigester(turns.digests))
        needs = Needs(
            Pruning(database),
            jobs,
            erasures,
            settings.maintenance,
            clock,
            words,
            ExpiryTask(database, clock),
            Consolidation(database, clock),
            turns.summaries,
            turns.digests,
            summariser,
        )
        others = (recall_check_task(database, settings.recall), index_task(indexes))
        tasks = {task.name: task for task in (*build_tasks(needs), *others)}
        if unknown := [name for name in names or () if name not in tasks]:
            raise exit_with(f"no such task: {', '.join(unknown)}; there are {', '.join(tasks)}", 2)
        chosen = [tasks[name] for name in names or tasks]
        maintainer = Maintainer(Schedule(database), chosen, f"{socket.gethostname()}:{os.getpid()}:cli")
        return await work(database, chosen, maintainer)
    finally:
        await indexes.close()
        await database.close()


def _serialise_result(told: TaskOutcome) -> dict[str, Any]:
    return {
        "task": told.task,
        "outcome": told.outcome,
        "removed": told.removed,
        "seconds": round(told.seconds, 3),
        "why": told.why,
    }


def _render_results(told: Sequence[TaskOutcome], *, dry_run: bool) -> ResultTable:
    gone = "would go" if dry_run else "gone"
    table = ResultTable("task", gone, "", numbers=[gone])
    for one in told:
        table.add_values(one.task, str(one.removed), one.why or one.outcome)
    return table
