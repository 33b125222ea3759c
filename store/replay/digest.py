"""Compares live tables with the shadow: one digest a table, and the keys of differing rows.

A row counts as its canonical jsonb text (columns in jsonb's order, times in UTC), without columns that the projection
stage fills later. A history includes its messages that no unit holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import (
    ColumnElement,
    FromClause,
    LargeBinary,
    Select,
    Text,
    TextualSelect,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    select,
    table,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection

from store.log.catalog import AGGREGATES, Aggregate
from store.replay.report import Difference, TableReport
from store.replay.shadow import ReplayScope

#: The most differences that are reported for each table.
NAMED = 5

_SCOPE = bindparam("host", type_=Uuid), bindparam("bank", type_=Uuid)
Rows = Select[*tuple[Any, ...]] | TextualSelect


def in_scope(rows: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row is of the replayed host and bank, where these are given."""
    inside: ColumnElement[bool] = func.afterturn.in_scope(rows.c.host_id, rows.c.bank_id, *_SCOPE)
    return inside


def select_rows_as_json(query: str, key: Sequence[str]) -> TextualSelect:
    """Return an expression of a textual query of the columns `key` and of the row as jsonb, `row_json`."""
    return text(query).columns(*(column(name) for name in key), column("row_json", JSONB))


@dataclass(frozen=True, slots=True)
class Compared:
    """An event-backed table: its key, the columns that are counted later, and whether it has messages of its own."""

    table: str
    key: tuple[str, ...]
    counted: tuple[str, ...]
    has_messages: bool

    def select_rows(self, schema: str) -> Select[*tuple[Any, ...]]:
        """Return the query of the key and the row as jsonb, `row_json`, of each row in a schema."""
        rows = table(self.table, *(column(name) for name in self.key), schema=schema).alias("t")
        row_json: ColumnElement[Any] = func.to_jsonb(literal_column("t"), type_=JSONB)
        for name in self.counted:
            row_json = row_json.op("-")(name)
        if self.has_messages:
            row_json = row_json.op("||")(_collect_messages(rows, schema))
        return select(*(rows.c[name] for name in self.key), row_json.label("row_json")).where(in_scope(rows))


def _collect_messages(history: FromClause, schema: str) -> ColumnElement[Any]:
    names = ("host_id", "bank_id", "session_id")
    message = table("session_message_t", column("seq"), *(column(name) for name in names), schema=schema).alias("m")
    messages = (
        select(func.jsonb_agg(aggregate_order_by(func.to_jsonb(literal_column("m")), message.c.seq)))
        .where(*(message.c[name] == history.c[name] for name in names))
        .scalar_subquery()
    )
    return func.jsonb_build_object("messages", messages)


COMPARED = tuple(
    Compared(
        spec.table, ("host_id", "bank_id", *spec.ids.values()), tuple(spec.counted), aggregate is Aggregate.SESSION
    )
    for aggregate, spec in AGGREGATES.items()
)


# The tables that a bank's derived state is computed from.
DERIVED_FROM = (
    "agent_memory_unit_t",
    "agent_memory_entity_t",
    "agent_memory_unit_entity_t",
    "agent_memory_reflection_t",
)


@dataclass(frozen=True, slots=True, order=True)
class BankIdentity:
    """A bank and its host."""

    host: UUID
    bank: UUID


async def compare_tables(connection: AsyncConnection, schema: str, scope: ReplayScope) -> list[TableReport]:
    """Compare every event-backed table with its shadow, in a transaction that shows both at the same log position."""
    return [await _compare_table(connection, schema, scope, compared) for compared in COMPARED]


async def find_changed_banks(
    connection: AsyncConnection, schema: str, scope: ReplayScope, reports: Sequence[TableReport]
) -> list[BankIdentity]:
    """Return the banks whose derived state is to be rebuilt: rows that it depends on differ, by `reports`."""
    wrong = {one.table for one in reports if not one.equal}.intersection(DERIVED_FROM)
    found = set[BankIdentity]()
    for compared in (one for one in COMPARED if one.table in wrong):
        query = _select_changed_banks(compared, schema)
        rows = await connection.execute(query, {"host": scope.host, "bank": scope.bank})
        found.update(BankIdentity(*row) for row in rows)
    return sorted(found)


def _select_changed_banks(compared: Compared, schema: str) -> Select[UUID, UUID]:
    live, shadow = (compared.select_rows(where).subquery() for where in ("afterturn", schema))
    bank = [func.coalesce(live.c[name], shadow.c[name]).label(name) for name in ("host_id", "bank_id")]
    return (
        select(*bank)
        .distinct()
        .join_from(live, shadow, and_(*(live.c[name] == shadow.c[name] for name in compared.key)), full=True)
        .where(live.c.row_json.is_distinct_from(shadow.c.row_json))
        .order_by(*bank)
    )


async def find_first_differences(
    connection: AsyncConnection,
    arguments: Mapping[str, Any],
    key: Sequence[str],
    sides: tuple[Rows, Rows],
    *,
    right: str,
    shown: Sequence[str] | None = None,
) -> list[Difference]:
    """Return the first rows that differ between two queries of `key` and of the row as jsonb, `row_json`.

    `right` names the second side in a difference; `shown` are the columns of `key` that identify a row.
    """
    query = _select_differences(key, sides, right, key if shown is None else shown)
    return [
        Difference(orjson.loads(row.key), row.found, tuple(row.columns or ()))
        for row in await connection.execute(query, arguments)
    ]


def _select_differences(
    key: Sequence[str],
    sides: tuple[Rows, Rows],
    right: str,
    shown: Sequence[str],
) -> Select[str, str, Sequence[str]]:
    live, other = sides[0].subquery("live"), sides[1].subquery("other")
    row = {name: func.coalesce(live.c[name], other.c[name]) for name in key}
    named = (_name_column(name, row[name]) for name in shown)
    columns = live.c.row_json.op("||")(other.c.row_json)
    names = func.jsonb_object_keys(columns).table_valued("name").render_derived("n")
    differ = (
        select(names.c.name)
        .where(live.c.row_json.op("->")(names.c.name).is_distinct_from(other.c.row_json.op("->")(names.c.name)))
        .order_by(names.c.name)
    )
    found = case((live.c.row_json.is_(None), right), (other.c.row_json.is_(None), "live"), else_="both")
    return (
        select(
            cast(func.jsonb_build_object(*chain.from_iterable(named)), Text).label("key"),
            found.label("found"),
            func.array(differ.scalar_subquery()).label("columns"),
        )
        .join_from(live, other, and_(*(live.c[name] == other.c[name] for name in key)), full=True)
        .where(live.c.row_json.is_distinct_from(other.c.row_json))
        .order_by(*row.values())
        .limit(NAMED)
    )


def _name_column(name: str, value: ColumnElement[Any]) -> tuple[str, ColumnElement[Any]]:
    """Return the name and the value of a key's column in a report; a term, which is content, as its digest."""
    if name != "term":
        return name, value
    return "term_sha256", func.encode(func.sha256(func.convert_to(value, "UTF8")), "hex")


async def _compare_table(
    connection: AsyncConnection, schema: str, scope: ReplayScope, compared: Compared
) -> TableReport:
    arguments = {"host": scope.host, "bank": scope.bank}
    live, shadow = sides = compared.select_rows("afterturn"), compared.select_rows(schema)
    found = [(await connection.execute(_select_digest(rows, compared.key), arguments)).one() for rows in (live, shadow)]
    differences: list[Difference] = []
    if found[0] != found[1]:
        differences = await find_first_differences(connection, arguments, compared.key, sides, right="replayed")
    return TableReport(compared.table, found[0][0], found[1][0], found[0][1], found[1][1], differences)


def _select_digest(query: Select[*tuple[Any, ...]], key: Sequence[str]) -> Select[int, str]:
    """Return the query of the number of rows, and of the SHA-256 over the rows' digests in the order of the key."""
    rows, nothing = query.subquery("r"), literal_column("''::bytea", LargeBinary)
    digest = func.sha256(func.convert_to(cast(rows.c.row_json, Text), "UTF8"))
    digests = func.string_agg(digest, aggregate_order_by(nothing, *(rows.c[name] for name in key)))
    return select(func.count(), func.encode(func.sha256(func.coalesce(digests, nothing)), "hex")).select_from(rows)
