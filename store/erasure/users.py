"""Erases a user's events in all banks of the tenant, in the order of the log.

A document, unit or directive is the user's if the user's event created it; of those that others created, the user's
versions are erased. The user's own banks are erased with all that is in them, other people's messages included. So are
the names that the user gave: of sessions in which no other user wrote, and of keys, which are revoked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Row, bindparam, exists, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.erasure.requests import Erasure
from store.erasure.take_back import append_state, read_remainder, take_back_unit
from store.erasure.units import (
    ERASE_AT,
    ERASE_EVENTS,
    ERASE_WORDS,
    FORGET_JOBS,
    SCRUB,
    SCRUB_SESSIONS,
    LockedBank,
    erase_units,
)
from store.log.append import append_events, read_versions
from store.log.catalog import Aggregate, EventType
from store.schema import BANK, UNIT, in_bank

#: Events of one transaction.
PAGE_EVENTS = 300

PAGE = text("""
    select e.position, e.bank_id, e.event_type, e.aggregate_type, afterturn.begins(e.event_type)
           and not exists (select from afterturn.event_store_t o
                            where o.host_id = e.host_id and o.bank_id = e.bank_id and o.aggregate_key = e.aggregate_key
                              and o.user_id <> e.user_id)
               as theirs,
           d ? 'erased' as erased, cast(d->>'sessionId' as uuid) as session_id,
           cast(coalesce(d->>'unitId', d->>'docId', d->>'directiveId', d->>'reflectionId', d->>'sessionId') as uuid)
               as thing
      from afterturn.event_store_t e, lateral (select e.data) as x(d)
     where e.host_id = :host and e.user_id = :user and e.position > :reached and e.position <= :upto
     order by e.position limit :limit""")
# Whether other users' units refer to a document or are its chunks; then these remain.
OTHERS_IN_DOC = select(
    exists().where(in_bank(UNIT), UNIT.c.doc_id == bindparam("doc"), UNIT.c.active, UNIT.c.user_id != bindparam("user"))
)
# Sessions in which no other user wrote and of which only the history is left to erase.
THEIR_SESSIONS = text("""
    select h.session_id, h.active, s.subject, afterturn.logged_version(h.host_id, s.subject) as version
      from unnest(cast(:sessions as uuid[])) t(session_id),
           lateral (select h.* from afterturn.agent_session_history_t h
                     where h.host_id = :host and h.bank_id = :bank and h.session_id = t.session_id offset 0) h,
           lateral (select h.host_id || '|' || h.bank_id || '|' || h.session_id as subject,
                           cast(h.session_id as text) as key) s
     where exists (select from afterturn.event_store_t e
                    where e.host_id = :host and e.bank_id = :bank and e.aggregate_key = s.key and not e.data ? 'erased')
       and not exists (select from afterturn.event_store_t e
                        where e.host_id = :host and e.bank_id = :bank and e.aggregate_key = s.key
                          and not e.data ? 'erased' and (e.user_id <> :user or e.position > :upto))
       and not exists (select from afterturn.agent_memory_unit_t u
                        where u.host_id = :host and u.bank_id = :bank and u.session_id = h.session_id
                          and u.content <> '')
     order by h.session_id""")
KEYS = text("select key_id, user_name, gateway_user from afterturn.named_keys(:erasure)")
NAMED_BANKS = select(BANK.c.bank_id, BANK.c.bank_name).where(
    BANK.c.host_id == bindparam("host"), BANK.c.user_id == bindparam("user"), BANK.c.bank_name != ""
)
ERASE_KEYS = text("""
    select afterturn.erase_keys(:erasure, cast(:keys as uuid[]), cast(:banks as uuid[]), cast(:names as text[]))""")

#: Aggregates that a user makes beside turns: the event of the end, and the name in a receipt.
MADE: Mapping[Aggregate, tuple[EventType, str]] = {
    Aggregate.DOC: (EventType.DOC_DELETED, "documents"),
    Aggregate.DIRECTIVE: (EventType.DIRECTIVE_DELETED, "directives"),
    Aggregate.REFLECTION: (EventType.REFLECTION_DELETED, "reflections"),
}


@dataclass(slots=True)
class UserEvents:
    """A user's events in one bank, of one page of the log."""

    #: Units of which every event is the user's, and those of which others wrote some.
    theirs: set[UUID] = field(default_factory=set)
    shared: set[UUID] = field(default_factory=set)
    made: dict[Aggregate, set[UUID]] = field(default_factory=dict)
    histories: list[int] = field(default_factory=list)
    sessions: set[UUID] = field(default_factory=set)

    def add(self, row: Row[Any]) -> None:
        """Add one event of the user."""
        if row.erased or row.event_type.endswith("DeletedEvent"):
            return
        if row.session_id:
            self.sessions.add(row.session_id)
        if row.aggregate_type == Aggregate.UNIT.value:
            (self.theirs if row.theirs else self.shared).add(row.thing)
        elif row.aggregate_type in MADE:
            self.made.setdefault(Aggregate(row.aggregate_type), set()).add(row.thing)
        elif row.aggregate_type == Aggregate.SESSION.value:
            self.histories.append(row.position)


async def read_events_of_user(connection: AsyncConnection, erasure: Erasure) -> Sequence[Row[Any]]:
    """Return the user's next events, in log order."""
    arguments = {"host": erasure.host, "user": erasure.target, "reached": erasure.reached, "upto": erasure.upto}
    return (await connection.execute(PAGE, {**arguments, "limit": PAGE_EVENTS})).all()


def group_by_bank(page: Sequence[Row[Any]]) -> dict[UUID, UserEvents]:
    """Return a page's events by bank."""
    found: dict[UUID, UserEvents] = {}
    for row in page:
        found.setdefault(row.bank_id, UserEvents()).add(row)
    return dict(sorted(found.items()))


async def erase_written(place: LockedBank, written: UserEvents) -> None:
    """Erase the content of one page of a user's events in one bank."""
    for kind, things in written.made.items():
        for thing in sorted(things):
            await _erase_made(place, kind, thing)
    theirs = set(written.theirs)
    for unit in sorted(written.shared - theirs):
        if await take_back_unit(place, unit):
            theirs.add(unit)
    if written.made or written.shared:
        await place.count("recall_jobs", FORGET_JOBS)
    await erase_units(place, sorted(theirs))
    await place.count("events", ERASE_WORDS, positions=written.histories)
    await place.count("history_messages", SCRUB_SESSIONS, sessions=sorted(written.sessions))
    await _end_sessions(place, sorted(written.sessions))


async def erase_keys(connection: AsyncConnection, erasure: Erasure) -> None:
    """Revoke the keys of a user and take the user's names from them, from other keys' scopes and from quotas."""
    host, user = erasure.host, erasure.target
    keys = (await connection.execute(KEYS, {"erasure": erasure.erasure_id})).all()
    theirs = [
        key.key_id
        for key in keys
        if user in {identity.user_id(host, name) for name in (key.user_name, key.gateway_user) if name}
    ]
    banks = (await connection.execute(NAMED_BANKS, {"host": host, "user": user})).all()
    arguments = {"keys": theirs, "banks": [bank.bank_id for bank in banks], "names": [bank.bank_name for bank in banks]}
    await connection.execute(ERASE_KEYS, {"erasure": erasure.erasure_id, **arguments})
    erasure.counts["keys"] += len(theirs)


async def _erase_made(place: LockedBank, kind: Aggregate, thing: UUID) -> None:
    """Erase a document, directive, link or reflection that a user made, or a user's versions of another's."""
    end, label = MADE[kind]
    left = await read_remainder(place, kind, thing)
    if not left.positions:
        return
    subject = place.subject(thing)
    version = (await read_versions(place.connection, place.erasure.host, [subject]))[subject]
    if left.theirs and kind is Aggregate.DOC and (await _others_stand_in(place, thing)):
        marker = place.marked(EventType.DOC_UPDATED, version + 1, thing)
        await append_events(place.connection, place.erasure.host, [marker])
    elif left.theirs:
        await place.end(end, [(thing, version)])
    elif left.state is not None:
        await append_state(place, kind, thing, left.state)
    await place.count("events", ERASE_AT, positions=left.positions)
    await place.ask(SCRUB, subjects=[subject])
    place.erasure.counts[label if left.theirs else "versions"] += 1


async def _others_stand_in(place: LockedBank, doc: UUID) -> bool:
    return bool((await place.ask(OTHERS_IN_DOC, doc=doc, user=place.erasure.target))[0][0])


async def _end_sessions(place: LockedBank, sessions: Sequence[UUID]) -> None:
    """End and erase sessions in which no other user wrote, with their names."""
    erasure = place.erasure
    found = await place.ask(THEIR_SESSIONS, sessions=list(sessions), user=erasure.target, upto=erasure.upto)
    living = [(row.session_id, row.version) for row in found if row.active]
    await place.end(EventType.SESSION_DELETED, living)
    await place.count("events", ERASE_EVENTS, subjects=[row.subject for row in found], upto=None)
    await place.count("history_messages", SCRUB_SESSIONS, sessions=[row.session_id for row in found])
    erasure.counts["sessions"] += len(found)
