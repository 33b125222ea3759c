"""The ledger: opens, claims and closes the work of each turn."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Double,
    Text,
    any_,
    bindparam,
    cast,
    extract,
    func,
    literal_column,
    or_,
    select,
    text,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.errors import LeaseLost
from store.ledger.stages import ORDERED, OWN, STAGES, Stage
from store.schema import LEDGER, PRUNED_TURNS

#: The public names of ledger statuses; those not listed keep their name.
PUBLIC = {
    "adding": "running",
    "added": "running",
    "flushing": "running",
    "flushed": "done",
    "add_unknown": "unknown",
    "add_failed": "dead",
    "flush_failed": "dead",
}
PUBLIC_STATUSES = ("pending", "running", "done", "skipped", "unknown", "dead")


def public_status(status: str) -> str:
    """Return the public status of a ledger status: pending, running, done, skipped, unknown or dead."""
    return PUBLIC.get(status, status)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One piece of work: a turn in a stage, or a follow-up that a stage opened."""

    item_id: UUID
    bank_id: UUID
    session_id: UUID
    turn_id: UUID
    position: int
    status: str
    attempts: int
    accepted_at: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """A stream held under a lease: its first undone rows, in order of position."""

    host_id: UUID
    stage: Stage
    stream_id: UUID
    epoch: int
    rows: tuple[LedgerRow, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a row: a final `status`, or a retry after `retry_in`, with the status to go back to."""

    item_id: UUID
    status: str = "done"
    category: str | None = None
    reason: str | None = None
    retry_in: timedelta | None = None

    @property
    def is_success(self) -> bool:
        """Whether the row is done, without an error or a retry."""
        return self.status == "done" and self.category is None and self.reason is None and self.retry_in is None

    def as_json(self) -> dict[str, object]:
        """Return the outcome in the form that `close_claims` takes."""
        retry_s = None if self.retry_in is None else self.retry_in.total_seconds()
        about = {"item": str(self.item_id), "status": self.status, "category": self.category, "reason": self.reason}
        return {**about, "retry_s": retry_s}


@dataclass(frozen=True, slots=True)
class StageCounts:
    """The turns of one stage by public status, and the age of its oldest undone row in seconds."""

    counts: Mapping[str, int]
    oldest_undone_s: float


CLAIM = "select * from afterturn.claim_work($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
CLAIM_ITEMS = "select * from afterturn.claim_items($1, $2, $3, $4, $5)"
# A follow-up has the traceparent of its turn.
TRACEPARENTS = """
    select w.item, coalesce(l.traceparent, (
               select t.traceparent from afterturn.ledger_t t
                where t.host_id = w.host and t.turn_id = l.turn_id and t.traceparent is not null limit 1))
      from unnest($2::uuid[], $3::uuid[]) as w(host, item)
      join afterturn.ledger_t l on l.host_id = w.host and l.stage = $1 and l.item_id = w.item"""
# In the order in which claims are won and closed: an update locks rows in the order in which it finds them.
RENEW = text("""
    with held as materialized (
        select c.host_id, c.stage, c.stream_id, c.epoch from afterturn.claim_t c
         where c.stage = :stage and c.epoch = any (cast(:epochs as bigint[]))
         order by c.host_id, c.stream_id for update
    )
    update afterturn.claim_t c set lease_until = now() + :lease
      from held h
     where c.host_id = h.host_id and c.stage = h.stage and c.stream_id = h.stream_id and c.epoch = h.epoch
    returning c.epoch""")
CLOSE = text("""
    select afterturn.close_claims(:host, :stage, cast(:streams as uuid[]), cast(:epochs as bigint[]),
                                  cast(:done as uuid[]), cast(:ends as jsonb))""")
HOLD = text("select afterturn.hold_claims(:host, :stage, cast(:streams as uuid[]), cast(:epochs as bigint[]))")
_ROW, _PRUNED = LEDGER.c, PRUNED_TURNS.c


def _oldest_s(first: ColumnElement[datetime]) -> ColumnElement[float]:
    return cast(extract("epoch", func.now() - first), Double).label("oldest")


_NOTHING: ColumnElement[float] = literal_column("0::float8")
_ACCEPTED = func.min(_ROW.accepted_at)
_BY_STATUS = select(_ROW.stage, _ROW.status, func.count().label("turns")).group_by(_ROW.stage, _ROW.status)
COUNTS = union_all(
    _BY_STATUS.add_columns(func.coalesce(_oldest_s(_ACCEPTED.filter(_ROW.undone)), 0.0).label("oldest")).where(
        or_(_ROW.item_id == _ROW.turn_id, _ROW.stage == any_(bindparam("counted", type_=ARRAY(Text))))
    ),
    select(_PRUNED.stage, _PRUNED.status, func.sum(_PRUNED.turns), _NOTHING).group_by(_PRUNED.stage, _PRUNED.status),
)
GAUGES = union_all(
    _BY_STATUS.add_columns(_oldest_s(_ACCEPTED)).where(_ROW.undone),
    _BY_STATUS.add_columns(_NOTHING).where(_ROW.failed_at.is_not(None)),
)
# Looks for work as a claim would; of a stage that is claimed newest first, only for rows of a minimum age.
READY_STAGES = text("""
    select s.stage from unnest(cast(:stages as text[]), cast(:ordered as boolean[]),
                               cast(:newest_first as boolean[])) as s(stage, ordered, newest_first)
     where (select true from afterturn.ready_streams(
               s.stage, 1, s.ordered, case when s.newest_first then interval '0' end) limit 1)""")


class Ledger:
    """Hands out work under leases and records its outcome.

    Claims, renewals and counts run as the operator, over all hosts; results are closed by the tenant's own
    transaction, so that work and its record are one.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # One claim at a time for all stages, on one connection, because the server plans statements per connection.
        self._claiming = asyncio.Lock()

    async def claim(
        self,
        stage: Stage,
        *,
        streams: int,
        rows: int,
        lease: timedelta,
        worker: str,
        max_attempts: int,
        oldest_first_after: timedelta | None = None,
        by_bank: bool = False,
        most_bytes: int | None = None,
    ) -> list[Claim]:
        """Claim up to `streams` streams with ready work and hand out at most `rows` first rows of each.

        Tenants take turns, however much each has waiting. Within a tenant the oldest stream comes first. With
        `oldest_first_after` the newest comes first, after all that were accepted longer ago than that. `by_bank`: the
        oldest and all others of its bank, then those of the next. The turns of all rows together weigh at most
        `most_bytes`, unless it is one row; each stream has a row before any has two.
        The attempt of each row is counted before it is handed out; a row that has used up `max_attempts` is put
        into quarantine instead. A stream whose lease ran out is taken over under a new epoch.
        """
        ordered = stage in ORDERED
        async with self._claiming:
            found = await self._database.operator_fetch(
                CLAIM,
                stage.value,
                streams,
                rows,
                lease,
                worker,
                ordered,
                max_attempts,
                oldest_first_after,
                by_bank,
                most_bytes,
            )
        claims: dict[tuple[UUID, UUID, int], list[LedgerRow]] = defaultdict(list)
        for host, stream, epoch, *row in found:
            claims[host, stream, epoch].append(LedgerRow(*row))
        return [Claim(host, stage, stream, epoch, tuple(held)) for (host, stream, epoch), held in claims.items()]

    async def claim_items(
        self, host: UUID, stage: Stage, items: Sequence[UUID], *, lease: timedelta, worker: str
    ) -> list[Claim]:
        """Claim those of these items that have no lease and were never tried; the attempt is counted.

        Only for stages in which every item is a stream of its own, right after the items were opened.
        """
        found = await self._database.operator_fetch(CLAIM_ITEMS, host, stage.value, list(items), lease, worker)
        return [Claim(host, stage, stream, epoch, (LedgerRow(*row),)) for _, stream, epoch, *row in found]

    async def read_traceparents(self, claims: Sequence[Claim]) -> dict[UUID, str]:
        """Return the traceparents of the rows of one stage's claims by item, without untraced ones."""
        rows = [(claim.host_id, row.item_id) for claim in claims for row in claim.rows]
        hosts, items = [host for host, _ in rows], [item for _, item in rows]
        found = await self._database.operator_fetch(TRACEPARENTS, claims[0].stage.value, hosts, items)
        return {item: traceparent for item, traceparent in found if traceparent}

    async def renew(self, claims: Sequence[Claim], lease: timedelta) -> set[int]:
        """Renew the leases of claims of one stage; return the epochs that are still held."""
        if not claims:
            return set()
        arguments = {"lease": lease, "epochs": [c.epoch for c in claims], "stage": claims[0].stage.value}
        async with self._database.operator_call() as connection:
            return set((await connection.execute(RENEW, arguments)).scalars())

    async def release(self, claims: Iterable[Claim], wait: timedelta | None = None) -> None:
        """Release claims unworked: their rows are ready at once, or after `wait`, and no attempt is counted."""
        await self.end(list(claims), (), wait)

    async def end(
        self, claims: Sequence[Claim], outcomes: Sequence[Outcome], wait: timedelta | None = None
    ) -> list[Claim]:
        """Record outcomes without other writes, for claims of any hosts and stages; return the claims still held."""
        of: dict[tuple[UUID, Stage], list[Claim]] = defaultdict(list)
        for claim in claims:
            of[claim.host_id, claim.stage].append(claim)
        held: list[Claim] = []
        for ours in of.values():
            async with self._database.operator_call() as connection:
                held += await close_claims(connection, ours, outcomes, wait)
        return held

    async def counts(self) -> dict[Stage, StageCounts]:
        """Count the turns of every stage by public status, done ones included (reads the whole ledger)."""
        found = await self._count(
            COUNTS, {"counted": [stage.value for stage, spec in STAGES.items() if spec.counts_items]}
        )
        gateway = found[Stage.GATEWAY]
        turns, handed = sum(found[Stage.EXTRACTION].counts.values()), sum(gateway.counts.values())
        # A turn without a gateway has no row in the gateway's stage.
        skipped = gateway.counts["skipped"] + max(0, turns - handed)
        return {**found, Stage.GATEWAY: replace(gateway, counts={**gateway.counts, "skipped": skipped})}

    async def gauges(self) -> dict[Stage, StageCounts]:
        """Count undone and failed turns of every stage: cheap at any size of the ledger."""
        return await self._count(GAUGES, {})

    async def find_ready_stages(self) -> list[Stage]:
        """List the stages that have ready work without a lease."""
        async with self._database.operator_call() as connection:
            arguments = {
                "stages": [stage.value for stage in STAGES],
                "ordered": [spec.ordered for spec in STAGES.values()],
                "newest_first": [spec.newest_first for spec in STAGES.values()],
            }
            found = await connection.execute(READY_STAGES, arguments)
            return [Stage(stage) for stage in found.scalars()]

    async def _count(
        self, query: CompoundSelect[*tuple[Any, ...]], arguments: Mapping[str, object]
    ) -> dict[Stage, StageCounts]:
        async with self._database.operator_call() as connection:
            rows = (await connection.execute(query, arguments)).all()
        counts = {stage: dict.fromkeys(PUBLIC_STATUSES, 0) for stage in Stage}
        oldest = dict.fromkeys(Stage, 0.0)
        for row in rows:
            stage = Stage(row.stage)
            counts[stage][public_status(row.status)] += int(row.turns)
            oldest[stage] = max(oldest[stage], row.oldest)
        return {stage: StageCounts(counts[stage], oldest[stage]) for stage in Stage}


async def close_claim(connection: AsyncConnection, claim: Claim, outcomes: Sequence[Outcome]) -> None:
    """Record the outcomes of a claim's rows and release it, inside the transaction that wrote their result.

    Rows without an outcome are ready for the next claim, without a counted attempt. Raises LeaseLost when the
    claim is not held any more: the caller's transaction must then be rolled back.
    """
    if not await close_claims(connection, [claim], outcomes):
        raise LeaseLost("the lease expired and another worker has the work")


async def close_claims(
    connection: AsyncConnection, claims: Sequence[Claim], outcomes: Sequence[Outcome], wait: timedelta | None = None
) -> list[Claim]:
    """Record the outcomes of many claims of one host and stage and release them, like `close_claim`.

    Rows without an outcome are ready at once, or after `wait`.
    For results that may be written twice. Returns the claims that were still held; the rows of the others stay as
    they are.
    """
    if not claims:
        return []
    arguments = {**_all_of(claims), **_ending_parameters(claims, outcomes, wait)}
    held = set((await connection.execute(CLOSE, arguments)).scalar_one())
    return [claim for claim in claims if claim.epoch in held]


async def lock_held_claims(connection: AsyncConnection, claims: Sequence[Claim]) -> list[Claim]:
    """Lock claims of one host and stage until the transaction ends; returns those that are still held.

    Raises LeaseLost when none is.
    """
    epochs = set((await connection.execute(HOLD, _all_of(claims))).scalar_one())
    if not epochs:
        raise LeaseLost("every lease expired and other workers have the work")
    return [claim for claim in claims if claim.epoch in epochs]


def _all_of(claims: Sequence[Claim]) -> dict[str, object]:
    return {
        "host": claims[0].host_id,
        "stage": claims[0].stage.value,
        "streams": [claim.stream_id for claim in claims],
        "epochs": [claim.epoch for claim in claims],
    }


def _ending_parameters(
    claims: Sequence[Claim], outcomes: Sequence[Outcome], wait: timedelta | None
) -> dict[str, object]:
    """Return the parameters `done` (ids of rows that went well) and `ends` (JSON of all other outcomes)."""
    by_item = {outcome.item_id: outcome for outcome in outcomes}
    rows = [(row.item_id, by_item.get(row.item_id)) for claim in claims for row in claim.rows]
    others = [
        {"item": str(item), "retry_s": wait and wait.total_seconds()} if end is None else end.as_json()
        for item, end in rows
        if end is None or not end.is_success
    ]
    return {
        "done": [item for item, end in rows if end is not None and end.is_success],
        "ends": orjson.dumps(others).decode(),
    }


DEPTH = text("""
    select host_id, waiting, coalesce(extract(epoch from now() - oldest), 0)::float8 as oldest_s
      from afterturn.depth(cast(:hosts as uuid[]), cast(:stages as text[]), :most)""")


@dataclass(frozen=True, slots=True)
class Depth:
    """A tenant's backlog: ready undone rows of our own stages, and the age of the oldest in seconds."""

    rows: int = 0
    oldest_s: float = 0.0


async def read_depths(database: Database, hosts: Sequence[UUID], most: int) -> Mapping[UUID, Depth]:
    """Read the backlog of each of these hosts; rows are counted up to `most` a host."""
    async with database.operator() as connection:
        arguments = {"hosts": list(hosts), "stages": [stage.value for stage in OWN], "most": most}
        rows = (await connection.execute(DEPTH, arguments)).all()
    return {row.host_id: Depth(row.waiting, row.oldest_s) for row in rows}
