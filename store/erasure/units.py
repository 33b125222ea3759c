"""Erasing units and what depends on them, a batch at a time, in one transaction that locks their bank exclusively.

The order matters. The end of the units is appended first: projectors and derived state follow it as they follow any
other end. Only then are events and rows replaced by markers, so that a replay gives the same rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Uuid, any_, bindparam, delete, exists, func, or_, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.derived import bank_state
from store.erasure.requests import Erasure
from store.log.append import append_events
from store.log.catalog import EventType, aggregate_id
from store.log.envelope import Origin, build_version
from store.log.locks import ENTER_LOG, hold_lock, share_lock
from store.schema import BANK, FORGOTTEN_UNIT, PLUGIN_VECTOR, RECALL_JOB, UNIT, UNIT_ENTITY, in_bank
from store.tenancy.external_models import count_sent
from store.tenancy.gateway_targets import build_destination

# Locks of the places of an erasure, in the order of store/SCHEMA.md. A writer that appends to a bank, counts or embeds
# for it holds the bank's lock shared meanwhile.
LOCK_LOG = select(ENTER_LOG)
# Held briefly, for one host: afterwards, the writes that had begun before are in the log.
LOCK_HOST = select(func.pg_advisory_xact_lock_shared(func.afterturn.log_lock()), hold_lock("host", "host"))
# Taken when a bank ends, because its quota is then recounted.
LOCK_QUOTA = select(func.afterturn.lock_quota(bindparam("host", type_=Uuid)))
SHARE_QUOTA = select(share_lock("quota", "host"))
LOCK_BANK = select(hold_lock("bank", "bank"))
# In the order in which all writers lock banks.
LOCK_BANKS = text("""
    select pg_advisory_xact_lock(k.key)
      from (select distinct afterturn.lock_key('bank', b.bank) as key
              from unnest(cast(:banks as uuid[])) as b(bank) order by 1) k""")


TO_ERASE = text("select * from afterturn.units_to_erase(:host, :bank, cast(:units as uuid[]))")
TIES = text("select * from afterturn.ties_of(:host, :bank, cast(:units as uuid[]))")
ORPHANS = text("select * from afterturn.orphans_of(:host, :bank, cast(:units as uuid[]))")
REFLECTIONS = text("select * from afterturn.reflections_of(:host, :bank, cast(:units as uuid[]))")
WEIGHT = text("""
    select (select count(*) from afterturn.unit_word_t w, jsonb_object_keys(w.terms)
             where w.host_id = :host and w.bank_id = :bank and w.unit_id = any(:units)) as words,
           (select count(*) from afterturn.unit_vector_t v
             where v.host_id = :host and v.bank_id = :bank and v.unit_id = any(:units)) as vectors""")
_TIE, _NOTE = UNIT_ENTITY.c, FORGOTTEN_UNIT.c
_UNITS = any_(bindparam("units", type_=ARRAY(Uuid)))
UNCOUNTED = select(exists().where(in_bank(UNIT_ENTITY), _TIE.counted != _TIE.removed_at.is_(None)))
# Units that were never counted need no correction of counts, but their rows here hold their words.
FORGET_NOTES = delete(FORGOTTEN_UNIT).where(in_bank(FORGOTTEN_UNIT), _NOTE.unit_id == _UNITS)
# Documents of these units: a turn may refer to another user's document, which is not erased with it.
DOCS = text("""
    select o.doc_id, o.active,
           afterturn.logged_version(o.host_id, o.host_id || '|' || o.bank_id || '|' || o.doc_id) as version
      from afterturn.agent_memory_doc_t o
     where o.host_id = :host and o.bank_id = :bank and o.doc_id = any(:docs)
       and (o.original_text is not null or o.content_hash is not null)
       and exists (select from afterturn.agent_memory_unit_t u
                    where u.host_id = :host and u.bank_id = :bank and u.doc_id = o.doc_id and u.unit_id = any(:units)
                      and (u.origin = 'document' or u.user_id = (
                           select e.user_id from afterturn.event_store_t e
                            where e.host_id = :host
                              and e.bank_id = o.bank_id and e.aggregate_key = cast(o.doc_id as text)
                            order by e.aggregate_version limit 1)))""")
ERASE_EVENTS = text("select afterturn.erase_events(:erasure, cast(:subjects as text[]), cast(:upto as bigint))")
ERASE_AT = text("select afterturn.erase_at(:erasure, cast(:positions as bigint[]))")
ERASE_MESSAGES = text("select afterturn.erase_messages(:erasure, :bank, cast(:units as uuid[]))")
ERASE_WORDS = text("select afterturn.erase_words_of(:erasure, cast(:positions as bigint[]))")
ERASE_GUARDS = text("select afterturn.erase_guards(:erasure, cast(:turns as uuid[]))")
SCRUB = text("select afterturn.scrub(:host, cast(:subjects as text[]))")
SCRUB_SESSIONS = text("select afterturn.scrub_sessions(:host, :bank, cast(:sessions as uuid[]))")
EMPTIED = text("""
    select t.turn_id from unnest(cast(:turns as uuid[])) t(turn_id)
     where (select true from afterturn.agent_memory_unit_t u
             where u.host_id = :host and u.bank_id = :bank and u.turn_id = t.turn_id
               and u.origin in ('message', 'document', 'memory') and u.active limit 1) is null""")
END_TURNS = text("select afterturn.end_turns(:host, cast(:turns as uuid[]), cast(:ended as uuid[]))")
# For a turn whose ledger rows are pruned, its row in turn_t records how the gateway's stage ended; a row rebuilt from
# the log has no target. Turns that this service delivered to itself are stored only once, here.
DELIVERED = text("""
    with told as (
        select l.session_id, l.target_id from afterturn.ledger_t l
         where l.host_id = :host and l.stage = 'gateway' and l.turn_id = any(:turns)
           and l.status in ('adding', 'added', 'flushing', 'flushed', 'flush_failed', 'add_unknown')
        union all
        select t.session_id, cast(t.ended->'gateway'->>'target' as uuid) from afterturn.turn_t t
         where t.host_id = :host and t.turn_id = any(:turns) and t.ended->'gateway'->>'status' = 'flushed'
    ), counted as (
        select t.session_id, t.target_id, count(*) as turns from told t group by 1, 2
    )
    select g.*, c.turns, coalesce(b.bank_name, '') as bank_name, coalesce(s.session_name, '') as session_name
      from counted c
      left join afterturn.gateway_target_t g on g.host_id = :host and g.target_id = c.target_id
      left join afterturn.agent_memory_bank_t b on b.host_id = :host and b.bank_id = :bank
      left join afterturn.agent_session_history_t s
        on s.host_id = :host and s.bank_id = :bank and s.session_id = c.session_id
     where c.target_id is null or g.base_url is not null""")
_JOB, _BANK = RECALL_JOB.c, BANK.c
FORGET_JOBS = delete(RECALL_JOB).where(
    _JOB.host_id == bindparam("host"),
    in_bank(BANK),
    or_(_JOB.request["bank"].astext == _BANK.bank_name, func.jsonb_exists(_JOB.request["banks"], _BANK.bank_name)),
)
# Deletes the vectors that callers of the memory plugin sent for these units.
FORGET_VECTORS = delete(PLUGIN_VECTOR).where(
    in_bank(PLUGIN_VECTOR),
    in_bank(UNIT),
    UNIT.c.unit_id == _UNITS,
    UNIT.c.origin == "memory",
    PLUGIN_VECTOR.c.session_id == UNIT.c.session_id,
)

#: The names of units in a receipt, by origin.
ORIGINS = {"message": "messages", "extraction": "facts", "document": "chunks", "memory": "memories"}
#: Origins of units that stages read; a stage under way may still write what it found in one.
READ = frozenset({"message", "document", "memory"})


@dataclass(frozen=True, slots=True)
class LockedBank:
    """One bank, locked exclusively by the transaction of one erasure."""

    connection: AsyncConnection
    erasure: Erasure
    bank: UUID

    @property
    def origin(self) -> Origin:
        """The origin of the erasure's events: the host's system user."""
        host = self.erasure.host
        return Origin(host, self.bank, identity.user_id(host, None), self.erasure.at)

    def subject(self, *parts: object) -> str:
        """Return the id of an aggregate of this bank."""
        return aggregate_id(self.erasure.host, self.bank, *parts)

    async def ask(self, statement: Any, **arguments: object) -> Sequence[Row[Any]]:
        """Run a statement with this bank's ids, and return its rows."""
        place = {"host": self.erasure.host, "bank": self.bank}
        rows = await self.connection.execute(statement, {**place, **arguments})
        return rows.all() if rows.returns_rows else ()

    async def count(self, kind: str, statement: Any, **arguments: object) -> None:
        """Run a statement that returns or changes a number of rows, and add that to the receipt as `kind`."""
        about = {"erasure": self.erasure.erasure_id, "host": self.erasure.host, "bank": self.bank}
        found = await self.connection.execute(statement, {**about, **arguments})
        number = int(found.scalar_one()) if found.returns_rows else found.rowcount
        if number:
            self.erasure.counts[kind] += number

    async def end(self, kind: EventType, things: Iterable[tuple[UUID, int]]) -> None:
        """Append the end of aggregates of one kind, each as its next version."""
        await append_events(
            self.connection,
            self.erasure.host,
            [self.marked(kind, version + 1, thing) for thing, version in things],
        )

    def marked(self, kind: EventType, version: int, *ids: UUID) -> Mapping[str, Any]:
        """Return an event that marks the aggregate of these ids as erased, without content."""
        return build_version(self.origin, kind, ids, version, erased=True)


async def erase_units(place: LockedBank, seeds: Sequence[UUID]) -> None:
    """Erase these units and all units drawn from them; units that are erased already change nothing."""
    found = await place.ask(TO_ERASE, units=list(seeds))
    if not found:
        return
    units = [row.unit_id for row in found]
    await _count_units(place, found, units)
    await place.end(EventType.UNIT_DELETED, [(row.unit_id, row.version) for row in found])
    await settle_derived(place, units)
    subjects = [place.subject(unit) for unit in units]
    subjects += await _end_ties(place, units) + await end_orphans(place, units) + await _erase_documents(place, found)
    reflections, positions = await _erase_reflections(place, units)
    await place.count("events", ERASE_EVENTS, subjects=subjects, upto=None)
    await place.count("events", ERASE_AT, positions=positions)
    await place.count("events", ERASE_MESSAGES, units=units)
    await place.count("callers_vectors", FORGET_VECTORS, units=units)
    await place.ask(SCRUB, subjects=subjects + reflections)
    sessions = sorted({row.session_id for row in found if row.session_id})
    await place.count("history_messages", SCRUB_SESSIONS, sessions=sessions)
    await end_turns(place, sorted({row.turn_id for row in found if row.turn_id and row.origin in READ}))
    await place.count("recall_jobs", FORGET_JOBS)


async def end_turns(place: LockedBank, turns: Sequence[UUID]) -> None:
    """Erase the guards of these turns, and end the undone work of those that have no message left."""
    if not turns:
        return
    emptied = [row.turn_id for row in await place.ask(EMPTIED, turns=list(turns))]
    await count_delivered(place, turns)
    await place.count("turns", ERASE_GUARDS, turns=list(turns))
    await place.count("work", END_TURNS, turns=list(turns), ended=emptied)


async def count_delivered(place: LockedBank, turns: Sequence[UUID]) -> None:
    """Count in the receipt the deliveries of these turns, by the sessions' names at the gateway."""
    for row in await place.ask(DELIVERED, turns=list(turns)):
        known = row.target_id is not None
        session = build_destination(row._mapping).session if known else row.session_name  # noqa: SLF001 - public, says SQLAlchemy
        place.erasure.delivered[session] += row.turns


async def _count_units(place: LockedBank, found: Sequence[Row[Any]], units: Sequence[UUID]) -> None:
    for row in found:
        place.erasure.counts[ORIGINS[row.origin]] += 1
    [weight] = await place.ask(WEIGHT, units=units)
    place.erasure.counts["words"] += weight.words
    place.erasure.counts["vectors"] += weight.vectors
    place.erasure.counts.update(await count_sent(place.connection, place.erasure.host, place.bank, units))


async def settle_derived(place: LockedBank, units: Sequence[UUID]) -> None:
    """Update derived state by the units' end, completely: no step may be left to a stage."""
    await bank_state.advance_bank(place.connection, place.origin, [])
    while (await place.ask(UNCOUNTED))[0][0]:
        await bank_state.advance_bank(place.connection, place.origin, [])
    await place.ask(FORGET_NOTES, units=units)


async def _end_ties(place: LockedBank, units: Sequence[UUID]) -> list[str]:
    ties = await place.ask(TIES, units=units)
    for tie in ties:
        place.erasure.counts[tie.kind] += 1
    return [tie.subject for tie in ties]


async def end_orphans(place: LockedBank, units: Sequence[UUID]) -> list[str]:
    """End the entities of these units that no living unit names any more; return their aggregate ids."""
    orphans = await place.ask(ORPHANS, units=units)
    await place.end(EventType.ENTITY_DELETED, [(row.entity_id, row.version) for row in orphans])
    place.erasure.counts["entities"] += len(orphans)
    return [place.subject(row.entity_id) for row in orphans]


async def _erase_documents(place: LockedBank, found: Sequence[Row[Any]]) -> list[str]:
    """Erase the text of documents with erased units, whose other units stay; return their aggregate ids."""
    docs = sorted({row.doc_id for row in found if row.doc_id})
    if not docs:
        return []
    rows = await place.ask(DOCS, docs=docs, units=[row.unit_id for row in found])
    await append_events(
        place.connection,
        place.erasure.host,
        [place.marked(EventType.DOC_UPDATED, row.version + 1, row.doc_id) for row in rows if row.active],
    )
    place.erasure.counts["documents"] += len(rows)
    return [place.subject(row.doc_id) for row in rows]


async def _erase_reflections(place: LockedBank, units: Sequence[UUID]) -> tuple[list[str], list[int]]:
    """End reflections that repeat these units last; return the aggregate ids and log positions of all that did."""
    rows = await place.ask(REFLECTIONS, units=units)
    ending = [(row.reflection_id, row.version) for row in rows if row.last and row.active]
    await place.end(EventType.REFLECTION_DELETED, ending)
    found = sorted({row.reflection_id for row in rows})
    place.erasure.counts["reflections"] += len(found)
    return [place.subject(one) for one in found], [row.position for row in rows]
