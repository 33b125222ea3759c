"""Corrects, pins and replaces units: index terms change at once, the vector soon, and facts drawn from old text end.

A pin changes a unit's metadata and nothing that was drawn from its text.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4, uuid5

import orjson
from afterturn_client.contract.receipts import CorrectionReceipt
from sqlalchemy import Row, Select, Text, Uuid, and_, any_, bindparam, cast, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived import bank_state, postings, projection
from store.derived.readings import FollowUp, open_follow_ups
from store.derived.unit_vectors import corrected_id
from store.errors import ConcurrencyError, NotFound, TurnBusy
from store.expiry import BANK_EXPIRED, lock_lasting_bank
from store.ledger.stages import Stage
from store.log.append import append_events, order_events, read_versions
from store.log.catalog import Aggregate, EventType, aggregate_id
from store.log.envelope import Origin, build_command, build_version
from store.log.locks import ENTER_LOG, hold_lock, share_lock
from store.memory import reflections
from store.off_loop import run_off_loop
from store.schema import ENTITY, EVENT_STORE, LEDGER, UNIT, UNIT_ENTITY, in_bank, same_bank
from store.tenancy import languages
from store.tenancy.quotas import charge_quota
from store.text.normal_forms import shorten_mark_runs

# As an append does, and in its order, and as who links units with entities or each other: all before anything is
# written. A concurrent forget of a unit would not see the links that are being written to it, and leave them behind.
LOCK = select(
    ENTER_LOG,
    share_lock("quota", "host"),
    share_lock("bank", "bank"),
    hold_lock("session", "session"),
    hold_lock("entities", "bank"),
    BANK_EXPIRED,
)
_UNIT, _LEDGER, _EVENT = UNIT.c, LEDGER.c, EVENT_STORE.c
STATE = select(
    _UNIT.unit_id,
    _UNIT.content,
    _UNIT.fact_type,
    _UNIT.event_date,
    _UNIT.doc_id,
    _UNIT.context,
    _UNIT.occurred_start,
    _UNIT.occurred_end,
    _UNIT.mentioned_at,
    cast(_UNIT["metadata"], Text).label("metadata"),
    _UNIT.proof_count,
    _UNIT.source_memory_ids,
    _UNIT.origin,
    _UNIT.role,
    _UNIT.name,
    _UNIT.session_id,
    _UNIT.turn_id,
    _UNIT.position,
    _UNIT.bytes,
    _UNIT.expires_at,
    _UNIT.aggregate_version,
).where(in_bank(UNIT), _UNIT.unit_id == bindparam("unit"), _UNIT.active)
# True when a worker has claimed the turn's row, and so has read, or is about to read, the old text.
_READING = and_(
    _LEDGER.host_id == bindparam("host"),
    _LEDGER.turn_id == bindparam("turn"),
    _LEDGER.stage.in_((Stage.EXTRACTION, Stage.ENRICHMENT)),
)
_FREE = select(_LEDGER.status).where(_READING).with_for_update(skip_locked=True).cte("free")
READ_NOW = select(
    select(func.count()).select_from(LEDGER).where(_READING).scalar_subquery()
    > select(func.count()).select_from(_FREE).where(_FREE.c.status != "running").scalar_subquery()
)
# Facts derived from a unit; a fact belongs to the turn of its source.
DRAWN: Select[*tuple[Any, ...]] = (
    select(_UNIT.unit_id, _UNIT.aggregate_version, _UNIT.content, _UNIT.expires_at)
    .where(
        in_bank(UNIT),
        _UNIT.turn_id == bindparam("turn"),
        _UNIT.origin == "extraction",
        _UNIT.active,
        bindparam("unit", type_=Uuid) == any_(_UNIT.source_memory_ids),
    )
    .order_by(_UNIT.position, _UNIT.unit_id)
)
# Entities that were linked to the unit and that the new text does not mention. A unit still mentions its speaker.
_NAME = func.coalesce(func.nullif(UNIT_ENTITY.c.name, ""), ENTITY.c.canonical_name)
UNNAMED = (
    select(UNIT_ENTITY.c.entity_id)
    .join_from(UNIT_ENTITY, ENTITY, same_bank(UNIT_ENTITY, ENTITY, "entity_id"))
    .where(
        in_bank(UNIT_ENTITY),
        UNIT_ENTITY.c.unit_id == bindparam("unit"),
        UNIT_ENTITY.c.removed_at.is_(None),
        func.strpos(func.afterturn.folded(bindparam("said", type_=Text)), func.afterturn.folded(_NAME)) == 0,
    )
)
# Cancels a worker's reading of the turn, which has the old text: nothing derived from it is written, and the rest of
# the turn is read anew. Run after the unit has ended, because writers of vectors lock the unit before the claim.
TAKE_BACK = text("select afterturn.end_turns(:host, array[cast(:turn as uuid)], '{}')")
LAST_WRITTEN = select(func.max(_EVENT.position)).where(
    in_bank(EVENT_STORE), _EVENT.aggregate_key == cast(bindparam("unit", type_=Uuid), Text)
)

#: The origin of single memories.
MEMORY = "memory"
#: The values of fields that a state leaves out.
NO_STATE: Mapping[str, None] = {"context": None, "expiresAt": None}
#: The metadata key of pinned units, which every answer holds; `store.recall.pinned_arm` reads it.
PINNED = "pinned"
#: The metadata key of messages of which facts were forgotten by their own ids: their values, a line each. Such a
#: message is former where a recall asks for these (`store.recall.supersession`).
WITHDRAWN = "withdrawn"
#: Metadata that describe an extracted fact. A corrected text loses them, so that it supersedes no other fact.
READ_AS = frozenset({"value", "span", "slug"})


async def read_drawn_facts(connection: AsyncConnection, host: UUID, bank: UUID, unit: Row[Any]) -> list[Row[Any]]:
    """Return the living facts that were drawn from a unit."""
    place = {"host": host, "bank": bank, "unit": unit.unit_id, "turn": unit.turn_id}
    return list((await connection.execute(DRAWN, place)).all()) if unit.turn_id else []


async def lock_session(connection: AsyncConnection, origin: Origin, session: UUID) -> None:
    """Take the locks of a change of a session's units. Raises TurnEnded for an expired bank."""
    place = {"host": origin.host, "bank": origin.bank, "session": session, "now": origin.at}
    await lock_lasting_bank(connection, LOCK, place)


async def lock_unit(connection: AsyncConnection, origin: Origin, unit: UUID) -> Row[Any]:
    """Lock a unit, and its bank shared, until the transaction ends; return its row.

    Raises NotFound, IsReflection, TurnEnded for an expired bank.
    """
    found = await _read_state(connection, origin, unit)
    await lock_session(connection, origin, found.session_id or unit)
    return await _read_state(connection, origin, unit)


async def _lock_seen(connection: AsyncConnection, origin: Origin, unit: UUID, version: int | None) -> Row[Any]:
    """Lock a unit that is at `version`, if one is given. Raises as `lock_unit`, and ConcurrencyError."""
    found = await lock_unit(connection, origin, unit)
    if version is not None and version != found.aggregate_version:
        raise ConcurrencyError(Aggregate.UNIT.value, version, found.aggregate_version)
    return found


async def _refuse_while_read(connection: AsyncConnection, origin: Origin, unit: Row[Any]) -> None:
    """Raise TurnBusy while a stage reads the unit's turn as it was."""
    place = {"host": origin.host, "turn": unit.turn_id}
    if unit.turn_id and (await connection.execute(READ_NOW, place)).scalar():
        raise TurnBusy("a worker is reading the turn of this unit right now; try again")


async def _append_change(connection: AsyncConnection, origin: Origin, events: Sequence[Mapping[str, Any]]) -> int:
    """Append the events of a change; return its position. Raises NotFound where the log has them already."""
    position = await append_events(connection, origin.host, order_events(events))
    if position is None:
        raise NotFound("no such unit")
    return position


async def correct_unit(
    connection: AsyncConnection, origin: Origin, unit: UUID, content: str, version: int | None
) -> CorrectionReceipt:
    """Change a unit's text to `content`, inside the tenant's transaction that writes nothing else.

    From the commit on, recalls find it by its new words only; a row for the embedding stage makes its new vector.
    Facts drawn from the old text end, and so do mentions of entities that the new text does not name; a row for the
    extraction stage extracts from the new text of a message.
    `version` is the one that the caller saw. Raises NotFound, IsReflection, ConcurrencyError for another version,
    TurnBusy while a stage reads the old text, QuotaExceeded.
    """
    found = await _lock_seen(connection, origin, unit, version)
    if content == found.content:
        return CorrectionReceipt(unit_id=unit, position=found.position, changed=False, facts_ended=0)
    await _refuse_while_read(connection, origin, found)
    facts = await read_drawn_facts(connection, origin.host, origin.bank, found)
    updated, size = _updated_event(origin, found, content, _metadata_of_text(found))
    events = [
        updated,
        *(_ended_event(origin, fact) for fact in facts),
        *await _unlink_events(connection, origin, found, content),
    ]
    position = await _append_change(connection, origin, events)
    await _write_follow_ups(connection, origin, found, content, position)
    await charge_quota(connection, origin.host, origin.bank, size)
    return CorrectionReceipt(unit_id=unit, position=position, changed=True, facts_ended=len(facts))


async def end_unit(
    connection: AsyncConnection, origin: Origin, unit: UUID, ends: datetime | None, version: int | None
) -> CorrectionReceipt:
    """Set when a unit ends, or with None that it never does, inside the tenant's transaction that writes nothing else.

    Facts drawn from it end, and are drawn anew with its end: a row for the extraction stage opens. `version` is the one
    that the caller saw. Raises NotFound, IsReflection, ConcurrencyError for another version, TurnBusy while a stage
    reads the unit, QuotaExceeded.
    """
    found = await _lock_seen(connection, origin, unit, version)
    if ends == found.expires_at:
        return CorrectionReceipt(unit_id=unit, position=found.position, changed=False, facts_ended=0)
    await _refuse_while_read(connection, origin, found)
    facts = await read_drawn_facts(connection, origin.host, origin.bank, found)
    updated, size = _updated_event(origin, found, found.content, orjson.loads(found.metadata), {"expiresAt": ends})
    events = [updated, *(_ended_event(origin, fact) for fact in facts)]
    position = await _append_change(connection, origin, events)
    await _write_follow_ups(connection, origin, await _read_state(connection, origin, unit), found.content, position)
    await charge_quota(connection, origin.host, origin.bank, size)
    return CorrectionReceipt(unit_id=unit, position=position, changed=True, facts_ended=len(facts))


async def pin_unit(connection: AsyncConnection, origin: Origin, unit: UUID, *, pinned: bool) -> CorrectionReceipt:
    """Pin or unpin a unit, inside the tenant's transaction that writes nothing else: its text stays as it is.

    The log stores the whole state of the unit once more, which quotas are charged. Raises NotFound, IsReflection,
    QuotaExceeded.
    """
    found = await lock_unit(connection, origin, unit)
    metadata = orjson.loads(found.metadata)
    if (metadata.get(PINNED) == "true") == pinned:
        return CorrectionReceipt(unit_id=unit, position=found.position, changed=False, facts_ended=0)
    rest = {name: value for name, value in metadata.items() if name != PINNED}
    event, size = _updated_event(origin, found, found.content, rest | ({PINNED: "true"} if pinned else {}))
    position = await _append_change(connection, origin, [event])
    # A worker that embeds the unit now has read another version, and does not write that vector.
    await _reopen_stages(connection, origin, found, position, [Stage.EMBEDDING])
    await charge_quota(connection, origin.host, origin.bank, size)
    return CorrectionReceipt(unit_id=unit, position=position, changed=True, facts_ended=0)


async def withdraw_fact(connection: AsyncConnection, origin: Origin, unit: UUID, value: str) -> int | None:
    """Mark a living message whose fact of this value was forgotten, in the transaction that locked its session.

    Its text stays as it is. Return the position of the mark; None where it has it. Raises QuotaExceeded.
    """
    found = await _read_state(connection, origin, unit)
    metadata = orjson.loads(found.metadata)
    values = metadata.get(WITHDRAWN, "").splitlines()
    told = " ".join(value.split())
    if not told or told in values:
        return None
    event, size = _updated_event(origin, found, found.content, {**metadata, WITHDRAWN: "\n".join((*values, told))})
    position = await append_events(connection, origin.host, [event])
    if position is not None:
        await _reopen_stages(connection, origin, found, position, [Stage.EMBEDDING])
        await charge_quota(connection, origin.host, origin.bank, size)
    return position


async def replace_unit(
    connection: AsyncConnection, origin: Origin, found: Row[Any], state: Mapping[str, Any], size: int
) -> CorrectionReceipt:
    """Set a living unit's whole state (the fields of an event), in the transaction that locked it (`lock_unit`).

    As with a correction, recalls find it by its new words from the commit on, and facts drawn from other text end.
    It does not wait for stages: one that reads the unit's turn just now loses its claim, and the turn is read anew.
    `size`: the bytes that the quotas are charged. Raises QuotaExceeded.
    """
    if _state_of(found) == {**NO_STATE, **state}:
        place = {"host": origin.host, "bank": origin.bank, "unit": found.unit_id}
        written = (await connection.execute(LAST_WRITTEN, place)).scalar_one()
        return CorrectionReceipt(unit_id=found.unit_id, position=written, changed=False, facts_ended=0)
    facts = await read_drawn_facts(connection, origin.host, origin.bank, found) if _changes_words(found, state) else []
    ends = [_ended_event(origin, fact) for fact in facts]
    position = await _set_state(connection, origin, found, {**state, "bytes": found.bytes + size}, ends)
    if found.turn_id:
        await connection.execute(TAKE_BACK, {"host": origin.host, "turn": found.turn_id})
    await charge_quota(connection, origin.host, origin.bank, size)
    return CorrectionReceipt(unit_id=found.unit_id, position=position, changed=True, facts_ended=len(facts))


async def restore_unit(connection: AsyncConnection, origin: Origin, unit: UUID, state: Mapping[str, Any]) -> None:
    """Set a living unit's whole state (the fields of an event), in a transaction that holds its bank exclusively.

    As with a correction, recalls find it by its new words from the commit on, and stages read and embed it anew.
    The caller ends the facts of the former text.
    """
    found = await _read_state(connection, origin, unit)
    await _set_state(connection, origin, found, {name: value for name, value in state.items() if value is not None})


async def _set_state(
    connection: AsyncConnection,
    origin: Origin,
    found: Row[Any],
    state: Mapping[str, Any],
    beside: Sequence[dict[str, Any]] = (),
) -> int:
    """Append a unit's whole state with the events `beside`, and write its words and stage rows; return the position."""
    fields, version = {"unitId": found.unit_id, **state}, found.aggregate_version + 1
    updated = build_command(origin, EventType.UNIT_UPDATED, fields, version=version, identity=uuid4())
    reworded = _changes_words(found, state)
    unnamed = await _unlink_events(connection, origin, found, str(state["content"])) if reworded else ()
    events = [updated, *beside, *unnamed]
    position = await _append_change(connection, origin, events)
    if _moment_of(state["eventDate"]) != found.event_date:
        await projection.redate_unit(connection, origin.host, origin.bank, found.unit_id)
    if reworded:
        now = await _read_state(connection, origin, found.unit_id)
        await _write_follow_ups(connection, origin, now, now.content, position)
    else:
        await _reopen_stages(connection, origin, found, position, [Stage.EMBEDDING])
    return position


def _state_of(unit: Row[Any]) -> dict[str, Any]:
    """Return the replaceable fields of a unit's row, by their names in events."""
    return {
        "content": unit.content,
        "factType": unit.fact_type,
        "eventDate": unit.event_date,
        "mentionedAt": unit.mentioned_at,
        "metadata": orjson.loads(unit.metadata),
        "context": unit.context,
        "expiresAt": unit.expires_at,
    }


def _changes_words(unit: Row[Any], state: Mapping[str, Any]) -> bool:
    """Return whether this state changes a unit's index terms or facts (whose end is also the unit's)."""
    ends = state.get("expiresAt")
    return (unit.content, unit.context, unit.event_date, unit.expires_at) != (
        state["content"],
        state.get("context"),
        _moment_of(state["eventDate"]),
        None if ends is None else _moment_of(ends),
    )


def _moment_of(told: datetime | str) -> datetime:
    return told if isinstance(told, datetime) else datetime.fromisoformat(told)


def reread_id(unit: UUID, position: int) -> UUID:
    """Return the id of the ledger row by which a unit's new text is extracted after the correction at `position`."""
    return uuid5(unit, f"reread:{position}")


async def _read_state(connection: AsyncConnection, origin: Origin, unit: UUID) -> Row[Any]:
    place = {"host": origin.host, "bank": origin.bank, "unit": unit}
    row = (await connection.execute(STATE, place)).one_or_none()
    if row is None:
        await reflections.refuse_reflection(connection, origin.host, origin.bank, unit)
        raise NotFound("no such unit")
    return row


def _metadata_of_text(unit: Row[Any]) -> dict[str, Any]:
    """Return the metadata that do not depend on the unit's text."""
    metadata: dict[str, Any] = orjson.loads(unit.metadata)
    gone = READ_AS if unit.origin == "extraction" else frozenset({WITHDRAWN})
    return {name: value for name, value in metadata.items() if name not in gone}


def _updated_event(
    origin: Origin,
    unit: Row[Any],
    content: str,
    metadata: Mapping[str, Any],
    others: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[dict[str, Any], int]:
    """Return the event that sets this text, metadata and other fields, and the bytes that the quotas are charged."""
    size = len(content.encode()) + (len(orjson.dumps(metadata)) if metadata else 0)
    told = {
        "docId": unit.doc_id,
        "context": unit.context,
        "occurredStart": unit.occurred_start,
        "occurredEnd": unit.occurred_end,
        "mentionedAt": unit.mentioned_at,
        "expiresAt": unit.expires_at,
        **others,
    }
    fields = {
        "unitId": unit.unit_id,
        "content": content,
        "factType": unit.fact_type,
        "eventDate": unit.event_date,
        "metadata": metadata,
        "proofCount": unit.proof_count,
        "sourceMemoryIds": unit.source_memory_ids,
        "bytes": unit.bytes + size,
        **{name: value for name, value in told.items() if value is not None},
    }
    version = unit.aggregate_version + 1
    return build_command(origin, EventType.UNIT_UPDATED, fields, version=version, identity=uuid4()), size


def _ended_event(origin: Origin, fact: Row[Any]) -> dict[str, Any]:
    return build_version(origin, EventType.UNIT_DELETED, (fact.unit_id,), fact.aggregate_version + 1)


async def _unlink_events(
    connection: AsyncConnection, origin: Origin, unit: Row[Any], content: str
) -> Sequence[dict[str, Any]]:
    place = {"host": origin.host, "bank": origin.bank, "unit": unit.unit_id}
    said = " ".join(part for part in (unit.name, unit.role, content) if part)
    entities = (await connection.execute(UNNAMED, {**place, "said": shorten_mark_runs(said)})).scalars().all()
    subjects = {entity: aggregate_id(origin.host, origin.bank, unit.unit_id, entity) for entity in entities}
    known = await read_versions(connection, origin.host, list(subjects.values()))
    return [
        build_command(
            origin,
            EventType.UNIT_ENTITY_UNLINKED,
            {"unitId": unit.unit_id, "entityId": entity},
            version=known[subject] + 1,
        )
        for entity, subject in subjects.items()
    ]


async def _write_follow_ups(
    connection: AsyncConnection, origin: Origin, unit: Row[Any], content: str, position: int
) -> None:
    """Write the unit's new words, and open the rows of the stages that follow."""
    rules = languages.rules_for_writing(await languages.read_languages(connection, origin.host), origin.bank)
    words = await run_off_loop(len(content), postings.count_unit_terms, unit, rules, content)
    await postings.insert_postings(connection, origin.host, origin.bank, [words])
    await bank_state.request_recount(connection, origin, position)
    read = [] if unit.origin == "extraction" else [Stage.EXTRACTION]
    await _reopen_stages(connection, origin, unit, position, [Stage.EMBEDDING, *read])


async def _reopen_stages(
    connection: AsyncConnection, origin: Origin, unit: Row[Any], position: int, stages: Sequence[Stage]
) -> None:
    """Open rows of these stages for a unit's state at `position`; a unit without a turn is only embedded."""
    turn = unit.turn_id or unit.unit_id
    item, session = corrected_id(turn, position), unit.session_id or turn
    place = origin.bank, session, turn, position, origin.at
    rows = {
        Stage.EMBEDDING: FollowUp(Stage.EMBEDDING, item, item, *place, reads_texts=True),
        Stage.EXTRACTION: FollowUp(
            Stage.EXTRACTION, reread_id(unit.unit_id, position), session, *place, reads_texts=True
        ),
    }
    wanted = [stage for stage in stages if unit.turn_id or stage is Stage.EMBEDDING]
    await open_follow_ups(connection, origin.host, [rows[stage] for stage in wanted])
