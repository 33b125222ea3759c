"""The platform's tables, parents first, and the event that a row of each becomes. Pure.

A row's ids stay, but for those that the log derives from names: a bank of the platform is the bank of that name in the
space of its user and agent, as a command makes it, and so is a session. Vectors are left out: they are made anew.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
from afterturn_client.moments import parse_zoned
from sqlalchemy import Column, ColumnElement, MetaData, Table, Uuid, func
from sqlalchemy.dialects.postgresql import JSONB

from store import identity
from store.errors import InvalidEvent
from store.log.catalog import EventType
from store.log.envelope import Origin, build_command
from store.tenancy.banks import RUNTIME, bank_created_fields
from store.tenancy.spaces import Space
from store.text.redaction import Redaction, redact_secrets

#: The metadata of every event of a backfill.
MARK: Mapping[str, Any] = {"source": "agent-memory-backfill", "backfilled": True}
#: The time of a row that has none.
NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
#: The columns that are times, and those that are JSON.
TIMES = frozenset({"event_date", "occurred_start", "occurred_end", "mentioned_at", "update_ts"})
_JSON = frozenset({"metadata", "disposition", "messages"})
_SAID = ("role", "name", "content", "timestamp")
_METADATA = MetaData()

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BankPlace:
    """A bank of the platform here: its whole name, its user and agent by the platform's ids."""

    host: UUID
    name: str
    user: str | None
    agent: str | None

    @property
    def bank(self) -> UUID:
        """The id of the bank in the log."""
        return identity.bank_id(self.host, self.name)

    def origin(self, at: datetime | None) -> Origin:
        """Return the origin of an event of a row that was last changed at this time."""
        return Origin(self.host, self.bank, identity.user_id(self.host, self.user), at or NO_TIME)


def place_bank(host: UUID, row: Row) -> BankPlace:
    """Return where a row of the platform's banks stands here."""
    user, agent = (None if row[name] is None else str(row[name]) for name in ("user_id", "agent_def_id"))
    return BankPlace(host, Space(user, agent).name(str(row["bank_id"])), user, agent)


Fields = Callable[[Row, BankPlace], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the platform: the ids after host and bank, its other columns, and the event that a row becomes.

    `parents`: columns that name rows of other tables, by those tables' names; null names none.
    """

    name: str
    ids: tuple[str, ...]
    columns: tuple[str, ...]
    event: EventType
    build: Fields
    parents: Mapping[str, str] = field(default_factory=dict)
    versioned: bool = True
    _tables: dict[str, Table] = field(default_factory=dict, repr=False, compare=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the primary key after the host."""
        return ("bank_id", *self.ids)

    @property
    def table(self) -> Table:
        """The columns that are read, for statements; found by the search path of the connection."""
        if self.name not in self._tables:
            tail = ("aggregate_version", "active", "update_ts") if self.versioned else ()
            ids = (Column(one, Uuid if one.endswith("_id") else None) for one in ("host_id", *self.keys))
            others = (Column(one, JSONB if one in _JSON else None) for one in (*self.columns, *tail))
            self._tables[self.name] = Table(self.name, _METADATA, *ids, *others)
        return self._tables[self.name]

    @property
    def selected(self) -> Sequence[ColumnElement[Any]]:
        """The columns as they are read: times as ISO 8601, since PostgreSQL has some that Python has not."""
        return [func.to_jsonb(c, type_=JSONB).label(c.name) if c.name in TIMES else c for c in self.table.c]

    def key(self, row: Row) -> tuple[Any, ...]:
        """Return the key of a row after the host."""
        return tuple(row[name] for name in self.keys)


def parse_times(row: Row) -> Row:
    """Return a row whose times are texts with its times.

    Raises InvalidEvent for one that no calendar of ours has: `infinity`, before Christ, after the year 9999.
    """
    return {**row, **{name: _parse_time(name, row[name]) for name in TIMES & row.keys() if row[name] is not None}}


def _parse_time(name: str, text: str) -> datetime:
    try:
        return parse_zoned(text)
    except ValueError:
        raise InvalidEvent(f"{name}: a time that the log does not take") from None


def build_event(source: SourceTable, row: Row, place: BankPlace, redaction: Redaction) -> dict[str, Any]:
    """Return the event of a row as `convert_row` does, marked as backfilled. Raises InvalidEvent."""
    return {**convert_row(source, row, place, redaction), "metadata": dict(MARK)}


def convert_row(source: SourceTable, row: Row, place: BankPlace, redaction: Redaction) -> dict[str, Any]:
    """Return the event of a row, with its version and without secrets in its texts.

    Raises InvalidEvent for what the log does not take.
    """
    try:
        fields = {name: value for name, value in source.build(row, place).items() if value is not None}
        at = row.get("update_ts") or row.get("event_date")
        version = max(int(row["aggregate_version"] or 1), 1) if source.versioned else 1
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidEvent("a column is missing, or of another kind") from None
    return build_command(place.origin(at), source.event, _redact_texts(fields, redaction), version=version)


def _redact_texts(value: Any, redaction: Redaction, name: str = "") -> Any:
    """Return a value without secrets in its texts; ids and metadata stay as they are, as in every write."""
    if name == "metadata" or name.endswith("Id"):
        return value
    if isinstance(value, str):
        return redact_secrets(value, redaction)
    if isinstance(value, dict):
        return {key: _redact_texts(one, redaction, key) for key, one in value.items()}
    return [_redact_texts(one, redaction) for one in value] if isinstance(value, list) else value


def _build_bank(row: Row, place: BankPlace) -> Mapping[str, Any]:
    runtime = {RUNTIME: True} if row["bank_name"] == f"session-{row['bank_id']}" else {}
    told = bank_created_fields(place.host, place.name)
    return {**told, "disposition": {**(row["disposition"] or {}), **runtime}, "background": row["background"]}


def _build_doc(row: Row, place: BankPlace) -> Mapping[str, Any]:
    text = row["original_text"] or ""
    digest = row["content_hash"] or hashlib.sha256(text.encode()).hexdigest()
    agent = str(identity.agent_id(place.host, place.agent)) if place.agent else None
    return {
        "docId": str(row["doc_id"]),
        "originalText": row["original_text"],
        "contentHash": digest,
        "agentDefId": agent,
    }


def _build_unit(row: Row, place: BankPlace) -> Mapping[str, Any]:
    times = {
        "eventDate": row["event_date"] or row["update_ts"] or NO_TIME,
        "occurredStart": row["occurred_start"],
        "occurredEnd": row["occurred_end"],
        "mentionedAt": row["mentioned_at"],
    }
    return {
        "unitId": str(row["unit_id"]),
        "docId": row["doc_id"] and str(row["doc_id"]),
        "content": row["content"],
        "context": row["context"],
        "factType": row["fact_type"],
        "metadata": row["metadata"] or {},
        "proofCount": row["proof_count"],
        "sourceMemoryIds": [str(one) for one in row["source_memory_ids"] or ()] or None,
        "origin": "memory" if row["doc_id"] is None else "document",
        "userName": place.user,
        "agentDefId": str(identity.agent_id(place.host, place.agent)) if place.agent else None,
        **{name: at and at.isoformat() for name, at in times.items()},
    }


def _build_entity(row: Row, place: BankPlace) -> Mapping[str, Any]:
    return {
        "entityId": str(row["entity_id"]),
        "canonicalName": row["canonical_name"],
        "userId": row["user_id"] and str(identity.user_id(place.host, str(row["user_id"]))),
        "metadata": row["metadata"] or {},
    }


def _build_mention(row: Row, _place: BankPlace) -> Mapping[str, Any]:
    return {"unitId": str(row["unit_id"]), "entityId": str(row["entity_id"])}


def _build_link(row: Row, _place: BankPlace) -> Mapping[str, Any]:
    ids = {"fromUnitId": str(row["from_unit_id"]), "toUnitId": str(row["to_unit_id"])}
    return {**ids, "linkType": row["link_type"], "weight": row["weight"]}


def _build_directive(row: Row, _place: BankPlace) -> Mapping[str, Any]:
    named = {name: row[name] for name in ("name", "content", "priority")}
    size = len(row["name"].encode()) + len(row["content"].encode())
    return {"directiveId": str(row["directive_id"]), **named, "bytes": size}


def _build_reflection(row: Row, _place: BankPlace) -> Mapping[str, Any]:
    return {"reflectionId": str(row["reflection_id"]), "content": row["content"]}


def _build_session(row: Row, place: BankPlace) -> Mapping[str, Any]:
    name = str(row["session_id"])
    return {
        "sessionId": str(identity.session_id(place.bank, name)),
        "sessionName": name,
        "messages": [_build_message(one) for one in _read_list(row["messages"]) if _has_text(one)],
        "metadata": row["metadata"] or {},
    }


def _read_list(told: Any) -> Sequence[Any]:
    if told is not None and not isinstance(told, list):
        raise TypeError
    return told or ()


def _has_text(message: Any) -> bool:
    return isinstance(message, dict) and message.get("content") is not None and isinstance(message.get("role"), str)


def _build_message(message: Row) -> dict[str, Any]:
    """Return what the log has of a message: its speaker, content and time, where that has a zone."""
    told = {name: message[name] for name in _SAID if message.get(name) is not None}
    if not _is_time(told.get("timestamp", "")) or not isinstance(told.get("name", ""), str):
        told = {name: told[name] for name in ("role", "content")}
    return told


def _is_time(value: Any) -> bool:
    if value == "":
        return True
    try:
        parse_zoned(value)
    except (AttributeError, ValueError):
        return False
    return True


def normalise_json(value: Any) -> Any:
    """Return a value as the log returns it."""
    return orjson.loads(orjson.dumps(value))


E = EventType
BANK = "agent_memory_bank_t"
_DOC, _UNIT, _ENTITY = "agent_memory_doc_t", "agent_memory_unit_t", "agent_memory_entity_t"
_OF_UNIT = (
    *("doc_id", "content", "context", "event_date", "occurred_start", "occurred_end", "mentioned_at"),
    *("fact_type", "metadata", "proof_count", "source_memory_ids"),
)
_ENDS = {"from_unit_id": _UNIT, "to_unit_id": _UNIT}

#: The tables, parents before their children. `agent_memory_entity_cooccur_t` is counted anew.
TABLES: Sequence[SourceTable] = (
    SourceTable(
        BANK, (), ("agent_def_id", "user_id", "bank_name", "disposition", "background"), E.BANK_CREATED, _build_bank
    ),
    SourceTable(_DOC, ("doc_id",), ("original_text", "content_hash"), E.DOC_CREATED, _build_doc),
    SourceTable(_UNIT, ("unit_id",), _OF_UNIT, E.UNIT_RETAINED, _build_unit, {"doc_id": _DOC}),
    SourceTable(_ENTITY, ("entity_id",), ("user_id", "canonical_name", "metadata"), E.ENTITY_CREATED, _build_entity),
    SourceTable(
        "agent_memory_unit_entity_t",
        ("unit_id", "entity_id"),
        (),
        E.UNIT_ENTITY_LINKED,
        _build_mention,
        {"unit_id": _UNIT, "entity_id": _ENTITY},
        versioned=False,
    ),
    SourceTable(
        "agent_memory_link_t",
        ("from_unit_id", "to_unit_id", "link_type"),
        ("weight",),
        E.LINK_CREATED,
        _build_link,
        _ENDS,
    ),
    SourceTable(
        "agent_memory_directive_t",
        ("directive_id",),
        ("name", "content", "priority"),
        E.DIRECTIVE_CREATED,
        _build_directive,
    ),
    SourceTable("agent_memory_reflection_t", ("reflection_id",), ("content",), E.REFLECTION_CREATED, _build_reflection),
    SourceTable(
        "agent_session_history_t", ("session_id",), ("messages", "metadata"), E.SESSION_CREATED, _build_session
    ),
)
