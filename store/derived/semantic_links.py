"""Semantic links from each unit to the few earlier units with the nearest vectors, made by maintenance.

A subscription follows the log of each tenant, so any worker compares every text once, in the order of the log, with
the units before it, as soon as its bank's vectors exist. A link is an event with the cosine as its weight and
the name of the embedding model, written in one transaction with the subscription's checkpoint. After a change of the
model old links stay, and new texts are linked by the new model. A corrected text is linked anew.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Row, Text, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.derived.locks import resume_ended
from store.derived.nearest_units import Nearness, NearPair, SearchedUnit, Size, estimate_size
from store.errors import RestoredElsewhere
from store.identity import user_id
from store.log.append import append_events, order_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer
from store.log.reader import ADVANCE, HOLD, OPEN, LogPosition, is_log_of_cluster
from store.recall.settings import RecallSettings

#: The subscription's name in the log.
SUBSCRIPTION = "semantic links"
KIND = "semantic"
#: The most events of one page; a few of them are texts.
EVENTS = 1000
#: Pairs of vectors compared in one statement: about a quarter of a second.
PAIRS = 500_000
#: Texts of one page at most: their links are one transaction.
TEXTS = 200

STANDS = text("""
    select cast(cast(s.xid as text) as bigint) as xid, s.position from afterturn.subscription_t s
     where s.host_id = :host and s.name = :name""")
#: Events that give a unit a text.
TEXT_EVENTS = (EventType.UNIT_RETAINED.value, EventType.UNIT_UPDATED.value)
UNDONE = text("""
    select count(*)
      from afterturn.event_store_t e
     where e.host_id = :host and (e.xid, e.position) > (cast(cast(:xid as text) as xid8), cast(:position as bigint))
       and e.xid < pg_snapshot_xmin(pg_current_snapshot())
       and e.event_type = any(:text_events)""").bindparams(bindparam("text_events", list(TEXT_EVENTS), ARRAY(Text)))
# A text that was changed or forgotten since then has a later event, which is handled at its own position. `lacking`:
# first position of the bank that is not embedded yet.
TEXTS_BEHIND = text("""
    with behind as materialized (
        select cast(cast(e.xid as text) as bigint) as xid, e.position, e.bank_id, e.aggregate_version,
               case when e.event_type = any(:text_events) then cast(e.data->>'unitId' as uuid) end as unit_id
          from afterturn.event_store_t e
         where e.host_id = :host
           and (e.xid, e.position) > (cast(cast(:xid as text) as xid8), cast(:position as bigint))
           and e.xid < pg_snapshot_xmin(pg_current_snapshot())
         order by e.xid, e.position limit :events
    )
    select b.xid, b.position, b.bank_id, u.unit_id, u.aggregate_version, u.turn_id,
           case when u.unit_id is not null then
               (select true from afterturn.unit_vector_t v
                 where v.host_id = :host and v.bank_id = b.bank_id and v.generation = :generation
                   and v.unit_id = u.unit_id and v.chunk = 0) end as embedded,
           case when u.unit_id is not null then
               (select min(l.position) from afterturn.ledger_t l
                 where l.host_id = :host and l.bank_id = b.bank_id and l.stage = 'embedding' and l.undone)
           end as lacking
      from behind b
      left join lateral (select u.unit_id, u.aggregate_version, u.turn_id from afterturn.agent_memory_unit_t u
                          where u.host_id = :host and u.bank_id = b.bank_id and u.unit_id = b.unit_id and u.active
                            and u.aggregate_version = b.aggregate_version offset 0) u on true
     order by b.xid, b.position""").bindparams(bindparam("text_events", list(TEXT_EVENTS), ARRAY(Text)))
# The locks of an append, in its order, and the one of callers' corrections, deletions and links, before any row is
# locked: other writers lock several units of a bank in another order.
LOCK = text("""
    select afterturn.enter_log(),
           (select count(pg_advisory_xact_lock_shared(k.key))
              from (select distinct afterturn.lock_key('bank', b.bank) as key
                      from unnest(cast(:banks as uuid[])) as b(bank) order by 1) k),
           (select count(pg_advisory_xact_lock(k.key))
              from (select distinct afterturn.lock_key('entities', b.bank) as key
                      from unnest(cast(:banks as uuid[])) as b(bank) order by 1) k)""")
# The units are locked, so that a concurrent deletion of one includes its new links.
STILL = text("""
    select u.unit_id from unnest(cast(:units as uuid[]), cast(:versions as bigint[])) as t(unit_id, version)
      join afterturn.agent_memory_unit_t u
        on u.host_id = :host and u.bank_id = :bank and u.unit_id = t.unit_id and u.active
       and u.aggregate_version = t.version
     order by u.unit_id for share of u""")
# Former semantic links; those without a model were made by callers.
FORMER = text("""
    select k.from_unit_id as later, k.to_unit_id as earlier, k.aggregate_version, k.weight
      from unnest(cast(:units as uuid[])) as t(unit_id),
           lateral (select k.* from afterturn.agent_memory_link_t k
                     where k.host_id = :host and k.bank_id = :bank and k.from_unit_id = t.unit_id
                    union all
                    select k.* from afterturn.agent_memory_link_t k
                     where k.host_id = :host and k.bank_id = :bank and k.to_unit_id = t.unit_id offset 0) k
     where k.link_type = 'semantic' and k.active
       and (select jsonb_exists(e.data, 'embeddingModel') from afterturn.event_store_t e
             where e.host_id = :host and e.bank_id = :bank
               and e.aggregate_key = concat_ws('|', k.from_unit_id, k.to_unit_id, k.link_type)
             order by e.aggregate_version desc limit 1)""")


@dataclass(frozen=True, slots=True)
class _Page:
    """Texts by bank between two places of the log, each with the version of its unit."""

    after: LogPosition
    upto: LogPosition
    texts: Mapping[UUID, Sequence[SearchedUnit]]


class NearLinks:
    """Follows the logs of all hosts and links units with near vectors, each as its own tenant.

    `model` is the model's name in the links' events. A second write of the same page changes nothing.
    """

    def __init__(
        self,
        database: Database,
        nearness: Nearness,
        model: str,
        settings: RecallSettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._nearness = nearness
        self._model = model
        self._settings = settings
        self._clock = clock

    async def undone(self, host: UUID) -> int:
        """Return how many texts of a host were not compared yet (reads its log from there on)."""
        async with self._database.tenant(host) as connection:
            stands = await _read_position(connection, host)
            arguments = {"host": host, "xid": str(stands.xid), "position": stands.position}
            return int((await connection.execute(UNDONE, arguments)).scalar_one())

    async def step(self, host: UUID) -> int | None:
        """Link the next texts of a host; return the number of events, None when no text is ready.

        No transaction is open between reading, comparing and writing. Raises RestoredElsewhere.
        """
        async with self._database.tenant(host) as connection:
            if not await is_log_of_cluster(connection):
                raise RestoredElsewhere("this log was restored from another cluster and must be stamped for this one")
            page, lists = await self._page(connection, host)
        if page.upto == page.after:
            return None
        near = {
            bank: await self._nearness.of(host, bank, lists[bank], later) for bank, later in page.texts.items() if later
        }
        async with self._database.tenant(host) as connection:
            return await self._write(connection, host, page, near)

    async def _page(self, connection: AsyncConnection, host: UUID) -> tuple[_Page, Mapping[UUID, int]]:
        """Return the next page, up to the first text before which a vector is missing, and the index lists by bank."""
        after = await _read_position(connection, host)
        arguments = {"host": host, "xid": str(after.xid), "position": after.position, "events": EVENTS}
        rows = await connection.execute(TEXTS_BEHIND, {**arguments, "generation": self._nearness.generation})
        upto, compared, texts, lists = after, 0, dict[UUID, list[SearchedUnit]](), dict[UUID, int]()
        sizes = dict[UUID, Size]()
        for row in takewhile(_is_ready, rows):
            if row.embedded:
                bank = row.bank_id
                sizes[bank] = sizes.get(bank) or await estimate_size(connection, host, bank, self._settings)
                compared += sizes[bank].compared
                if texts and (compared > PAIRS or sum(map(len, texts.values())) == TEXTS):
                    break
                texts.setdefault(bank, []).append(
                    SearchedUnit(row.unit_id, row.aggregate_version, row.position, row.turn_id)
                )
                lists[bank] = sizes[bank].lists
            upto = LogPosition(row.xid, row.position)
        return _Page(after, upto, texts), lists

    async def _write(
        self, connection: AsyncConnection, host: UUID, page: _Page, near: Mapping[UUID, Sequence[NearPair]]
    ) -> int:
        key = {"host": host, "name": SUBSCRIPTION}
        await connection.execute(LOCK, {"banks": list(near)})
        await connection.execute(OPEN, key)
        held = (await connection.execute(HOLD, key)).one()
        if LogPosition(held.xid, held.position) != page.after:
            return 0
        events = []
        for bank, found in near.items():
            origin = Origin(host, bank, user_id(host, None), self._clock())
            events += await self._events(connection, origin, page.texts[bank], found)
        ordered = order_events(events)
        await append_events(connection, host, ordered, if_absent=True)
        await connection.execute(ADVANCE, {**key, "xid": str(page.upto.xid), "position": page.upto.position})
        return len(events)

    async def _events(
        self, connection: AsyncConnection, origin: Origin, texts: Sequence[SearchedUnit], near: Sequence[NearPair]
    ) -> list[Mapping[str, Any]]:
        """Return the events that link these texts to the units they are near to, and end their outdated links."""
        place = {"host": origin.host, "bank": origin.bank}
        versions = {unit.unit_id: unit.version for unit in texts} | {one.earlier: one.version for one in near}
        seen = {"units": list(versions), "versions": list(versions.values())}
        still = set((await connection.execute(STILL, {**place, **seen})).scalars())
        wanted = {
            (one.later, one.earlier): round(min(one.cosine, 1.0), 4)
            for one in near
            if {one.later, one.earlier} <= still
        }
        again = [unit.unit_id for unit in texts if unit.version > 1 and unit.unit_id in still]
        rows = (await connection.execute(FORMER, {**place, "units": again})).all() if again else []
        former = {(row.later, row.earlier): row for row in rows}
        created = [
            self._link(origin, EventType.LINK_CREATED, pair, weight)
            for pair, weight in wanted.items()
            if pair not in former
        ]
        return [
            *await resume_ended(connection, origin.host, origin.bank, created),
            *self._mended(origin, former, wanted),
        ]

    def _mended(
        self, origin: Origin, former: Mapping[tuple[UUID, UUID], Row[Any]], wanted: Mapping[tuple[UUID, UUID], float]
    ) -> Iterator[Mapping[str, Any]]:
        for pair, row in former.items():
            version = row.aggregate_version + 1
            if pair not in wanted:
                yield self._link(origin, EventType.LINK_DELETED, pair, None, version)
            elif row.weight != wanted[pair]:
                yield self._link(origin, EventType.LINK_UPDATED, pair, wanted[pair], version)

    def _link(
        self, origin: Origin, kind: EventType, pair: tuple[UUID, UUID], weight: float | None, version: int = 1
    ) -> Mapping[str, Any]:
        data: dict[str, Any] = {"fromUnitId": str(pair[0]), "toUnitId": str(pair[1]), "linkType": KIND}
        if weight is not None:
            data |= {"weight": weight, "embeddingModel": self._model}
        return build_offer(origin, kind, (*pair, KIND), data, nth=str(version))


async def _read_position(connection: AsyncConnection, host: UUID) -> LogPosition:
    row = (await connection.execute(STANDS, {"host": host, "name": SUBSCRIPTION})).one_or_none()
    return LogPosition(row.xid, row.position) if row else LogPosition()


def _is_ready(row: Row[Any]) -> bool:
    """Return whether this text and all before it in its bank have vectors; texts that never get one are skipped."""
    return row.lacking is None or (row.embedded and row.position < row.lacking)
