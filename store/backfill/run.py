"""Copies the platform's rows into the log, says what would be copied, or compares the log with the rows.

Rows are read page by page in the order of their keys, parents before their children. An event's id follows from the
row, and what the log has already is left alone: a run that was killed is run again, and nothing is written twice.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg.exceptions import PostgresError
from sqlalchemy import ColumnElement, Exists, and_, exists, or_, select, true, tuple_
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from store.backfill.conversion import (
    BANK,
    TABLES,
    BankPlace,
    Row,
    SourceTable,
    build_event,
    normalise_json,
    parse_times,
    place_bank,
)
from store.database import ONE_PLAN, Database
from store.derived.completion import complete_bank
from store.errors import InvalidEvent
from store.log.append import read_versions
from store.log.bulk import BATCH, append_bulk
from store.off_loop import run_off_loop
from store.schema import EVENT_STORE
from store.text.redaction import Redaction

#: Whether all rows are there that a row names; read with each row.
WHOLE = "whole"
#: Refused rows that a report names.
NAMED = 20
Progress = Callable[[str, int], None]


class UnusableSource(Exception):
    """The database cannot be read as the platform's; the text says why."""


@dataclass
class TableCounts:
    """The rows of a table: those read, and what became or would become of them.

    `known`: the log has them already. `inactive`: ended in the platform, and not brought back. `orphaned`: their parent
    was not copied. `refused`: the log does not take them. `different` and `missing`: a comparison found the log's event
    otherwise, or none.
    """

    read: int = 0
    written: int = 0
    known: int = 0
    inactive: int = 0
    orphaned: int = 0
    refused: int = 0
    different: int = 0
    missing: int = 0

    def as_json(self) -> dict[str, int]:
        """Return the counts by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass
class BackfillReport:
    """The counts of every table; the first refused, missing and different rows by table and key, with the reason."""

    tables: dict[str, TableCounts] = field(default_factory=lambda: {one.name: TableCounts() for one in TABLES})
    named: list[str] = field(default_factory=list)
    words: int = 0
    vectors: int = 0

    def total(self, name: str) -> int:
        """Return a count over all tables."""
        return sum(getattr(one, name) for one in self.tables.values())

    @property
    def mismatches(self) -> int:
        """How many rows the log has not, or otherwise."""
        return self.total("missing") + self.total("different")

    def name_row(self, source: SourceTable, row: Row, why: str) -> None:
        """Keep a row's key and a reason, of the first ones."""
        if len(self.named) < NAMED:
            self.named.append(f"{source.name} {'|'.join(map(str, source.key(row)))}: {why}")


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows of one table with their events."""

    source: SourceTable
    rows: Sequence[Row]
    events: Sequence[dict[str, Any]]


class Backfill:
    """One tenant's rows, from an engine of the platform's database into the log of `database`.

    `platform_host`: the platform's id of the host; None: the only one there. `progress` hears of each page: the table,
    and how many of its rows were read.
    """

    def __init__(
        self,
        database: Database,
        source: AsyncEngine,
        host: UUID,
        *,
        platform_host: UUID | None = None,
        redaction: Redaction = Redaction.KEYS,
        progress: Progress = lambda _table, _rows: None,
        page: int = BATCH,
    ) -> None:
        self._database, self._source, self._host = database, source, host
        self._told_host, self._redaction, self._progress, self._page = platform_host, redaction, progress, page
        self._places: dict[UUID, BankPlace] = {}
        self._left: dict[str, set[tuple[Any, ...]]] = {}
        self.report = BackfillReport()

    async def plan(self) -> BackfillReport:
        """Count what would be written; change nothing. Raises UnusableSource."""
        async for batch in self._read_batches():
            new = await self._find_new(batch)
            self._count(batch, len(new))
        return self.report

    async def apply(self, now: datetime) -> BackfillReport:
        """Write what the log has not yet, with its words, counts and work. Raises UnusableSource, StoreError."""
        async for batch in self._read_batches():
            new = await self._find_new(batch)
            done = await append_bulk(self._database, self._host, new)
            self._count(batch, done.appended)
        begin = partial(self._database.tenant, self._host, ONE_PLAN)
        for n, place in enumerate(self._places.values(), 1):
            made = await complete_bank(begin, self._host, place.bank, now)
            self.report.words += made.words
            self.report.vectors += made.vectors
            self._progress("derived state", n)
        return self.report

    async def verify(self) -> BackfillReport:
        """Compare the log with the rows; change nothing. What has changed here since is no mismatch."""
        async for batch in self._read_batches():
            await self._compare(batch)
        return self.report

    async def _read_batches(self) -> AsyncIterator[_Batch]:
        host = await self._find_host()
        for source in TABLES:
            counts = self.report.tables[source.name]
            async for rows in self._read_pages(source, host):
                counts.read += len(rows)
                taken = [row for row in rows if self._may_take(source, row, counts)]
                size = sum(len(str(row.get("content") or row.get("messages") or "")) for row in taken)
                yield _Batch(source, *await run_off_loop(size + len(taken) * 64, self._convert, source, taken, counts))
                self._progress(source.name, counts.read)

    async def _find_host(self) -> UUID:
        banks = next(one for one in TABLES if one.name == BANK).table
        with _translate_errors(f"the database of the rows has no table {BANK} that can be read"):
            async with self._source.connect() as connection:
                found: set[UUID] = set((await connection.scalars(select(banks.c.host_id).distinct().limit(100))).all())
                told = self._told_host
                named = told is not None and await connection.scalar(select(exists().where(banks.c.host_id == told)))
        if told is not None and named:
            return told
        if found and (told is not None or len(found) > 1):
            missing = "" if told is None else f"{BANK} has no row of the host {told}; "
            raise UnusableSource(
                f"{missing}there are {len(found)} hosts: name one of {', '.join(map(str, sorted(found)))}"
            )
        if not found:
            raise UnusableSource(f"{BANK} is empty")
        return found.pop()

    async def _read_pages(self, source: SourceTable, host: UUID) -> AsyncIterator[Sequence[Row]]:
        keys = [source.table.c[name] for name in source.keys]
        page = (
            select(*source.selected, _has_parents(source).label(WHOLE))
            .where(source.table.c.host_id == host)
            .order_by(*keys)
            .limit(self._page)
        )
        after: tuple[Any, ...] | None = None
        while True:
            query = page if after is None else page.where(tuple_(*keys) > tuple_(*after))
            with _translate_errors(f"{source.name} cannot be read as the platform's table"):
                async with self._source.connect() as connection:
                    rows: Sequence[Row] = [dict(row) for row in (await connection.execute(query)).mappings()]
            if rows:
                after = source.key(rows[-1])
                yield rows
            if len(rows) < self._page:
                return

    def _may_take(self, source: SourceTable, row: Row, counts: TableCounts) -> bool:
        """Return whether a row is living and so are its parents; what is left is not a parent, either."""
        if source.name == BANK and row["active"]:
            self._places[row["bank_id"]] = place_bank(self._host, row)
        if source.versioned and not row["active"]:
            counts.inactive += 1
            self._leave(source, row)
            return False
        parents = ((table, (row["bank_id"], row[name])) for name, table in source.parents.items() if row[name])
        left = any(key in self._left.get(table, ()) for table, key in parents)
        if row["bank_id"] not in self._places or left or not row[WHOLE]:
            counts.orphaned += 1
            self._leave(source, row)
            return False
        return True

    def _leave(self, source: SourceTable, row: Row) -> None:
        self._left.setdefault(source.name, set()).add(source.key(row))
        if source.name == BANK:
            self._places.pop(row["bank_id"], None)

    def _convert(
        self, source: SourceTable, rows: Sequence[Row], counts: TableCounts
    ) -> tuple[list[Row], list[dict[str, Any]]]:
        taken, events = list[Row](), list[dict[str, Any]]()
        for row in rows:
            try:
                events.append(build_event(source, parse_times(row), self._places[row["bank_id"]], self._redaction))
            except InvalidEvent as refusal:
                counts.refused += 1
                self.report.name_row(source, row, str(refusal))
                self._leave(source, row)
            else:
                taken.append(row)
        return taken, events

    async def _find_new(self, batch: _Batch) -> list[dict[str, Any]]:
        """Return the events of aggregates that the log does not know in any version, ended and erased ones included."""
        subjects = [event["subject"] for event in batch.events]
        async with self._database.tenant(self._host) as connection:
            versions = await read_versions(connection, self._host, subjects)
        return [event for event in batch.events if not versions[event["subject"]]]

    def _count(self, batch: _Batch, written: int) -> None:
        counts = self.report.tables[batch.source.name]
        counts.written += written
        counts.known += len(batch.events) - written

    async def _compare(self, batch: _Batch) -> None:
        counts, event = self.report.tables[batch.source.name], EVENT_STORE.c
        query = select(event.id, event.aggregate_version, event.data, event.metadata).where(
            event.host_id == self._host, event.id.in_([UUID(one["id"]) for one in batch.events])
        )
        async with self._database.tenant(self._host) as connection:
            logged = {str(row.id): row for row in await connection.execute(query)}
        unknown = {event["id"] for event in await self._find_new(batch)}
        for row, offered in zip(batch.rows, batch.events, strict=True):
            found = logged.get(offered["id"])
            if found is not None and _is_same(found, offered):
                counts.known += 1
            elif found is not None:
                counts.different += 1
                self.report.name_row(batch.source, row, "the log's event is another")
            elif offered["id"] in unknown:
                counts.missing += 1
                self.report.name_row(batch.source, row, "the log has no event of it")
            else:
                # It was there before: a command or a turn made it.
                counts.known += 1


def _has_parents(source: SourceTable) -> ColumnElement[bool]:
    """Return whether every row that a row names is in its table: not each database of the platform has foreign keys."""
    row, tables = source.table.c, {one.name: one for one in TABLES}
    named = [(row[name], tables[table]) for name, table in source.parents.items()]
    return and_(true(), *(or_(column.is_(None), _is_there(row, column, parent)) for column, parent in named))


def _is_there(row: ReadOnlyColumnCollection[str, Any], named: ColumnElement[Any], parent: SourceTable) -> Exists:
    there = parent.table.alias().c
    [key] = parent.ids
    return exists().where(there.host_id == row.host_id, there.bank_id == row.bank_id, there[key] == named)


@contextmanager
def _translate_errors(unreadable: str) -> Iterator[None]:
    """Turn errors of the platform's database into UnusableSource: they are none of this service's."""
    try:
        yield
    except ProgrammingError:
        raise UnusableSource(unreadable) from None
    except (SQLAlchemyError, PostgresError, OSError) as error:
        cause = type(getattr(error, "orig", None) or error).__name__
        raise UnusableSource(f"the database of the rows does not answer ({cause}): see DATABASE_URL") from None


def _is_same(found: Any, offered: Mapping[str, Any]) -> bool:
    """Return whether the log holds the event as the row says; an erased one is none that could differ."""
    if found.data.get("erased"):
        return True
    told = normalise_json(offered["data"]), offered["version"], offered["metadata"]
    return (found.data, found.aggregate_version, found.metadata) == told


def list_counts(report: BackfillReport) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield each table with its counts, in the order in which they are copied."""
    yield from ((one.name, report.tables[one.name].as_json()) for one in TABLES)
