"""Appending many events at once: binary COPY into a stage, then one insert, in transactions of a few thousand."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.events.refusals import refusals

#: Events of one transaction: long enough to be fast, short enough not to hold back readers of the log.
BATCH = 2000

STAGE = text("""
    create temp table if not exists bulk_event (
        ord int, id uuid, type text, aggregate text, subject text, bank uuid, "user" uuid, ts timestamptz,
        version bigint, payload jsonb, metadata jsonb) on commit delete rows""")
APPEND = text("select afterturn.append_bulk(:host, :if_absent, :project)")
COLUMNS = ("ord", "id", "type", "aggregate", "subject", "bank", "user", "ts", "version", "payload", "metadata")


@dataclass(frozen=True, slots=True)
class Loaded:
    """How many events were new, and how many the log knew already."""

    appended: int
    known: int


async def append_bulk(
    database: Database,
    host: UUID,
    events: Iterable[Mapping[str, Any]],
    *,
    project: bool = True,
    if_absent: bool = False,
    batch: int = BATCH,
) -> Loaded:
    """Append events made by `offer` or `reoffer`, in their order, a transaction for each batch.

    `events` is drawn from in a thread, a batch ahead. Each batch follows the rules of `append_events` and holds its
    banks alone. `project=False` writes the log only: a repair must follow before anything reads. A refusal
    (ConcurrencyError, VersionGap, MissingParent) ends the load; what earlier batches wrote stays, and the same load
    may be sent again.
    """
    offered, appended = 0, 0
    stream = iter(events)
    chunk = _records(islice(stream, batch))
    while chunk:
        async with database.tenant(host) as connection:
            await _stage(connection, chunk)
            # The next batch is made ready while the database works on this one, and not while this one is sent: both
            # would want this process alone.
            following = asyncio.create_task(asyncio.to_thread(_records, islice(stream, batch)))
            try:
                with refusals():
                    written = await connection.execute(
                        APPEND, {"host": host, "if_absent": if_absent, "project": project}
                    )
                appended += int(written.scalar_one())
            finally:
                offered += len(chunk)
                chunk = await following
    return Loaded(appended, offered - appended)


async def _stage(connection: AsyncConnection, records: Sequence[tuple[Any, ...]]) -> None:
    await connection.execute(STAGE)
    driver: Any = (await connection.get_raw_connection()).driver_connection
    await driver.copy_records_to_table("bulk_event", records=records, columns=COLUMNS)


def _records(events: Iterator[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
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
            orjson.dumps(event["payload"]).decode(),
            orjson.dumps(event["metadata"]).decode() if event.get("metadata") else None,
        )
        for ord_, event in enumerate(events)
    ]
