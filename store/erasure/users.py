"""Erasing what a user said, in all banks of the host: the user's events are walked in order of the log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.erasure.requests import Erasure
from store.erasure.units import ERASE_EVENTS, FORGET_JOBS, SCRUB, SCRUB_SESSIONS, Place, erase_units
from store.errors import NotFound
from store.events.catalog import Aggregate, EventType

#: Events of one transaction.
PAGE_EVENTS = 300

# WHY nonce: it is the position, and the log has an index on it by user.
KNOWN = text("select exists (select from afterturn.event_store_t where host_id = :host and user_id = :user)")
PAGE = text("""
    select e.position, e.bank_id, e.event_type, e.aggregate_type,
           cast(coalesce(d->>'unitId', d->>'docId', d->>'directiveId', d->>'reflectionId', d->>'sessionId') as uuid)
               as thing
      from afterturn.event_store_t e, lateral (select e.payload->'data') as x(d)
     where e.host_id = :host and e.user_id = :user and e.nonce > :reached and e.nonce <= :upto
     order by e.nonce limit :limit""")
# What ends with its writer: versions in the log of those that are not erased, and whether they live.
THINGS = text("""
    select t.id,
           afterturn.logged_version(:host, cast(:host as uuid) || '|' || cast(:bank as uuid) || '|' || t.id) as version
      from unnest(cast(:things as uuid[])) t(id)
     where exists (select from afterturn.event_store_t e
                    where e.host_id = :host
                      and e.aggregate_id = cast(:host as uuid) || '|' || cast(:bank as uuid) || '|' || t.id
                      and not e.payload->'data' ? 'erased')
     order by 1""")
ERASE_WORDS = text("select afterturn.erase_words_of(:erasure, cast(:positions as bigint[]))")

#: What a user makes beside turns: how its end is called, by which field it is named, what a receipt calls it.
MADE: Mapping[str, tuple[EventType, str, str]] = {
    Aggregate.DOC.value: (EventType.DOC_DELETED, "docId", "documents"),
    Aggregate.DIRECTIVE.value: (EventType.DIRECTIVE_DELETED, "directiveId", "directives"),
    Aggregate.REFLECTION.value: (EventType.REFLECTION_DELETED, "reflectionId", "reflections"),
}


@dataclass(slots=True)
class Written:
    """What a page of the log holds of a user in one bank."""

    units: set[UUID] = field(default_factory=set)
    made: dict[str, set[UUID]] = field(default_factory=dict)
    histories: list[Row[Any]] = field(default_factory=list)

    def add(self, row: Row[Any]) -> None:
        """Take in one event of the user; whoever says anew what a thing is has made it as it is."""
        if row.event_type.endswith("DeletedEvent"):
            return
        if row.aggregate_type == Aggregate.UNIT.value:
            self.units.add(row.thing)
        elif row.aggregate_type in MADE:
            self.made.setdefault(row.aggregate_type, set()).add(row.thing)
        elif row.aggregate_type == Aggregate.SESSION.value:
            self.histories.append(row)


async def begin_user(connection: AsyncConnection, erasure: Erasure) -> None:
    """See that there is something of the user. Raises NotFound."""
    known = await connection.execute(KNOWN, {"host": erasure.host, "user": erasure.target})
    if not known.scalar():
        raise NotFound("no such user")


async def next_page(connection: AsyncConnection, erasure: Erasure) -> Sequence[Row[Any]]:
    """Return the user's next events, in order of the log."""
    arguments = {"host": erasure.host, "user": erasure.target, "reached": erasure.reached, "upto": erasure.upto}
    return (await connection.execute(PAGE, {**arguments, "limit": PAGE_EVENTS})).all()


def by_bank(page: Sequence[Row[Any]]) -> dict[UUID, Written]:
    """Return what a page holds, by bank."""
    found: dict[UUID, Written] = {}
    for row in page:
        found.setdefault(row.bank_id, Written()).add(row)
    return dict(sorted(found.items()))


async def erase_written(place: Place, written: Written) -> None:
    """Erase what a user wrote in one bank, as far as one page of the log tells of it."""
    for kind, things in written.made.items():
        await _end(place, MADE[kind], sorted(things))
    if written.made:
        await place.count("recall_jobs", FORGET_JOBS)
    await erase_units(place, sorted(written.units))
    positions = [row.position for row in written.histories]
    await place.count("events", ERASE_WORDS, positions=positions)
    sessions = sorted({row.thing for row in written.histories})
    await place.count("history_messages", SCRUB_SESSIONS, sessions=sessions)


async def _end(place: Place, how: tuple[EventType, str, str], things: Sequence[UUID]) -> None:
    end, name, kind = how
    found = await place.ask(THINGS, things=list(things))
    await place.end(end, [(row.id, row.version) for row in found], name)
    subjects = [place.subject(row.id) for row in found]
    await place.count("events", ERASE_EVENTS, subjects=subjects, upto=None)
    await place.ask(SCRUB, subjects=subjects)
    place.erasure.counts[kind] += len(found)
