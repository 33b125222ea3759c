"""Removes a user's corrections and pins from units that others began.

Where the current text holds words of the user, a further version without them is appended. Facts and mentions derived
from the user's versions are erased; the stages derive them anew from the remaining text.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import BigInteger, ColumnElement, Uuid, any_, bindparam, column, func, select, text, true
from sqlalchemy.dialects.postgresql import ARRAY

from store import schema
from store.erasure.units import (
    ERASE_AT,
    ERASE_EVENTS,
    ERASE_WORDS,
    SCRUB,
    SCRUB_SESSIONS,
    LockedBank,
    end_orphans,
    erase_units,
    settle_derived,
)
from store.erasure.versions import Remainder, Version, strip_user
from store.log.append import append_events, order_events, read_versions
from store.log.catalog import EVENTS, ID_FIELDS, Aggregate, EventType
from store.log.envelope import build_command, build_version
from store.memory import corrections
from store.tenancy.external_models import count_sent

#: The event that sets the state of each kind of aggregate.
UPDATED: Mapping[Aggregate, EventType] = {
    Aggregate.UNIT: EventType.UNIT_UPDATED,
    Aggregate.DOC: EventType.DOC_UPDATED,
    Aggregate.DIRECTIVE: EventType.DIRECTIVE_UPDATED,
    Aggregate.REFLECTION: EventType.REFLECTION_UPDATED,
}
#: Fields that identify an event's aggregate and version, and its charge: no part of the state.
BESIDE = frozenset({"hostId", "bankId", "aggregateVersion", "newAggregateVersion", "bytes"})

VERSIONS = text("""
    select s.position, s.kind, cast(s.d as text) as data, e.user_id = :user as by_user
      from afterturn.effective_events(:host, :bank, :thing) s
      join afterturn.event_store_t e on e.host_id = :host and e.position = s.position
     where s.kind not like '%DeletedEvent' order by s.position""")
_UNIT, _TIE, _EVENT = schema.UNIT.c, schema.UNIT_ENTITY.c, schema.EVENT_STORE.c
_NOT_ERASED = ~_EVENT.data.has_key("erased")
# Includes events without an effect, like the creation of an aggregate that existed already.
BY_USER = select(_EVENT.position).where(
    schema.in_bank(schema.EVENT_STORE),
    _EVENT.aggregate_key == bindparam("key"),
    _EVENT.user_id == bindparam("user"),
    _EVENT.event_type.not_like("%DeletedEvent"),
    _NOT_ERASED,
)
UNIT = select(_UNIT.content, _UNIT.active, _UNIT.session_id, _UNIT.turn_id).where(
    schema.in_bank(schema.UNIT), _UNIT.unit_id == bindparam("unit")
)
_SPAN = (
    func.unnest(bindparam("since", type_=ARRAY(BigInteger)), bindparam("until", type_=ARRAY(BigInteger)))
    .table_valued(column("since", BigInteger), column("until", BigInteger))
    .render_derived("span")
)


def _in_spans(position: ColumnElement[int]) -> ColumnElement[bool]:
    return (
        select(_SPAN.c.since).where(position > _SPAN.c.since, position < _SPAN.c.until).correlate_except(_SPAN).exists()
    )


FACTS = select(_UNIT.unit_id).where(
    schema.in_bank(schema.UNIT),
    _UNIT.turn_id == bindparam("turn"),
    _UNIT.origin == "extraction",
    bindparam("unit", type_=Uuid) == any_(_UNIT.source_memory_ids),
    _in_spans(_UNIT.position),
)
_SUBJECT = func.concat_ws("|", _TIE.host_id, _TIE.bank_id, _TIE.unit_id, _TIE.entity_id)
_NAMED = (
    select(func.array_agg(_EVENT.position).label("positions"))
    .where(
        schema.in_bank(schema.EVENT_STORE),
        _EVENT.aggregate_key == func.concat_ws("|", _TIE.unit_id, _TIE.entity_id),
        _NOT_ERASED,
        _in_spans(_EVENT.position),
    )
    .correlate(schema.UNIT_ENTITY)
    .lateral("named")
)
MENTIONS = (
    select(
        _TIE.entity_id,
        _TIE.removed_at.is_(None).label("linked"),
        _SUBJECT.label("subject"),
        _NAMED.c.positions,
        func.afterturn.logged_version(_TIE.host_id, _SUBJECT).label("version"),
    )
    .join_from(schema.UNIT_ENTITY, _NAMED, true())
    .where(schema.in_bank(schema.UNIT_ENTITY), _TIE.unit_id == bindparam("unit"), _NAMED.c.positions.is_not(None))
)
# Compactions of the history in these spans may repeat the user's words.
COMPACTED = select(_EVENT.position).where(
    schema.in_bank(schema.EVENT_STORE),
    _EVENT.aggregate_key == bindparam("key"),
    _EVENT.event_type == EventType.SESSION_COMPACTED,
    _in_spans(_EVENT.position),
)

FOR_EVER = 2**63 - 1


async def read_remainder(place: LockedBank, kind: Aggregate, thing: UUID) -> Remainder:
    """Return the remainder of an aggregate without the versions of the erased user."""
    user = place.erasure.target
    rows = await place.ask(VERSIONS, thing=thing, user=user)
    left = strip_user(
        [
            Version(
                row.position,
                row.kind != UPDATED[kind].value,
                row.by_user,
                _state_of(place, kind, orjson.loads(row.data)),
            )
            for row in rows
        ]
    )
    known = {row.position for row in await place.ask(BY_USER, key=str(thing), user=user)}
    left.positions = sorted(known.union(left.positions))
    return left


async def append_state(place: LockedBank, kind: Aggregate, thing: UUID, state: Mapping[str, Any]) -> None:
    """Append an aggregate's new state as its next version."""
    [name], subject = ID_FIELDS[kind], place.subject(thing)
    version = (await read_versions(place.connection, place.erasure.host, [subject]))[subject]
    told = {field: value for field, value in state.items() if value is not None}
    event = build_command(place.origin, UPDATED[kind], {name: thing, **told}, version=version + 1)
    await append_events(place.connection, place.erasure.host, [event])


async def take_back_unit(place: LockedBank, unit: UUID) -> bool:
    """Remove a user's versions from a unit that another began; True: the user began it, and nothing was done."""
    left = await read_remainder(place, Aggregate.UNIT, unit)
    if left.theirs or not left.positions:
        return left.theirs
    [row] = await place.ask(UNIT, unit=unit)
    spans = {"since": [a for a, _ in left.spans], "until": [FOR_EVER if b is None else b for _, b in left.spans]}
    facts = await place.ask(FACTS, unit=unit, turn=row.turn_id, **spans) if row.turn_id else ()
    await erase_units(place, [fact.unit_id for fact in facts])
    place.erasure.counts.update(await count_sent(place.connection, place.erasure.host, place.bank, [unit]))
    mentions = await place.ask(MENTIONS, unit=unit, **spans)
    await _unlink_mentions(place, unit, mentions)
    if left.state is not None and row.active:
        await corrections.restore_unit(place.connection, place.origin, unit, left.state)
    elif left.state is not None:
        await append_state(place, Aggregate.UNIT, unit, left.state)
    await settle_derived(place, [unit])
    orphans = await end_orphans(place, [unit]) if mentions else []
    positions = [*left.positions, *(position for mention in mentions for position in mention.positions)]
    await place.count("events", ERASE_AT, positions=positions)
    await place.count("events", ERASE_EVENTS, subjects=orphans, upto=None)
    await place.ask(SCRUB, subjects=[place.subject(unit), *(mention.subject for mention in mentions), *orphans])
    if row.session_id:
        repeated = await place.ask(COMPACTED, key=str(row.session_id), **spans)
        await place.count("events", ERASE_WORDS, positions=[one.position for one in repeated])
        await place.count("history_messages", SCRUB_SESSIONS, sessions=[row.session_id])
    if row.turn_id:
        # A stage that works on the turn now has read the old text.
        await place.ask(corrections.TAKE_BACK, turn=row.turn_id)
    place.erasure.counts["mentions"] += len(mentions)
    place.erasure.counts["versions"] += 1
    return False


async def _unlink_mentions(place: LockedBank, unit: UUID, mentions: Sequence[Any]) -> None:
    events = [
        build_version(place.origin, EventType.UNIT_ENTITY_UNLINKED, (unit, one.entity_id), one.version + 1)
        for one in mentions
        if one.linked
    ]
    await append_events(place.connection, place.erasure.host, order_events(events))


def _state_of(place: LockedBank, kind: Aggregate, data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the state fields of an event's data in one form; None for an erased event."""
    if data.get("erased"):
        return None
    model = EVENTS[UPDATED[kind]].model
    known = {field.alias or name for name, field in model.model_fields.items()}
    whole = {"hostId": place.erasure.host, "bankId": place.bank, **data}
    told = model.model_validate(
        {name: value for name, value in whole.items() if name in known}, by_alias=True, by_name=False
    )
    beside = {*BESIDE, *ID_FIELDS[kind]}
    return {name: one for name, one in told.model_dump(mode="json", by_alias=True).items() if name not in beside}
