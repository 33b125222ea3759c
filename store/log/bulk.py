"""Appends many events at once, a few thousand in one statement."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import orjson

from store.database import Database
from store.log.refusals import translate_refusals
from store.off_loop import iterate_giving_way

#: Events per transaction: enough to be fast, and few enough not to delay readers of the log.
BATCH = 2000

#: Events by their columns, as APPEND takes them.
Columns = Sequence[Sequence[Any]]
APPEND = "select afterturn.append_columns($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
EMPTY: Columns = ((),) * 10


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
    stream = iter(events)
    offered, known = 0, list[int]()
    writing: asyncio.Task[list[int] | None] | None = None
    try:
        chunk = await asyncio.to_thread(build_columns, islice(stream, batch))
        while chunk[0]:
            # While the server works on one batch, the one after the next is made ready.
            following = await asyncio.to_thread(build_columns, islice(stream, batch))
            known += (await writing or ()) if writing else ()
            # The commit of the last batch waits for the disk, and covers those before it.
            settings = (False, project, not following[0], False)
            writing = asyncio.create_task(_append_columns(database, host, chunk, *settings))
            offered, chunk = offered + len(chunk[0]), following
        known += (await writing or ()) if writing else ()
    finally:
        if writing:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
    return BulkLoadResult(offered - len(known), len(known))


async def append_absent(
    database: Database, host: UUID, columns: Columns, *, unerased: bool = False
) -> list[int] | None:
    """Append those of some thousand events that are new, in one transaction; return the places of the others, from 0.

    Not new is an event whose id the log knows, or whose aggregate has its version or a higher one. The commit does not
    wait for the disk: one that does must follow. `unerased`: nothing is appended where the tenant has erased a user, a
    session or the like, and the result is None. Raises EventRefused, and nothing is appended.
    """
    settings = (True, True, False, unerased)
    places = await _append_columns(database, host, columns, *settings)
    return None if places is None else [place - 1 for place in places]


async def _append_columns(database: Database, host: UUID, columns: Columns, *settings: bool) -> list[int] | None:
    """Return the places of the events that were not new, from 1; `settings` are the function's."""
    with translate_refusals():
        [row] = await database.fetch(APPEND, host, *columns, *settings)
    places: list[int] | None = row[0]
    return places


def build_columns(events: Iterable[Mapping[str, Any]]) -> Columns:
    """Return events made by `build_offer` or `build_command` by their columns."""
    rows = [
        (
            event["id"],
            event["type"],
            event["aggregate"],
            event["subject"],
            event["bank"],
            event["user"],
            datetime.fromisoformat(event["ts"]),
            event["version"],
            orjson.dumps(event["data"]).decode(),
            orjson.dumps(event["metadata"]).decode() if event.get("metadata") else None,
        )
        for event in iterate_giving_way(events)
    ]
    return tuple(zip(*rows, strict=True)) or EMPTY
