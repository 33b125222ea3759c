"""`afterturn backfill`: bring over what agents of light-portal wrote directly into that platform's tables."""

import os
from datetime import UTC, datetime
from functools import partial
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from deploy.cli.existence import find_host_id, require_existing
from deploy.cli.operator_command import AuditedAct, run_audited, run_on_database
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.plugin_environment import open_engine
from deploy.cli.running_stack import find_running_stack
from deploy.components.bootstrap import HOST
from deploy.notices import print_notice
from deploy.tables import ResultTable
from store.backfill.run import Backfill, BackfillReport, UnusableSource, list_counts
from store.database import Database
from store.errors import InvalidDatabaseUrl, StoreError
from store.text.redaction import Redaction


def backfill_command(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be written; change nothing.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Write what the log has not yet.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the log with the rows; exit 1 for a mismatch.")
    ] = False,
    host: Annotated[
        str, typer.Option(metavar="NAME", help="The tenant that the rows become memory of, by name or id.")
    ] = HOST,
    platform_host: Annotated[
        UUID | None, typer.Option(metavar="UUID", help="The platform's id of the host (default: the only one there).")
    ] = None,
    redaction: Annotated[
        Redaction, typer.Option(help="Which secrets are replaced in texts: keys, all (also runs of base64), or off.")
    ] = Redaction.KEYS,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring over memory that light-portal's agents wrote directly into that platform's tables.

    DATABASE_URL names the database of these rows. They become events in the order of their dependencies, with their
    versions, marked `source: agent-memory-backfill` and `backfilled: true`. Vectors are left out and made anew by
    workers. Ended rows stay ended. A run that was interrupted is run again: what the log has is left alone. Exits 1
    when a row was refused or differs, 2 for wrong usage. Stop the agents' direct writes first; run `--verify`
    afterwards.

    **Example:** `DATABASE_URL=postgresql://... afterturn backfill --apply --host acme`
    """
    if dry_run + apply + verify != 1:
        raise exit_with("specify exactly one of --dry-run, --apply and --verify", 2)
    url = os.environ.get("DATABASE_URL", "")
    if not url:
        raise exit_with("DATABASE_URL must name the platform's database, where the rows are", 2)
    stack = find_running_stack(data)
    require_existing(stack, host, None)
    host_id = find_host_id(host)

    async def work(database: Database, act: AuditedAct | None = None) -> BackfillReport:
        async with open_engine(url) as engine:
            if engine is None:
                raise UnusableSource("DATABASE_URL is empty")
            with _create_progress() as progress:
                task = progress.add_task("", total=None, rows=0)
                tell = partial(_show_page, progress, task)
                run = Backfill(
                    database, engine, host_id, platform_host=platform_host, redaction=redaction, progress=tell
                )
                if act is not None:
                    report = await run.apply(datetime.now(UTC))
                    act.rows = report.total("written")
                    return report
                return await (run.plan() if dry_run else run.verify())

    try:
        report = run_audited(stack, "backfill --apply", host_id, work) if apply else run_on_database(stack, work)
    except InvalidDatabaseUrl as error:
        raise exit_with(f"DATABASE_URL: {error}", 2) from None
    except UnusableSource as error:
        raise exit_with(str(error), 2) from None
    except StoreError as error:
        raise exit_with(f"the log refused a row: {error}; run it again to go on", 1) from None
    _show_report(report, as_json=as_json)
    raise typer.Exit(1 if report.total("refused") or report.mismatches else 0)


def _show_report(report: BackfillReport, *, as_json: bool) -> None:
    if as_json:
        made = {"words": report.words, "vectors": report.vectors}
        print_json(
            {"tables": dict(list_counts(report)), "mismatches": report.mismatches, **made, "named": report.named}
        )
        return
    names = ("read", "written", "known", "inactive", "orphaned", "refused", "different", "missing")
    table = ResultTable("table", *names, numbers=names)
    for name, counts in list_counts(report):
        table.add_values(name, *(str(counts[one]) for one in counts))
    create_console().print(table)
    for line in report.named:
        print_notice(line)
    print_notice(f"{report.mismatches} mismatches")


def _create_progress() -> Progress:
    columns = (TextColumn("{task.description}"), TextColumn("{task.fields[rows]} rows"), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _show_page(progress: Progress, task: int, name: str, rows: int) -> None:
    progress.update(task, description=name, rows=rows)  # type: ignore[arg-type]  # a TaskID is an int
