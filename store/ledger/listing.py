"""What operators look at: the ledger's rows that wait, run, failed or are unknown, and the whole story of one turn.

Read as the operator, over all hosts: ids, statuses, categories and sanitised reasons, never content. Names of banks and
sessions are the tenants' own, so each is asked for as its tenant.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Row, text

from store.database import Database
from store.ledger.ledger import PUBLIC, public_status
from store.ledger.stages import Stage
from store.tenancy.gateway_targets import Destination, destination

#: Statuses to filter by, as users see them; done and skipped rows are no work any more.
OPEN_STATUSES = ("pending", "running", "unknown", "dead")

_ROW = """
    select l.host_id, h.name as host, l.stage, l.item_id, l.turn_id, l.bank_id, l.session_id, l.position, l.status,
           l.attempts, l.error_category, l.error_reason, nullif(l.next_attempt_at, 'infinity') as next_attempt_at,
           l.undone and l.next_attempt_at = 'infinity' as waits, l.accepted_at, l.updated_at, now() as read_at,
           c.worker, c.lease_until
      from afterturn.ledger_t l
      join afterturn.host_t h using (host_id)
      left join afterturn.claim_t c
        on l.status in ('running', 'adding', 'added', 'flushing') and c.host_id = l.host_id and c.stage = l.stage
       and c.stream_id = l.stream_id"""
# Each branch is of statuses that a partial index holds: rows that are done are never read.
_UNDONE = "l.undone and l.status = any(:undone)"
_FAILED = "l.failed_at is not null and l.status = any(:failed)"
_WHERE = """
       and l.stage = any(:stages)
       and (cast(:host as uuid) is null or l.host_id = :host)
       and (cast(:bank as uuid) is null or l.bank_id = :bank)
       and (cast(:category as text) is null or l.error_category = :category)
       and (cast(:older as interval) is null or l.accepted_at < now() - cast(:older as interval))
       and (cast(:after_item as uuid) is null
            or (l.accepted_at, l.position, l.stage, l.item_id) > (
                cast(:after_at as timestamptz), cast(:after_position as bigint), cast(:after_stage as text),
                cast(:after_item as uuid)))"""
_OLDEST = "order by l.accepted_at, l.position, l.stage, l.item_id limit :limit"
LIST = text(f"""
    select * from (({_ROW} where {_UNDONE} {_WHERE} {_OLDEST}) union all ({_ROW} where {_FAILED} {_WHERE} {_OLDEST})) l
     {_OLDEST}""")  # noqa: S608 - put together from constants
COUNT = text(f"""
    select (select count(*) from afterturn.ledger_t l where {_UNDONE} {_WHERE})
         + (select count(*) from afterturn.ledger_t l where {_FAILED} {_WHERE})""")  # noqa: S608 - constants
NEWLY_FAILED = text("""
    select count(*) from afterturn.ledger_t where failed_at > now() - cast(:within as interval)""")
HOSTS = text("select host_id, name from afterturn.host_t order by name")
# One host after the other: every index begins with it.
OF_TURN = text(f"""
    {_ROW} where l.host_id = :host and l.turn_id = coalesce(
        (select i.turn_id from afterturn.ledger_t i
          where i.host_id = :host and i.stage = any(:stages) and i.item_id = :item limit 1), :item)
     order by l.accepted_at, array_position(:stages, l.stage), l.position, l.item_id limit :limit""")  # noqa: S608
# How a turn ended whose rows left the ledger; only its tenant may read the guard that keeps it.
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
HISTORY = text("""
    select event, cast(payload as text) as payload, at from afterturn.audit_event_t
     where host_id = :host and turn_id = :turn order by audit_id""")
BANKS = text("""
    select bank_id, bank_name from afterturn.agent_memory_bank_t
     where host_id = :host and bank_id = any(cast(:banks as uuid[]))""")

# Of turns that left the ledger, the guard keeps which target had them.
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

#: Rows of one turn that are shown at most: a turn has one a stage and a few follow-ups.
ROWS_OF_A_TURN = 100


class Place(NamedTuple):
    """What orders the list, and so says behind which row one goes on."""

    accepted_at: datetime
    position: int
    stage: Stage
    item_id: UUID


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows: of these stages, with these public statuses (`states`: these of the ledger itself instead).

    `bank` is meant within `host`. `older_than`: accepted longer ago. `after`: what comes behind this place in the list.
    """

    stages: Sequence[Stage] = tuple(Stage)
    statuses: Sequence[str] = OPEN_STATUSES
    states: Sequence[str] | None = None
    host: UUID | None = None
    bank: UUID | None = None
    category: str | None = None
    older_than: timedelta | None = None
    after: Place | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the values the statements take."""
        states = self.states if self.states is not None else _status_names(self.statuses)
        return {
            "stages": [stage.value for stage in self.stages],
            "undone": [state for state in states if public_status(state) in {"pending", "running"}],
            "failed": [state for state in states if public_status(state) in {"unknown", "dead"}],
            "host": self.host,
            "bank": self.bank,
            "category": self.category,
            "older": self.older_than,
            "after_at": self.after and self.after.accepted_at,
            "after_position": self.after and self.after.position,
            "after_stage": self.after and self.after.stage.value,
            "after_item": self.after and self.after.item_id,
        }


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the ledger. `state` is its status there; `waits_for` the stage it cannot begin before.

    `age_s` is how long ago its turn was accepted, in seconds; `worker` who holds it, under a lease that still runs.
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
        """The status as users see it."""
        return public_status(self.state)

    @property
    def place(self) -> Place:
        """Where it stands in the list."""
        return Place(self.accepted_at, self.position, self.stage, self.item_id)

    @property
    def is_follow_up(self) -> bool:
        """Whether it is work that a stage opened, and not the turn's own row."""
        return self.item_id != self.turn_id


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that was written down about a turn: names, categories and counts."""

    event: str
    at: datetime
    payload: str = field(repr=False)


class Backlog:
    """Lists and counts rows, and tells all about one turn."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rows(self, selection: Selection, limit: int) -> tuple[list[Entry], bool]:
        """Return at most `limit` rows, those accepted first before others, and whether there are more."""
        arguments = {**selection.arguments(), "limit": limit + 1}
        async with self._database.operator() as connection:
            rows = (await connection.execute(LIST, arguments)).all()
        return [_build_entry(row) for row in rows[:limit]], len(rows) > limit

    async def pages(self, selection: Selection, size: int) -> AsyncGenerator[list[Entry]]:
        """Yield all rows, `size` at a time; a row that was changed meanwhile does not come twice."""
        more = True
        while more:
            page, more = await self.rows(selection, size)
            if page:
                yield page
                selection = replace(selection, after=page[-1].place)

    async def count(self, selection: Selection) -> int:
        """Count the rows."""
        async with self._database.operator() as connection:
            return int((await connection.execute(COUNT, selection.arguments())).scalar_one())

    async def count_by_status(self, selection: Selection) -> dict[str, int]:
        """Count the rows of each open status, whatever statuses the selection names."""
        return {status: await self.count(replace(selection, statuses=(status,))) for status in OPEN_STATUSES}

    async def newly_failed(self, within: timedelta) -> int:
        """Count what came into quarantine within so long, and is there still."""
        async with self._database.operator() as connection:
            return int((await connection.execute(NEWLY_FAILED, {"within": within})).scalar_one())

    async def of_turn(self, item: UUID, host: UUID | None = None) -> list[Entry]:
        """Return every row of a turn, follow-ups included; `item` is the turn or any of its rows. Empty: unknown.

        Of a turn that left the ledger after it was done: how each stage of it ended.
        """
        arguments = {"stages": [s.value for s in Stage], "item": item, "limit": ROWS_OF_A_TURN}
        async with self._database.operator() as connection:
            hosts = [host] if host else [row.host_id for row in await connection.execute(HOSTS)]
            for one in hosts:
                if rows := (await connection.execute(OF_TURN, {**arguments, "host": one})).all():
                    return [_build_entry(row) for row in rows]
        for one in hosts:
            async with self._database.tenant(one) as connection:
                if rows := (await connection.execute(ENDED, {**arguments, "host": one})).all():
                    return [_build_entry(row) for row in rows]
        return []

    async def history(self, host: UUID, turn: UUID) -> list[Noted]:
        """Return what was noted about a turn, in order: deliveries, failed attempts, what operators did by hand."""
        async with self._database.operator() as connection:
            rows = await connection.execute(HISTORY, {"host": host, "turn": turn})
            return [Noted(row.event, row.at, row.payload) for row in rows]

    async def bank_names(self, entries: Iterable[Entry]) -> dict[UUID, str]:
        """Return the names of the banks these rows belong to; banks that are gone have none."""
        by_host: dict[UUID, set[UUID]] = defaultdict(set)
        for entry in entries:
            by_host[entry.host_id].add(entry.bank_id)
        names: dict[UUID, str] = {}
        for host, banks in by_host.items():
            async with self._database.tenant(host) as connection:
                found = await connection.execute(BANKS, {"host": host, "banks": list(banks)})
                names |= {row.bank_id: row.bank_name for row in found}
        return names

    async def deliveries(self, entries: Iterable[Entry]) -> dict[UUID, Destination]:
        """Return where deliveries among these rows go to, or went to, by their item."""
        by_host: dict[UUID, list[UUID]] = defaultdict(list)
        for entry in entries:
            if entry.stage is Stage.GATEWAY:
                by_host[entry.host_id].append(entry.item_id)
        found: dict[UUID, Destination] = {}
        for host, items in by_host.items():
            async with self._database.tenant(host) as connection:
                rows = await connection.execute(DELIVERIES, {"host": host, "items": items})
                found |= {row["item_id"]: destination(row) for row in rows.mappings()}
        return found


def _status_names(statuses: Sequence[str]) -> list[str]:
    return [*statuses, *(state for state, public in PUBLIC.items() if public in statuses)]


def _build_entry(row: Row[Any]) -> Entry:
    stage = Stage(row.stage)
    return Entry(
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
