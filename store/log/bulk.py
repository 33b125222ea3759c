"""Appends many events at once: binary COPY into a staging table, then one insert, a few thousand at a time."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from asyncpg.exceptions import InterfaceError
from sqlalchemy import text

from store.database import Database
from store.log.refusals import translate_refusals

#: Events per transaction: enough to be fast, and few enough not to delay readers of the log.
BATCH = 2000

# Also emptied at the beginning, because an interrupted writer may have left another tenant's events there.
STAGE = """
    create temp table if not exists bulk_event (
        ord int, id uuid, type text, aggregate text, subject text, bank uuid, "user" uuid, ts timestamptz,
        version bigint, data jsonb, metadata jsonb);
    truncate pg_temp.bulk_event"""
EMPTY = "truncate pg_temp.bulk_event"
APPEND = text("select afterturn.append_bulk(:host, false, :project, :wait)")
COLUMNS = ("ord", "id", "type", "aggregate", "subject", "bank", "user", "ts", "version", "data", "metadata")


@dataclass(frozen=True, slots=True)
class BulkLoadResult:
    """The result of a load: how many events were new, and how many the log knew already."""

    appended: int
    known: int


async def append_bulk(
    database: Database,
    host: UUID,
    events: Iterable[Mapping[str, Any]],
    *,
    project: bool = True,
    batch: int = BATCH,
) -> BulkLoadResult:
    """Append events made by `build_offer` or `build_command`, in order, a transaction for each batch.

    `events` is iterated in a thread. Each batch follows the rules of `append_events` and locks its banks exclusively.
    `project=False` writes the log only: a repair must follow before anything reads. A refusal (ConcurrencyError,
    VersionGap, MissingParent) ends the load; earlier batches stay, and the same load may be sent again.
    """
    write = partial(_write_batch, database, {"host": host, "project": project})
    stream = iter(events)
    offered, appended = 0, 0
    last: asyncio.Task[int] | None = None
    try:
        chunk = _build_records(islice(stream, batch))
        while chunk:
            # While the server works on one batch, the next is sent over another connection, and a third made ready.
            offered += len(chunk)
            following = await asyncio.to_thread(_build_records, islice(stream, batch))
            before, last = last, asyncio.create_task(write(chunk, last, wait=not following))
            appended += await before if before else 0
            chunk = following
        appended += await last if last else 0
    finally:
        if last:
            last.cancel()
            await asyncio.gather(last, return_exceptions=True)
    return BulkLoadResult(appended, offered - appended)


async def _write_batch(
    database: Database,
    arguments: Mapping[str, object],
    records: Sequence[tuple[Any, ...]],
    before: asyncio.Task[int] | None,
    *,
    wait: bool,
) -> int:
    """Copy events into the staging table at once, append them after the batch before; return how many were new.

    `wait`: the commit waits for the disk; that of the last batch covers those before it.

    Staging and appending are two transactions: a single one would commit later under an older xid than the batch it
    waited for, and readers of the log would see its events in the wrong order.
    """
    async with database.call() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await driver.execute(STAGE)
        try:
            await driver.copy_records_to_table("bulk_event", records=records, columns=COLUMNS)
            if before:
                await asyncio.wait([before])
                before.result()
            with translate_refusals():
                return int((await connection.execute(APPEND, {**arguments, "wait": wait})).scalar_one())
        finally:
            with suppress(InterfaceError, OSError):  # the staging table of a closed connection is gone
                await driver.execute(EMPTY)


def _build_records(events: Iterator[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            ord_,
            UUID(event["id"]),
            event["type"],
            event["aggregate"],
            event["subject"],
            UUID(event["bank"]),
            UUID(event["user"]),
            datetime.fromisoformat(event["ts"]),
            event["version"],
            orjson.dumps(event["data"]).decode(),
            orjson.dumps(event["metadata"]).decode() if event.get("metadata") else None,
        )
        for ord_, event in enumerate(events)
    ]
