"""Lists ledger rows for operators, and the history of one turn.

Read as the operator, over all hosts: ids, statuses, categories and sanitised reasons, never content. Names of banks and
sessions are the tenants' own, so each is asked for as its tenant.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Text,
    and_,
    cast,
    func,
    literal,
    literal_column,
    select,
    text,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from store.database import Database
from store.ledger.ledger import PUBLIC, public_status
from store.ledger.stages import Stage
from store.schema import AUDIT_EVENT, BANK, CLAIM, HOST, LEDGER, TIME
from store.tenancy.gateway_targets import Destination, build_destination

#: Public statuses to filter by; done and skipped rows are left out.
OPEN_STATUSES = ("pending", "running", "unknown", "dead")

_ROW, _HELD = LEDGER.c, CLAIM.c
_FOR_EVER = literal_column("'infinity'", TIME)
#: The listed columns of a row, with the worker that has claimed it.
_ROWS: Select[*tuple[Any, ...]] = (
    select(
        _ROW.host_id,
        HOST.c.name.label("host"),
        _ROW.stage,
        _ROW.item_id,
        _ROW.turn_id,
        _ROW.bank_id,
        _ROW.session_id,
        _ROW.position,
        _ROW.status,
        _ROW.attempts,
        _ROW.error_category,
        _ROW.error_reason,
        func.nullif(_ROW.next_attempt_at, _FOR_EVER).label("next_attempt_at"),
        and_(_ROW.undone, _ROW.next_attempt_at == _FOR_EVER).label("waits"),
        _ROW.accepted_at,
        _ROW.updated_at,
        func.now().label("read_at"),
        _HELD.worker,
        _HELD.lease_until,
    )
    .join_from(LEDGER, HOST, HOST.c.host_id == _ROW.host_id)
    .outerjoin(
        CLAIM,
        and_(
            _ROW.status.in_(("running", "adding", "added", "flushing")),
            _HELD.host_id == _ROW.host_id,
            _HELD.stage == _ROW.stage,
            _HELD.stream_id == _ROW.stream_id,
        ),
    )
)
# The outcome of a turn whose rows were pruned; it is in the turn's guard, which only its tenant may read.
ENDED = text("""
    select t.host_id, h.name as host, e.key as stage, t.turn_id as item_id, t.turn_id, t.bank_id, t.session_id,
           t.position, e.value->>'status' as status, cast(e.value->>'attempts' as int) as attempts,
           e.value->>'category' as error_category, e.value->>'reason' as error_reason,
           cast(null as timestamptz) as next_attempt_at, false as waits, t.accepted_at,
           cast(e.value->>'at' as timestamptz) as updated_at, now() as read_at, cast(null as text) as worker,
           cast(null as timestamptz) as lease_until
      from afterturn.turn_t t
      join afterturn.host_t h using (host_id), jsonb_each(t.ended) e
     where t.host_id = :host and t.turn_id = :item
     order by array_position(cast(:stages as text[]), e.key)""")
# For a turn whose rows were pruned, the guard keeps the target.
DELIVERIES = text("""
    select w.item_id, g.*, coalesce(b.bank_name, '') as bank_name, coalesce(s.session_name, '') as session_name
      from (select i.item as item_id, coalesce(l.bank_id, t.bank_id) as bank_id,
                   coalesce(l.session_id, t.session_id) as session_id,
                   coalesce(l.target_id, cast(t.ended->'gateway'->>'target' as uuid)) as target_id
              from unnest(cast(:items as uuid[])) i(item)
              left join afterturn.ledger_t l on l.host_id = :host and l.stage = 'gateway' and l.item_id = i.item
              left join afterturn.turn_t t on t.host_id = :host and t.turn_id = i.item) w
      join afterturn.gateway_target_t g on g.host_id = :host and g.target_id = w.target_id
      left join afterturn.agent_memory_bank_t b on b.host_id = :host and b.bank_id = w.bank_id
      left join afterturn.agent_session_history_t s
        on s.host_id = :host and s.bank_id = w.bank_id and s.session_id = w.session_id""")

_NOTED = AUDIT_EVENT.c
_STAGES = [stage.value for stage in Stage]

#: The most rows of one turn that are listed: a turn has one a stage and a few follow-ups.
ROWS_OF_A_TURN = 100


class LedgerCursor(NamedTuple):
    """The sort key of the list, and the place after which the next page begins."""

    accepted_at: datetime
    position: int
    stage: Stage
    item_id: UUID


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter of ledger rows: by stages and public statuses (or by the ledger's own, `states`).

    `bank` is one of `host`. `older_than`: accepted longer ago. `after`: rows after this place in the list.
    `counted_at`: rows that were there at that time, those that failed later left out.
    """

    stages: Sequence[Stage] = tuple(Stage)
    statuses: Sequence[str] = OPEN_STATUSES
    states: Sequence[str] | None = None
    host: UUID | None = None
    bank: UUID | None = None
    category: str | None = None
    older_than: timedelta | None = None
    after: LedgerCursor | None = None
    counted_at: datetime | None = None

    def open_states(self) -> tuple[list[str], list[str]]:
        """Return the selected ledger statuses of undone rows, and those of failed rows."""
        states = self.states if self.states is not None else _status_names(self.statuses)
        undone = [state for state in states if public_status(state) in {"pending", "running"}]
        return undone, [state for state in states if public_status(state) in {"unknown", "dead"}]

    def branches(self) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        """Return the conditions of selected undone rows, and of failed ones.

        A partial index serves each of them: rows that are done are never read.
        """
        undone, failed = self.open_states()
        chosen = and_(*self._conditions())
        at = self.counted_at
        there, had_failed = (true(), true()) if at is None else (_ROW.accepted_at <= at, _ROW.failed_at <= at)
        return (
            and_(_ROW.undone, _ROW.status.in_(undone), chosen, there),
            and_(_ROW.failed_at.is_not(None), _ROW.status.in_(failed), chosen, had_failed),
        )

    def _conditions(self) -> Iterator[ColumnElement[bool]]:
        yield _ROW.stage.in_([stage.value for stage in self.stages])
        if self.host is not None:
            yield _ROW.host_id == self.host
        if self.bank is not None:
            yield _ROW.bank_id == self.bank
        if self.category is not None:
            yield _ROW.error_category == self.category
        if self.older_than is not None:
            yield _ROW.accepted_at < func.now() - self.older_than
        if self.after is not None:
            at, position, stage, item = self.after
            yield tuple_(*_order_of(_ROW)) > tuple_(at, position, stage.value, item)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One row of the ledger. `state` is its status there; `waits_for` the stage that must end before it.

    `age_s`: seconds since its turn was accepted. `worker`: the worker that has claimed it, under a running lease.
    """

    host_id: UUID
    host: str
    stage: Stage
    item_id: UUID
    turn_id: UUID
    bank_id: UUID
    session_id: UUID
    position: int
    state: str
    attempts: int
    category: str | None
    reason: str | None
    next_attempt_at: datetime | None
    waits_for: Stage | None
    accepted_at: datetime
    updated_at: datetime
    age_s: float
    worker: str | None

    @property
    def status(self) -> str:
        """The public status."""
        return public_status(self.state)

    @property
    def place(self) -> LedgerCursor:
        """The entry's place in the list."""
        return LedgerCursor(self.accepted_at, self.position, self.stage, self.item_id)

    @property
    def is_follow_up(self) -> bool:
        """Whether the row was opened by a stage, and is not the turn's own."""
        return self.item_id != self.turn_id


@dataclass(frozen=True, slots=True)
class TurnAuditRow:
    """An audit row of a turn: names, categories and counts."""

    event: str
    at: datetime
    payload: str = field(repr=False)


class Backlog:
    """Lists and counts ledger rows, and reads the rows and the history of one turn."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rows(self, selection: Selection, limit: int) -> tuple[list[LedgerEntry], bool]:
        """Return at most `limit` rows, oldest acceptance first, and whether there are more."""
        async with self._database.operator() as connection:
            rows = (await connection.execute(list_rows(selection, limit + 1))).all()
        return [_build_entry(row) for row in rows[:limit]], len(rows) > limit

    async def count(self, selection: Selection) -> int:
        """Return the number of selected rows."""
        async with self._database.operator() as connection:
            return int((await connection.execute(count_rows(selection))).scalar_one())

    async def count_by_status(self, selection: Selection) -> dict[str, int]:
        """Return the number of rows of each open status; the statuses of the selection are ignored."""
        return {status: await self.count(replace(selection, statuses=(status,))) for status in OPEN_STATUSES}

    async def read_time(self) -> datetime:
        """Return the database's time, which its rows go by."""
        async with self._database.operator() as connection:
            now: datetime = (await connection.execute(select(func.clock_timestamp()))).scalar_one()
            return now

    async def newly_failed(self, within: timedelta) -> int:
        """Return how many rows came into quarantine within this time and are still there."""
        async with self._database.operator() as connection:
            return int((await connection.execute(count_newly_failed(within))).scalar_one())

    async def of_turn(self, item: UUID, host: UUID | None = None) -> list[LedgerEntry]:
        """Return every row of a turn, follow-ups included; `item` is the turn or any of its rows. Empty: unknown.

        For a turn whose rows were pruned: the outcome of each of its stages.
        """
        arguments = {"stages": _STAGES, "item": item}
        async with self._database.operator() as connection:
            names = select(HOST.c.host_id).order_by(HOST.c.name)
            hosts = [host] if host else list(await connection.scalars(names))
            for one in hosts:
                if rows := (await connection.execute(list_rows_of_turn(one, item))).all():
                    return [_build_entry(row) for row in rows]
        for one in hosts:
            async with self._database.tenant(one) as connection:
                if rows := (await connection.execute(ENDED, {**arguments, "host": one})).all():
                    return [_build_entry(row) for row in rows]
        return []

    async def with_ids(self, host: UUID, stage: Stage, items: Collection[UUID]) -> list[LedgerEntry]:
        """Return the rows with these ids in a stage of a host; unknown ones are left out."""
        async with self._database.operator() as connection:
            return [_build_entry(row) for row in await connection.execute(list_rows_with_ids(host, stage, items))]

    async def history(self, host: UUID, turn: UUID) -> list[TurnAuditRow]:
        """Return a turn's audit rows in order: deliveries, failed attempts, operators' actions."""
        async with self._database.operator() as connection:
            rows = await connection.execute(
                select(_NOTED.event, _NOTED.at, cast(_NOTED.payload, Text))
                .where(_NOTED.host_id == host, _NOTED.turn_id == turn)
                .order_by(_NOTED.audit_id)
            )
            return [TurnAuditRow(event, at, payload) for event, at, payload in rows]

    async def bank_names(self, entries: Iterable[LedgerEntry]) -> dict[UUID, str]:
        """Return the names of these rows' banks by id; banks that are gone have none."""
        by_host: dict[UUID, set[UUID]] = defaultdict(set)
        for entry in entries:
            by_host[entry.host_id].add(entry.bank_id)
        names: dict[UUID, str] = {}
        for host, banks in by_host.items():
            async with self._database.tenant(host) as connection:
                found = await connection.execute(
                    select(BANK.c.bank_id, BANK.c.bank_name).where(BANK.c.host_id == host, BANK.c.bank_id.in_(banks))
                )
                names |= {row.bank_id: row.bank_name for row in found}
        return names

    async def deliveries(self, entries: Iterable[LedgerEntry]) -> dict[UUID, Destination]:
        """Return the destinations of the deliveries among these rows, by item."""
        by_host: dict[UUID, list[UUID]] = defaultdict(list)
        for entry in entries:
            if entry.stage is Stage.GATEWAY:
                by_host[entry.host_id].append(entry.item_id)
        found: dict[UUID, Destination] = {}
        for host, items in by_host.items():
            async with self._database.tenant(host) as connection:
                rows = await connection.execute(DELIVERIES, {"host": host, "items": items})
                found |= {row["item_id"]: build_destination(row) for row in rows.mappings()}
        return found


def list_rows(selection: Selection, limit: int) -> Select[*tuple[Any, ...]]:
    """Return the query of selected rows, oldest acceptance first."""
    branches = (_ROWS.where(one).order_by(*_order_of(_ROW)).limit(limit) for one in selection.branches())
    rows = union_all(*branches).subquery("l")
    return select(rows).order_by(*_order_of(rows.c)).limit(limit)


def count_rows(selection: Selection) -> Select[int]:
    """Return the query that counts selected rows."""
    undone, failed = (
        select(func.count()).select_from(LEDGER).where(one).scalar_subquery() for one in selection.branches()
    )
    return select(undone + failed)


def count_newly_failed(within: timedelta) -> Select[int]:
    """Return the query that counts rows that came into quarantine within this time."""
    return select(func.count()).select_from(LEDGER).where(_ROW.failed_at > func.now() - within)


def list_rows_of_turn(host: UUID, item: UUID) -> Select[*tuple[Any, ...]]:
    """Return the query of a turn's rows, by the turn or any of its rows, at one host: every index begins with it.

    Of many rows (those of erasures have their bank as turn) the oldest, and always those that `item` names.
    """
    named = LEDGER.alias("i").c
    turn = select(named.turn_id).where(named.host_id == host, named.stage.in_(_STAGES), named.item_id == item).limit(1)
    rows = (
        _ROWS.where(_ROW.host_id == host, _ROW.turn_id == func.coalesce(turn.scalar_subquery(), item))
        .order_by(_ROW.item_id != item, _ROW.accepted_at, _ROW.position)
        .limit(ROWS_OF_A_TURN)
        .subquery("l")
    )
    nth = func.array_position(literal(_STAGES, ARRAY(Text)), rows.c.stage)
    return select(rows).order_by(rows.c.accepted_at, nth, rows.c.position, rows.c.item_id)


def list_rows_with_ids(host: UUID, stage: Stage, items: Collection[UUID]) -> Select[*tuple[Any, ...]]:
    """Return the query of rows by their primary key."""
    return _ROWS.where(_ROW.host_id == host, _ROW.stage == stage.value, _ROW.item_id.in_(items))


def _order_of(rows: ReadOnlyColumnCollection[str, Any]) -> tuple[ColumnElement[Any], ...]:
    """Return the columns that order the list (`LedgerCursor`)."""
    return rows.accepted_at, rows.position, rows.stage, rows.item_id


def _status_names(statuses: Sequence[str]) -> list[str]:
    return [*statuses, *(state for state, public in PUBLIC.items() if public in statuses)]


def _build_entry(row: Row[Any]) -> LedgerEntry:
    stage = Stage(row.stage)
    return LedgerEntry(
        row.host_id,
        row.host,
        stage,
        row.item_id,
        row.turn_id,
        row.bank_id,
        row.session_id,
        row.position,
        row.status,
        row.attempts,
        row.error_category,
        row.error_reason,
        row.next_attempt_at,
        Stage.EXTRACTION if row.waits else None,
        row.accepted_at,
        row.updated_at,
        max(0.0, (row.read_at - row.accepted_at).total_seconds()),
        row.worker if row.lease_until and row.lease_until > row.read_at else None,
    )
