"""Prunes done ledger rows, old audit rows and claims of dead workers, in short transactions.

Tables with a tenant are read tenant by tenant in the order of the key, so that a batch reads one page; the place
between two batches is a text from which any worker can continue.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Column,
    ColumnElement,
    Delete,
    Row,
    Select,
    Table,
    TextClause,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    text,
    tuple_,
)

from store.database import Database
from store.ledger.stages import STAGES, Stage
from store.schema import AUDIT_EVENT, BANK, CALL_AUDIT, CLAIM, HOST, LEDGER, OPEN_TURN, TIME

#: Projection rows that a batch looks at; at most four times as many rows of the ledger are pruned.
LEDGER_PAGE = 250
AUDIT_PAGE = 1000
#: Stages that may get work for a turn after its rows were pruned.
LATE_STAGES = [stage.value for stage, spec in STAGES.items() if spec.pruned_alone]
EXTERNAL = [stage.value for stage, spec in STAGES.items() if spec.external]
CLAIMS_PAGE = 500
#: The place of a task that has more to do but keeps no position.
MORE = "more"

PRUNE_LEDGER = text("select last, looked, removed from afterturn.prune_ledger(:host, :after, :before, :limit)")
COUNT_LEDGER = text("""
    select coalesce(sum(case when l.item_id <> l.turn_id then 1 else (
               select count(*) from afterturn.ledger_t o where o.host_id = l.host_id and o.turn_id = l.turn_id) end), 0)
      from afterturn.ledger_t l
     where l.stage = 'projection' and l.status = 'done' and l.updated_at < :before and l.accepted_at < :before
       and (l.item_id <> l.turn_id or (
            select true from afterturn.ledger_t o
             where o.host_id = l.host_id and o.turn_id = l.turn_id
               and (o.updated_at >= :before
                    or not (o.status in ('done', 'flushed')
                            or (o.status = 'skipped'
                                and (select s.external from afterturn.stages() s where s.stage = o.stage))))
             limit 1) is null)""")
PRUNE_LATE_ROWS = text(
    "select last, looked, removed from afterturn.prune_late_rows(:host, :stage, :after, :before, :limit)"
)
_ROW, _TURNS_OWN = LEDGER.c, LEDGER.alias("t")
COUNT_LATE_ROWS = (
    select(func.count())
    .select_from(LEDGER)
    .where(
        _ROW.stage.in_(LATE_STAGES),
        _ROW.item_id != _ROW.turn_id,
        or_(_ROW.status == "done", and_(_ROW.status == "skipped", _ROW.stage.in_(EXTERNAL))),
        _ROW.updated_at < bindparam("before", type_=TIME),
        ~exists().where(
            _TURNS_OWN.c.host_id == _ROW.host_id,
            _TURNS_OWN.c.stage == Stage.PROJECTION.value,
            _TURNS_OWN.c.item_id == _ROW.turn_id,
        ),
    )
)
# WHY two steps: the identity rises with time, so a page in its order holds the oldest, or nothing that is old.
PRUNE_AUDIT = text("""
    with page as materialized (
        select a.audit_id, a.at from afterturn.audit_event_t a
         where a.host_id = :host and a.audit_id > :after order by a.audit_id limit :limit
    ), gone as (
        delete from afterturn.audit_event_t a using page p
         where a.host_id = :host and a.audit_id = p.audit_id and p.at < :before returning 1
    )
    select (select max(p.audit_id) from page p where p.at < :before) as last,
           (select count(*) from gone) as looked, (select count(*) from gone) as removed""")
# An expired lease holds nothing; a stream with work left is taken over in place, so its claim is locked or renewed.
DROP_CLAIMS = text("""
    with dead as materialized (
        select c.host_id, c.stage, c.stream_id, c.epoch from afterturn.claim_t c
         where c.lease_until < now() - cast(:grace as interval) limit :limit for update skip locked
    )
    delete from afterturn.claim_t c using dead d
     where c.host_id = d.host_id and c.stage = d.stage and c.stream_id = d.stream_id and c.epoch = d.epoch""")


@dataclass(frozen=True, slots=True)
class PrunedBatch:
    """The result of a batch: the rows removed, and the place at which the next begins (None: it was the last).

    `failed`: the kind of the error that a part of the task met, which the next batches go past.
    """

    removed: int
    place: str | None
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class FoundBank:
    """A bank with something to do; `bank_name`: only where the whole bank has expired, not some of its units."""

    bank_id: UUID
    bank_name: str | None = None


class Pruning:
    """Deletes rows past their retention, batch by batch, as the operator; reads ids, statuses and times alone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ledger(self, before: datetime, place: str | None) -> PrunedBatch:
        """Prune ledger rows of turns whose stages all succeeded before this time; status and counts of turns stay."""
        return await self._walk(PRUNE_LEDGER, place, str(UUID(int=0)), LEDGER_PAGE, before)

    async def late_rows(self, before: datetime, place: str | None) -> PrunedBatch:
        """Prune rows that were opened for a turn after it had left the ledger, and succeeded before this time.

        A place is a host and a stage of it, with the last row looked at.
        """
        host, stage, after = [*(place or "").split(" "), "", ""][:3]
        async with self._database.operator() as connection:
            if stage not in LATE_STAGES:  # a host alone, or a stage that only another release has
                found = await connection.scalar(_find_next_host(UUID(host) if host else None))
                if found is None:
                    return PrunedBatch(0, None)
                host, stage = str(found), LATE_STAGES[0]
            about = {"host": host, "stage": stage, "after": after or UUID(int=0), "before": before}
            row: Row[Any] = (await connection.execute(PRUNE_LATE_ROWS, {**about, "limit": LEDGER_PAGE})).one()
        behind = LATE_STAGES[LATE_STAGES.index(stage) + 1 :][:1]
        reached = (stage, str(row.last)) if row.looked == LEDGER_PAGE else behind
        return PrunedBatch(row.removed, " ".join([host, *reached]))

    async def audit(self, before: datetime, place: str | None) -> PrunedBatch:
        """Prune audit rows from before this time."""
        return await self._walk(PRUNE_AUDIT, place, "0", AUDIT_PAGE, before)

    async def calls(self, before: datetime, _place: str | None) -> PrunedBatch:
        """Prune rows of the call audit from before this time."""
        return await self._delete(_delete_oldest(CALL_AUDIT, CALL_AUDIT.c.at < before, CALL_AUDIT.c.at), AUDIT_PAGE)

    async def next_host(self, after: UUID | None) -> UUID | None:
        """Return the tenant after one, the first after None; None after the last."""
        async with self._database.operator() as connection:
            found: UUID | None = await connection.scalar(_find_next_host(after))
        return found

    async def next_bank(self, host: UUID, after: UUID) -> FoundBank | None:
        """Return a tenant's bank after one, ended banks included; None after the last."""
        behind = select(BANK.c.bank_id).where(BANK.c.host_id == host, BANK.c.bank_id > after)
        async with self._database.tenant(host) as connection:
            found = await connection.scalar(behind.order_by(BANK.c.bank_id).limit(1))
        return None if found is None else FoundBank(found)

    async def claims(self, grace: timedelta) -> PrunedBatch:
        """Delete claims whose lease ran out longer ago than `grace`: their streams are free either way."""
        return await self._delete(DROP_CLAIMS.bindparams(grace=grace), CLAIMS_PAGE)

    async def open_turns(self, now: datetime) -> PrunedBatch:
        """Delete expired open turns: without an output, or kept only so that their token counts as used."""
        ended = _delete_oldest(OPEN_TURN, OPEN_TURN.c.expires_at <= now, OPEN_TURN.c.expires_at)
        return await self._delete(ended, CLAIMS_PAGE)

    async def expired_turns(self, now: datetime) -> int:
        """Return how many turns `open_turns` would delete."""
        return await self._count(_count_rows(OPEN_TURN, OPEN_TURN.c.expires_at <= now))

    async def prunable_rows(self, before: datetime) -> int:
        """Return how many rows `ledger` would prune (reads the whole ledger)."""
        return await self._count(COUNT_LEDGER.bindparams(before=before))

    async def prunable_late_rows(self, before: datetime) -> int:
        """Return how many rows `late_rows` would prune (reads the whole ledger)."""
        return await self._count(COUNT_LATE_ROWS.params(before=before))

    async def prunable_audit(self, before: datetime) -> int:
        """Return how many rows `audit` would prune."""
        return await self._count(_count_rows(AUDIT_EVENT, AUDIT_EVENT.c.at < before))

    async def prunable_calls(self, before: datetime) -> int:
        """Return how many rows `calls` would prune."""
        return await self._count(_count_rows(CALL_AUDIT, CALL_AUDIT.c.at < before))

    async def dead_claims(self, grace: timedelta) -> int:
        """Return how many claims `claims` would delete."""
        return await self._count(_count_rows(CLAIM, CLAIM.c.lease_until < func.now() - grace))

    async def _delete(self, page: Delete | TextClause, limit: int) -> PrunedBatch:
        """Delete a page of at most `limit` rows, which the statement takes as a parameter."""
        async with self._database.operator() as connection:
            gone = (await connection.execute(page, {"limit": limit})).rowcount
        return PrunedBatch(gone, MORE if gone == limit else None)

    async def _count(self, query: TextClause | Select[int]) -> int:
        async with self._database.operator() as connection:
            return int((await connection.execute(query)).scalar_one())

    async def _walk(
        self, batch: TextClause, place: str | None, first: str, limit: int, before: datetime
    ) -> PrunedBatch:
        """Prune the next batch of the host that `place` names, or of the next host."""
        host, _, after = (place or "").partition(" ")
        async with self._database.operator() as connection:
            if not after:
                found = await connection.scalar(_find_next_host(UUID(host) if host else None))
                if found is None:
                    return PrunedBatch(0, None)
                host, after = str(found), first
            arguments = {"host": host, "after": _page_key(after), "before": before, "limit": limit}
            row: Row[Any] = (await connection.execute(batch, arguments)).one()
        full = row.looked == limit and row.last is not None
        return PrunedBatch(row.removed, f"{host} {row.last}" if full else host)


def _find_next_host(after: UUID | None) -> Select[UUID]:
    """Return the query of the tenant after one in the order of ids; of the first where `after` is None."""
    first = select(HOST.c.host_id).order_by(HOST.c.host_id).limit(1)
    return first if after is None else first.where(HOST.c.host_id > after)


def _count_rows(table: Table, *conditions: ColumnElement[bool]) -> Select[int]:
    return select(func.count()).select_from(table).where(*conditions)


def _delete_oldest(table: Table, old: ColumnElement[bool], moment: Column[Any]) -> Delete:
    """Return the statement that deletes `:limit` of the `old` rows, the oldest by `moment` first."""
    key = tuple(table.primary_key)
    return delete(table).where(tuple_(*key).in_(select(*key).where(old).order_by(moment).limit(bindparam("limit"))))


def _page_key(after: str) -> UUID | int:
    return int(after) if after.isdecimal() else UUID(after)
