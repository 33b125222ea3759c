"""Compares live tables with the shadow: one digest a table, and the keys of differing rows.

A row is its canonical jsonb text (columns in jsonb's order, times in UTC); what is counted later by the projection
stage is left out. A history counts with the messages that no unit keeps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import ColumnElement, Select, Text, TextualSelect, and_, case, cast, column, func, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from store.log.catalog import AGGREGATES, Aggregate, AggregateSpec
from store.replay.report import Difference, TableReport
from store.replay.shadow import ReplayScope

#: Differences that are named for each table.
NAMED = 5

MESSAGES = """jsonb_build_object('messages', (
    select jsonb_agg(to_jsonb(m) order by m.seq) from {schema}.session_message_t m
     where m.host_id = t.host_id and m.bank_id = t.bank_id and m.session_id = t.session_id))"""


@dataclass(frozen=True, slots=True)
class Compared:
    """An event-backed table: its key, and its row as jsonb."""

    table: str
    key: tuple[str, ...]
    row: str


def rows_of(query: str, key: Sequence[str]) -> TextualSelect:
    """Take a query of `key` and the row `told` as jsonb into expressions."""
    return text(query).columns(*(column(name) for name in key), column("told", JSONB))


def _compare_aggregate(aggregate: Aggregate, spec: AggregateSpec) -> Compared:
    row = " - ".join(("to_jsonb(t)", *(f"'{column}'" for column in spec.counted)))
    messages = f" || {MESSAGES}" if aggregate is Aggregate.SESSION else ""
    return Compared(spec.table, ("host_id", "bank_id", *spec.ids.values()), row + messages)


COMPARED = tuple(_compare_aggregate(aggregate, spec) for aggregate, spec in AGGREGATES.items())

ROWS = """
    select {key}, {row} as told from {schema}.{table} t
     where (cast(:host as uuid) is null or t.host_id = :host) and (cast(:bank as uuid) is null or t.bank_id = :bank)"""
DIGEST = """
    select count(*), encode(sha256(coalesce(
               string_agg(sha256(convert_to(told::text, 'UTF8')), ''::bytea order by {key}), '')), 'hex')
      from ({rows}) r"""


# What a bank's derived state is made of.
DERIVED_FROM = ("agent_memory_unit_t", "agent_memory_entity_t", "agent_memory_unit_entity_t")
BANKS = """
    select distinct host_id, bank_id from ({live}) l full join ({shadow}) s using ({key})
     where l.told is distinct from s.told order by 1, 2"""


@dataclass(frozen=True, slots=True, order=True)
class BankIdentity:
    """A bank and whose it is."""

    host: UUID
    bank: UUID


async def compare_tables(connection: AsyncConnection, schema: str, scope: ReplayScope) -> list[TableReport]:
    """Compare every event-backed table with its shadow, inside a transaction that shows both at the same end."""
    return [await _compare_table(connection, schema, scope, table) for table in COMPARED]


async def changed_banks(
    connection: AsyncConnection, schema: str, scope: ReplayScope, reports: Sequence[TableReport]
) -> list[BankIdentity]:
    """Return the banks with rows that the shadow has otherwise and derived state is made of; tables as in `reports`."""
    wrong = {one.table for one in reports if not one.equal}.intersection(DERIVED_FROM)
    found = set[BankIdentity]()
    for table in (one for one in COMPARED if one.table in wrong):
        live, shadow = (_rows_query(table, where) for where in ("afterturn", schema))
        query = text(BANKS.format(key=", ".join(table.key), live=live, shadow=shadow))
        rows = await connection.execute(query, {"host": scope.host, "bank": scope.bank})
        found.update(BankIdentity(*row) for row in rows)
    return sorted(found)


async def first_differences(
    connection: AsyncConnection,
    arguments: Mapping[str, Any],
    key: Sequence[str],
    sides: tuple[TextualSelect | Select[*tuple[Any, ...]], TextualSelect | Select[*tuple[Any, ...]]],
    *,
    right: str,
    shown: Sequence[str] | None = None,
) -> list[Difference]:
    """Return the first rows that are not the same on both sides: queries of `key` and the row `told` as jsonb.

    A row that stands on the second side alone is found `right`; `shown` are the columns of `key` that name a row.
    """
    query = _select_differences(key, sides, right, key if shown is None else shown)
    return [
        Difference(orjson.loads(row.key), row.found, tuple(row.columns or ()))
        for row in await connection.execute(query, arguments)
    ]


def _select_differences(
    key: Sequence[str],
    sides: tuple[TextualSelect | Select[*tuple[Any, ...]], TextualSelect | Select[*tuple[Any, ...]]],
    right: str,
    shown: Sequence[str],
) -> Select[str, str, Sequence[str]]:
    live, other = sides[0].subquery("live"), sides[1].subquery("other")
    row = {name: func.coalesce(live.c[name], other.c[name]) for name in key}
    named = (_name_column(name, row[name]) for name in shown)
    told = live.c.told.op("||")(other.c.told)
    names = func.jsonb_object_keys(told).table_valued("name").render_derived("n")
    differ = (
        select(names.c.name)
        .where(live.c.told.op("->")(names.c.name).is_distinct_from(other.c.told.op("->")(names.c.name)))
        .order_by(names.c.name)
    )
    found = case((live.c.told.is_(None), right), (other.c.told.is_(None), "live"), else_="both")
    return (
        select(
            cast(func.jsonb_build_object(*chain.from_iterable(named)), Text).label("key"),
            found.label("found"),
            func.array(differ.scalar_subquery()).label("columns"),
        )
        .join_from(live, other, and_(*(live.c[name] == other.c[name] for name in key)), full=True)
        .where(live.c.told.is_distinct_from(other.c.told))
        .order_by(*row.values())
        .limit(NAMED)
    )


def _name_column(name: str, value: ColumnElement[Any]) -> tuple[str, ColumnElement[Any]]:
    """Return how a column is shown: a word says what stands in a message, so it is named by its digest."""
    if name != "term":
        return name, value
    return "term_sha256", func.encode(func.sha256(func.convert_to(value, "UTF8")), "hex")


async def _compare_table(connection: AsyncConnection, schema: str, scope: ReplayScope, table: Compared) -> TableReport:
    key = ", ".join(table.key)
    arguments = {"host": scope.host, "bank": scope.bank}
    live, shadow = (_rows_query(table, where) for where in ("afterturn", schema))
    found = [
        (await connection.execute(text(DIGEST.format(key=key, rows=rows)), arguments)).one() for rows in (live, shadow)
    ]
    differences: list[Difference] = []
    if found[0] != found[1]:
        sides = rows_of(live, table.key), rows_of(shadow, table.key)
        differences = await first_differences(connection, arguments, table.key, sides, right="replayed")
    return TableReport(table.table, found[0][0], found[1][0], found[0][1], found[1][1], differences)


def _rows_query(table: Compared, schema: str) -> str:
    row = table.row.replace("{schema}", schema)
    return ROWS.format(key=", ".join(table.key), row=row, schema=schema, table=table.table)
