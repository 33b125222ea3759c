"""`afterturn generate`: synthetic events of every type, for replay and measurements."""

import asyncio
import shlex
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TimeRemainingColumn
from sqlalchemy.exc import SQLAlchemyError

from deploy.cli import name_arguments
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import exit_with, print_json
from deploy.cli.running_stack import build_database_settings, find_running_stack
from deploy.components.bootstrap import HOST
from deploy.lab.bench.history import History
from deploy.local.stack import Stack
from deploy.notices import print_notice
from store import identity
from store.database import Database
from store.errors import StoreError
from store.log.bulk import BATCH, append_bulk


def generate_command(
    *,
    events: Annotated[int, typer.Option(min=1, help="Number of events.")],
    seed: Annotated[int, typer.Option(help="The same seed makes the same history.")] = 1,
    bank: Annotated[
        str | None,
        typer.Option(
            parser=name_arguments.parse_bank,
            metavar="NAME",
            help="The bank it is written into (default: generated-SEED).",
        ),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a generated history of every event type into the running stack, in bulk.

    The same seed and bank make the same events: those the log knows change nothing, a greater number goes on. It is
    for replay and measuring: no stage reads it. `afterturn embed` makes vectors of its texts, and recall finds them.

    **Example:** `afterturn generate --events 100000 --seed 7`
    """
    stack = find_running_stack(data)
    try:
        made = asyncio.run(_write_history(stack, bank or f"generated-{seed}", events, seed))
    except (SQLAlchemyError, OSError) as error:
        raise exit_with(f"the database of the stack does not answer ({type(error).__name__})", 1) from None
    except StoreError as error:
        raise exit_with(f"the log refused the history: {error}", 1) from None
    if as_json:
        print_json(made)
    else:
        print_notice(
            f"{made['appended']} events written, {made['known']} known, into {made['bank']} in {made['seconds']} s"
        )
        print_notice(
            f"its texts have no vectors yet: `{shlex.join(['afterturn', 'embed', '--bank', made['bank']])}` makes them"
        )


async def _write_history(stack: Stack, bank: str, count: int, seed: int) -> dict[str, Any]:
    host, started = identity.host_id(HOST), time.monotonic()
    history, appended = History(host, bank, seed), 0
    database = Database(build_database_settings(stack))
    try:
        with _create_progress() as progress:
            task = progress.add_task("events", total=count)
            for start in range(0, count, BATCH):
                part = min(BATCH, count - start)
                appended += (await append_bulk(database, host, history.events(part))).appended
                progress.advance(task, part)
    finally:
        await database.close()
    seconds = round(time.monotonic() - started, 3)
    return {"events": count, "appended": appended, "known": count - appended, "bank": bank, "seconds": seconds}


def _create_progress() -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
