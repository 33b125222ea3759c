"""Gauges of the database, read with the operator's role by one cheap query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Column, Double, Label, bindparam, cast, extract, func, select, text

from store.database import Database
from store.ledger.workers import SILENT_S
from store.schema import CLAIM, GATE, GENERATION, LEDGER, WORKER

# Every writing transaction holds a lock on its own id, the only sign of it that any role can see.
LOOK = text("""
    select (select transactionid::text::bigint from pg_locks
             where locktype = 'transactionid' and mode = 'ExclusiveLock' and granted
             order by age(transactionid) desc limit 1) as oldest_writer,
           (select count(*) from pg_stat_activity where usesysid is not null) as connections,
           current_setting('max_connections')::int as most_connections,
           pg_database_size(current_database()) as bytes,
           pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint as written""")
# Without pg_monitor, pg_stat_replication shows nulls for processes of other roles; then no replica is reported. The
# view's replay_lag does not grow while a replica stands still; the difference of positions does.
REPLICAS = text("""
    select application_name as replica, min(pg_wal_lsn_diff(replay_lsn, '0/0'))::bigint as shown
      from pg_stat_replication where replay_lsn is not null group by 1""")
_CLAIM, _ROW = CLAIM.c, LEDGER.c


def _age_s(first: Column[datetime]) -> Label[float]:
    """Return the seconds since the earliest of these times, as an expression."""
    return cast(extract("epoch", func.now() - func.min(first)), Double).label("age_s")


OVERDUE = select(_CLAIM.stage, _age_s(_CLAIM.lease_until)).where(_CLAIM.lease_until < func.now()).group_by(_CLAIM.stage)
#: A breaker counts as open for this long after its pause: by then a turn that waits has tried the target again. The
#: alert AfterturnGatewayShutOff waits longer, so that one trip that no call follows does not fire it.
BREAKER_SHOWN = timedelta(minutes=4)
OPEN_BREAKERS = select(func.count()).where(
    GATE.c.gate.startswith("gateway:"),
    GATE.c.failures >= bindparam("breaker_failures"),
    GATE.c.shut_until > func.now() - BREAKER_SHOWN,
)
_UNDONE = func.count().label("undone_rows")
_WORKER = WORKER.c
_LIVING = (
    select(func.unnest(_WORKER.stages).label("stage"))
    .where(_WORKER.seen_at >= func.now() - timedelta(seconds=SILENT_S), _WORKER.state == "working")
    .subquery()
)
WORKERS = select(_LIVING.c.stage, func.count().label("workers")).group_by(_LIVING.c.stage)
BUILDS = select(GENERATION.c.generation, GENERATION.c.state, GENERATION.c.share).order_by(GENERATION.c.generation)
TOP_TENANTS = (
    select(_ROW.host_id, _UNDONE, _age_s(_ROW.accepted_at))
    .where(_ROW.undone)
    .group_by(_ROW.host_id)
    .order_by(_UNDONE.desc(), _ROW.host_id)
)


@dataclass(frozen=True, slots=True)
class TenantBacklog:
    """The undone ledger rows of one tenant, and the age of the oldest in seconds."""

    host_id: UUID
    rows: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class GenerationShare:
    """The state of a generation of vectors, and the share of all texts that its pass has gone through, from 0 to 1."""

    generation: int
    state: str
    share: float


@dataclass(frozen=True, slots=True)
class DatabaseSample:
    """The gauges as of one reading.

    `oldest_writer` is the id of the oldest transaction that writes and has not ended; `overdue_s` the age of the
    oldest lease of a stage that ran out without another worker taking the claim. `written` is the position of the WAL
    in bytes, `replicas` the positions that each replica, by name, shows. `open_breakers` are gateway targets that fail.
    `workers` counts the living processes that work on each stage, `bytes` is the size of the database. `generations`
    are those of vectors, with the share of texts that the pass of each has gone through.
    """

    oldest_writer: int | None
    connections: int
    most_connections: int
    replicas: Mapping[str, int] = field(default_factory=dict)
    overdue_s: Mapping[str, float] = field(default_factory=dict)
    tenants: Sequence[TenantBacklog] = ()
    written: int = 0
    open_breakers: int = 0
    workers: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    generations: Sequence[GenerationShare] = ()


async def read_database_sample(
    database: Database, top_tenants: int = 0, *, breaker_failures: int = 1
) -> DatabaseSample:
    """Read the gauges as the operator's role, with the backlogs of the `top_tenants` largest.

    A gateway target's circuit breaker is open from `breaker_failures` failures in a row on.
    """
    async with database.operator() as connection:
        seen = (await connection.execute(LOOK)).one()
        replicas = (await connection.execute(REPLICAS)).all()
        overdue = (await connection.execute(OVERDUE)).all()
        breakers = (await connection.execute(OPEN_BREAKERS, {"breaker_failures": breaker_failures})).scalar_one()
        workers = (await connection.execute(WORKERS)).all()
        builds = (await connection.execute(BUILDS)).all()
        tenants = (await connection.execute(TOP_TENANTS.limit(top_tenants))).all() if top_tenants else ()
    return DatabaseSample(
        seen.oldest_writer,
        seen.connections,
        seen.most_connections,
        {row.replica: row.shown for row in replicas},
        {row.stage: row.age_s for row in overdue},
        tuple(TenantBacklog(row.host_id, row.undone_rows, row.age_s) for row in tenants),
        seen.written,
        breakers,
        {row.stage: row.workers for row in workers},
        seen.bytes,
        tuple(GenerationShare(*row) for row in builds),
    )
