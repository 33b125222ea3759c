"""`afterturn generate`: synthetic events of every type, for replay and measurements."""

import asyncio
import time
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TimeRemainingColumn

from deploy.cli import name_arguments
from deploy.cli.operator_command import exit_on_outage
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import exit_with, print_json
from deploy.cli.running_stack import build_database_settings, find_running_stack
from deploy.components.bootstrap import HOST
from deploy.lab.bench.history import History
from deploy.local.stack import Stack
from deploy.notices import print_notice
from store import identity
from store.database import ONE_PLAN, Database
from store.derived.completion import complete_bank
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
    for replay and measuring: no stage extracts facts from it. Recall finds its texts by their words at once, and by
    their meaning when workers have made the vectors.

    **Example:** `afterturn generate --events 100000 --seed 7`
    """
    stack = find_running_stack(data)
    try:
        with exit_on_outage():
            made = asyncio.run(_write_history(stack, bank or f"generated-{seed}", events, seed))
    except StoreError as error:
        raise exit_with(f"the log refused the history: {error}", 1) from None
    if as_json:
        print_json(made)
    else:
        print_notice(
            f"{made['appended']} events written, {made['known']} known, into {made['bank']} in {made['seconds']} s"
        )
        print_notice(f"{made['words']} texts are found by their words; workers make {made['vectors']} vectors")


async def _write_history(stack: Stack, bank: str, count: int, seed: int) -> dict[str, Any]:
    host, started = identity.host_id(HOST), time.monotonic()
    history, appended, banks = History(host, bank, seed), 0, set[UUID]()
    database = Database(build_database_settings(stack))
    try:
        with _create_progress() as progress:
            task = progress.add_task("events", total=count)
            for start in range(0, count, BATCH):
                part = list(history.events(min(BATCH, count - start)))
                appended += (await append_bulk(database, host, part)).appended
                banks.update(UUID(event["bank"]) for event in part)
                progress.advance(task, len(part))
        begin, at = partial(database.tenant, host, ONE_PLAN), datetime.now(UTC)
        made = [await complete_bank(begin, host, one, at) for one in sorted(banks)]
    finally:
        await database.close()
    seconds = round(time.monotonic() - started, 3)
    return {
        "events": count,
        "appended": appended,
        "known": count - appended,
        "bank": bank,
        "words": sum(one.words for one in made),
        "vectors": sum(one.vectors for one in made),
        "seconds": seconds,
    }


def _create_progress() -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
