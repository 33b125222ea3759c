"""Derives reflections from facts, one for each subject and key and one for each list.

They are events, appended in the transaction that derived them: an existing one is not repeated, and one that its
facts no longer support is ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.facts import Identity, identity_columns
from store.derived.insights import LISTED, Statement, choose_members, derive_insight, derive_list
from store.derived.temporal_links import build_successor_links
from store.derived.unit_vectors import ChangedReflection, open_rows
from store.identity import NamedKind, named_id
from store.log.append import append_events, order_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_version
from store.text.rules.fact_rules import LIST_PHRASES

Event = Mapping[str, Any]
#: The id of a kind of facts, and their subject.
ListIdentity = tuple[str, str]

#: The most statements of one identity, the newest of them: the reflection's event names each.
STATED = 64
#: The newest statements of a kind and subject that are looked at for a list; of these as many are read, and of one key
#: as many: the newest may be in other words than a member's.
SEEN_FOR_LIST, READ_FOR_LIST, READ_OF_KEY = 64 * LISTED, 4 * LISTED, 4
#: Identities whose statements are read at a time.
AT_ONCE = 256

STATEMENTS = text("""
    select f.fact_id, f.subject, f.key as identity_key, u.unit_id, coalesce(u.turn_id, u.unit_id) as turn_id,
           u.metadata->>'key' as key, u.metadata->>'value' as value, f.value as folded, u.content, f.valid_from as at,
           f.superseded_by, f.denied, f.valid_to is null as holds
      from unnest(cast(:fact_ids as text[]), cast(:subjects as text[]), cast(:keys as text[]))
               as t(fact_id, subject, key),
           lateral (select f.* from afterturn.fact_t f
                     where f.host_id = :host and f.bank_id = :bank and f.fact_id = t.fact_id
                       and f.subject = t.subject and f.key = t.key
                     order by f.valid_from desc, f.said desc, f.position desc, f.unit_id desc limit :statements) f,
           lateral (select u.* from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.unit_id = f.unit_id and u.active
                       and u.metadata->>'value' is not null offset 0) u
     order by f.fact_id, f.subject, f.key, f.valid_from, f.said, f.position, f.unit_id""")
# The newest statements that hold of a kind and subject, of which there may be many: in the order of `fact_of_kind`.
# Most of them may say the same, so only some of each key are read.
MEMBERS = text("""
    select t.fact_id, t.subject, u.unit_id, coalesce(u.turn_id, u.unit_id) as turn_id, f.key,
           u.metadata->>'value' as value, f.value as folded, u.content, f.valid_from as at
      from unnest(cast(:fact_ids as text[]), cast(:subjects as text[])) as t(fact_id, subject),
           lateral (select k.*
                      from (select s.*, row_number() over of_key as nth
                              from (select f.* from afterturn.fact_t f
                                     where f.host_id = :host and f.bank_id = :bank and f.fact_id = t.fact_id
                                       and f.subject = t.subject and f.valid_to is null
                                     order by f.valid_from desc, f.said desc, f.position desc, f.unit_id desc
                                     limit :seen) s
                            window of_key as (partition by s.key order by s.valid_from desc, s.said desc,
                                                                          s.position desc, s.unit_id desc)) k
                     where k.nth <= :of_key
                     order by k.valid_from desc, k.said desc, k.position desc, k.unit_id desc limit :statements) f,
           lateral (select u.* from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.unit_id = f.unit_id and u.active
                       and u.metadata->>'value' is not null offset 0) u
     order by t.fact_id, t.subject, f.valid_from desc, f.said desc, f.position desc, f.unit_id desc""")
#: The events that give a reflection its text.
TOLD_EVENTS = [EventType.REFLECTION_CREATED, EventType.REFLECTION_UPDATED]
# `lapsed`: one of the sources that the last event names has ended or was corrected, so that no reader tells the
# reflection.
REFLECTIONS = text("""
    select r.reflection_id, r.content, r.aggregate_version, r.active, exists (
               select from jsonb_array_elements_text(e.sources) s(id)
                where (select u.active and u.metadata->>'value' is not null from afterturn.agent_memory_unit_t u
                        where u.host_id = :host and u.bank_id = :bank and u.unit_id = cast(s.id as uuid))
                      is not true) as lapsed
      from unnest(cast(:reflections as uuid[])) t(id),
           lateral (select r.* from afterturn.agent_memory_reflection_t r
                     where r.host_id = :host and r.bank_id = :bank and r.reflection_id = t.id offset 0) r
      left join lateral (
               select e.data->'sourceMemoryIds' as sources from afterturn.event_store_t e
                where e.host_id = :host and e.bank_id = :bank and e.aggregate_key = cast(r.reflection_id as text)
                  and e.event_type = any(cast(:told as text[]))
                order by e.aggregate_version desc limit 1) e on true""")


@dataclass(frozen=True, slots=True)
class _Derived:
    """The text of a reflection (None: there is to be none), and the statements it is derived from."""

    content: str | None
    statements: Sequence[Statement]


def reflection_id(bank: UUID, identity: Identity) -> UUID:
    """Return the id of a bank's reflection on one subject and key."""
    return named_id(bank, NamedKind.REFLECTION, f"{identity.fact_id}:{identity.subject}:{identity.key}")


def list_id(bank: UUID, fact_id: str, subject: str) -> UUID:
    """Return the id of a bank's list of the facts of one kind and subject."""
    return named_id(bank, NamedKind.LIST, f"{fact_id}:{subject}")


async def consolidate_facts(connection: AsyncConnection, origin: Origin, identities: Sequence[Identity]) -> bool:
    """Update the reflections and links of these identities by their facts; return whether some are to be embedded.

    At most the last STATED statements of an identity, and READ_FOR_LIST of the last SEEN_FOR_LIST of a list, are read.
    The caller holds the bank's lock for deriving writers, and the log's locks.
    """
    opened, listed = False, set[ListIdentity]()
    for at in range(0, len(identities), AT_ONCE):
        stated = identities[at : at + AT_ONCE]
        kinds = {(one.fact_id, one.subject) for one in stated if one.fact_id in LIST_PHRASES} - listed
        opened |= await _consolidate_stated(connection, origin, stated, sorted(kinds))
        listed |= kinds
    return opened


async def _consolidate_stated(
    connection: AsyncConnection, origin: Origin, identities: Sequence[Identity], kinds: Sequence[ListIdentity]
) -> bool:
    place = {"host": origin.host, "bank": origin.bank, "statements": STATED}
    rows = (await connection.execute(STATEMENTS, {**place, **identity_columns(identities)})).all()
    stated: dict[Identity, Sequence[Statement]] = dict.fromkeys(identities, ())
    for key, found in groupby(rows, lambda row: Identity(row.fact_id, row.subject, row.identity_key)):
        of_one = [*found]
        if any(row.holds for row in of_one):
            stated[key] = _build_statements(row for row in of_one if not row.denied)
    derived = {
        reflection_id(origin.bank, one): _Derived(derive_insight(one.fact_id, said), said)
        for one, said in stated.items()
    } | await _derive_lists(connection, origin, kinds)
    reflections = await _reflection_events(connection, origin, derived)
    events = [*reflections.values(), *await build_successor_links(connection, origin, rows)]
    ordered = order_events(events)
    position = await append_events(connection, origin.host, ordered)
    living = [id_ for id_, event in reflections.items() if event["type"] != EventType.REFLECTION_DELETED]
    if position is None or not living:
        return False
    drawn = [ChangedReflection(id_, derived[id_].statements[-1].turn_id) for id_ in living]
    await open_rows(connection, origin, drawn, position)
    return True


async def _derive_lists(
    connection: AsyncConnection, origin: Origin, kinds: Sequence[ListIdentity]
) -> dict[UUID, _Derived]:
    """Return the lists of these kinds of facts and subjects, by reflection id."""
    if not kinds:
        return {}
    bounds = {"seen": SEEN_FOR_LIST, "of_key": READ_OF_KEY, "statements": READ_FOR_LIST}
    place = {"host": origin.host, "bank": origin.bank, **bounds}
    asked = {"fact_ids": [fact_id for fact_id, _ in kinds], "subjects": [subject for _, subject in kinds]}
    rows = (await connection.execute(MEMBERS, {**place, **asked})).all()
    members: dict[ListIdentity, Sequence[Statement]] = dict.fromkeys(kinds, ())
    for kind, found in groupby(rows, lambda row: (row.fact_id, row.subject)):
        members[kind] = choose_members(kind[0], _build_statements(found))
    return {list_id(origin.bank, *kind): _Derived(derive_list(kind[0], told), told) for kind, told in members.items()}


def _build_statements(rows: Iterable[Row[Any]]) -> Sequence[Statement]:
    return [Statement(r.key, r.value, r.content, r.folded, r.unit_id, r.turn_id, r.at) for r in rows]


async def _reflection_events(
    connection: AsyncConnection, origin: Origin, derived: Mapping[UUID, _Derived]
) -> dict[UUID, Event]:
    """Return the events that bring these reflections in line with their facts, by reflection id."""
    arguments = {"host": origin.host, "bank": origin.bank, "reflections": list(derived), "told": TOLD_EVENTS}
    known = {row.reflection_id: row for row in await connection.execute(REFLECTIONS, arguments)}
    return {
        id_: event
        for id_, one in derived.items()
        if (event := _reflection_event(origin, id_, known.get(id_), one)) is not None
    }


def _reflection_event(origin: Origin, id_: UUID, known: Row[Any] | None, derived: _Derived) -> Event | None:
    """Return the event that brings a reflection in line with its facts; None when it is."""
    content = derived.content
    alive = known is not None and known.active
    if content is None:
        kind = EventType.REFLECTION_DELETED if alive else None
    elif not alive:
        kind = EventType.REFLECTION_CREATED
    else:
        kind = EventType.REFLECTION_UPDATED if known is not None and _is_outdated(known, content) else None
    if kind is None:
        return None
    sources = [str(one.unit_id) for one in derived.statements]
    told = {} if content is None else {"content": content, "sourceMemoryIds": sources}
    version = 1 if known is None else known.aggregate_version + 1
    return build_version(origin, kind, (id_,), version, **told)


def _is_outdated(known: Row[Any], content: str) -> bool:
    """Return whether a reflection says something else, or the same by a source that has ended or was corrected."""
    return bool(known.content != content or known.lapsed)
