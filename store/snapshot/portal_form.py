"""The form in which light-portal exports and imports memory: to ours, and from it. Twice gives the same bytes.

Theirs is one JSON document: an array of CloudEvents, as its importer reads, or the rows of its tables, as its exporter
writes (`{"sourceHostId": ..., "tables": {name: {"rows": [...]}}}`, columns in camelCase). Ours is the log's events.
"""

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

from afterturn_client.moments import parse_zoned

from store.backfill.conversion import BANK, TABLES, TIMES, BankPlace, Row, SourceTable, convert_row, place_bank
from store.errors import InvalidEvent, SnapshotRefused
from store.identity import digest_name
from store.log.catalog import AGGREGATES, COLUMNS, EVENTS, Aggregate, EventType
from store.snapshot.events import UnreadableEvent, build_cloud_event, read_event
from store.snapshot.policy import Fate, find_policy
from store.snapshot.portal_document import PortalItem
from store.snapshot.portal_rows import PortalRows, open_rows
from store.text.redaction import Redaction

#: Characters of a bank's name in the platform's table.
BANK_NAME = 126
#: Events that wait behind a history for the texts of its messages, which follow it in the log.
MOST_WAITING = 5000
#: Refused rows that are named.
MOST_NAMED = 20

#: Data fields that each aggregate's events have in the platform's form; docs/snapshots.md names all others.
KEPT: Mapping[Aggregate, frozenset[str]] = MappingProxyType(
    {
        Aggregate.BANK: frozenset({"agentDefId", "userId", "bankName", "disposition", "background"}),
        Aggregate.DOC: frozenset({"docId", "originalText", "contentHash"}),
        Aggregate.UNIT: frozenset(
            (
                *("unitId", "docId", "content", "context", "factType", "metadata", "proofCount", "sourceMemoryIds"),
                *("eventDate", "occurredStart", "occurredEnd", "mentionedAt"),
            )
        ),
        Aggregate.ENTITY: frozenset({"entityId", "userId", "canonicalName", "metadata"}),
        Aggregate.UNIT_ENTITY: frozenset({"unitId", "entityId"}),
        Aggregate.LINK: frozenset({"fromUnitId", "toUnitId", "linkType", "weight"}),
        Aggregate.DIRECTIVE: frozenset({"directiveId", "name", "content", "priority"}),
        Aggregate.REFLECTION: frozenset({"reflectionId", "content"}),
        Aggregate.SESSION: frozenset({"sessionId", "messages", "metadata"}),
    }
)


@dataclass
class Conversion:
    """What a conversion did: counts by name, and the first rows that were refused, by table and number."""

    counts: Counter[str] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)

    def refuse(self, what: str, why: str) -> None:
        """Count something that was refused, and name it."""
        self.counts["refused"] += 1
        if len(self.named) < MOST_NAMED:
            self.named.append(f"{what}: {why}")


# Ours to theirs ----------------------------------------------------------------------------------------------------


def to_portal(events: Iterable[Mapping[str, Any]], done: Conversion) -> Iterator[dict[str, Any]]:
    """Yield events of a snapshot in the platform's form, in their order; count what has no place in it.

    Markers of erased events are left out. A history's messages get their texts, which follow it as units.
    """
    waiting, texts = deque[dict[str, Any]](), dict[str, Any]()
    wanted = set[str]()
    for event in events:
        data = event.get("data")
        if not isinstance(data, Mapping) or event.get("type") not in set(EventType):
            raise SnapshotRefused("the snapshot holds a line that is no event of this log: export again")
        if data.get("erased") is True:
            done.counts["erased"] += 1
            continue
        if "unitId" in data and data["unitId"] in wanted and "content" in data:
            texts[data["unitId"]] = data["content"]
            wanted.discard(data["unitId"])
        wanted.update(one["unitId"] for one in data.get("messages") or () if one.get("unitId"))
        waiting.append(dict(event))
        if not wanted or len(waiting) > MOST_WAITING:
            yield from (_to_portal(one, texts, done) for one in waiting)
            waiting.clear()
            texts.clear()
            wanted.clear()
    yield from (_to_portal(one, texts, done) for one in waiting)


def _to_portal(event: Mapping[str, Any], texts: Mapping[str, Any], done: Conversion) -> dict[str, Any]:
    aggregate = EVENTS[EventType(event["type"])].aggregate
    kept = KEPT[aggregate] | COLUMNS
    data = {name: value for name, value in event["data"].items() if name in kept}
    done.counts["events"] += 1
    done.counts.update(f"dropped.{name}" for name in event["data"] if name not in kept)
    if len(str(data.get("bankName", ""))) > BANK_NAME:
        data["bankName"] = digest_name(data["bankName"])
    if "messages" in data:
        told = [_tell_message(one, texts) for one in data["messages"] if not one.get("erased")]
        data["messages"] = [one for one in told if "content" in one]
        done.counts["dropped.messages"] += len(told) - len(data["messages"])
    return {
        **{name: event[name] for name in ("specversion", "id", "source", "type", "subject", "time") if name in event},
        "datacontenttype": "application/json",
        "host": event["host"],
        "user": event["user"],
        # As text, as the platform's own converter writes it.
        "nonce": str(event.get("nonce", 0)),
        "aggregatetype": aggregate.value,
        "aggregateversion": event["aggregateversion"],
        "data": data,
    }


def _tell_message(message: Mapping[str, Any], texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with its text; without one where the snapshot does not hold the unit that has it."""
    told = {name: message[name] for name in ("role", "name", "timestamp", "content") if message.get(name) is not None}
    return told | ({"content": texts[message["unitId"]]} if message.get("unitId") in texts else {})


# Theirs to ours ----------------------------------------------------------------------------------------------------


def from_portal(
    items: Iterable[PortalItem], host: UUID, redaction: Redaction, done: Conversion, folder: Path
) -> Iterator[dict[str, Any]]:
    """Yield the platform's export as events of the tenant `host`, parents first; count what is left out.

    Rows wait for their order in a file of `folder`, which the caller removes: memory does not grow with them. Raises
    SnapshotRefused for a document of another form.
    """
    with open_rows(folder) as rows:
        for nth, item in enumerate(items, 1):
            _add_item(rows, item, nth, done)
        for source in TABLES:
            for nth, told in enumerate(rows.iterate(source.name), 1):
                event = _convert_one(source, _fold_row(told), f"{source.name} row {nth}", (rows, host, redaction), done)
                if event is not None:
                    done.counts["events"] += 1
                    yield build_cloud_event(event, host, done.counts["events"])


def _add_item(rows: PortalRows, item: PortalItem, nth: int, done: Conversion) -> None:
    if item.table is None:
        _add_event(rows, item.told, nth, done)
    elif item.table in _KEYS:
        if item.told is not None:
            key = json.dumps([str(item.told.get(_to_camel_case(one))) for one in _KEYS[item.table]])
            rows.add(item.table, key, nth, {"row": item.told})
    elif _is_left_out(item.table):
        done.counts["leftOut"] += item.told is not None
    else:
        raise SnapshotRefused(f"this export has a table {item.table!r}, which no policy names")


def _add_event(rows: PortalRows, line: Any, nth: int, done: Conversion) -> None:
    try:
        host = UUID(str(line["host"])) if isinstance(line, Mapping) else UUID(int=0)
        event = read_event(line, host)
    except (KeyError, ValueError, UnreadableEvent) as error:
        done.refuse(f"event {nth}", str(error) if isinstance(error, UnreadableEvent) else "host: must be a UUID")
        return
    told = {"type": event.type, "bank": str(event.bank), "ts": event.at.isoformat(), "version": event.version}
    table = AGGREGATES[Aggregate(event.aggregate)].table
    rows.add(table, event.subject, event.version, {**told, "data": event.data})


def _fold_row(told: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row that was told of last, or the one that events of these versions make."""
    row = dict[str, Any]()
    for one in told:
        row = one["row"] if "row" in one else _apply_event(row, one)
    return row


def _apply_event(before: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    spec = EVENTS[EventType(told["type"])]
    data: dict[str, Any] = dict(told["data"])
    if told["type"] == EventType.SESSION_APPENDED:
        data["messages"] = [*before.get("messages", ()), *data.get("messages", ())]
    ended = spec.ends or data.get("erased") is True
    # An Updated event carries the whole state; those of a history carry what is new.
    kept = {**before, **data} if ended or spec.aggregate is Aggregate.SESSION else data
    return {
        **kept,
        "bankId": told["bank"],
        "aggregateVersion": told["version"],
        "active": not ended,
        "updateTs": told["ts"],
    }


_State = tuple[PortalRows, UUID, Redaction]


def _convert_one(
    source: SourceTable, told: Mapping[str, Any], what: str, state: _State, done: Conversion
) -> dict[str, Any] | None:
    rows, host, redaction = state
    try:
        row = _parse_row(source, told)
    except (KeyError, TypeError, ValueError):
        done.refuse(what, "an id, a time or a version is missing, or none")
        return None
    if row["active"] is False:
        done.counts["inactive"] += 1
        return None
    place = place_bank(host, row) if source.name == BANK else _find_place(rows, host, source, row)
    if place is None:
        done.counts["orphaned"] += 1
        return None
    try:
        event = convert_row(source, row, place, redaction)
    except InvalidEvent as error:
        done.refuse(what, str(error))
        return None
    rows.take(source.name, source.key(row), (place.name, place.user, place.agent) if source.name == BANK else None)
    return event


def _find_place(rows: PortalRows, host: UUID, source: SourceTable, row: Row) -> BankPlace | None:
    """Return where the bank of a row stands here; None where the bank, or another parent, was not taken."""
    bank = rows.find_taken(BANK, (row["bank_id"],))
    parents = ((table, (row["bank_id"], row[column])) for column, table in source.parents.items() if row[column])
    if bank is None or any(rows.find_taken(table, key) is None for table, key in parents):
        return None
    return BankPlace(host, *bank[0])


def _parse_row(source: SourceTable, told: Mapping[str, Any]) -> Row:
    """Return a row by its columns, with ids and times parsed; what the row lacks is null."""
    ids = [name for name in source.keys if name.endswith("_id")]
    names = (*source.keys, *source.columns, "aggregate_version", "active", "update_ts")
    row = {name: told.get(_to_camel_case(name)) for name in names}
    for name in (*ids, *source.parents, "agent_def_id", "user_id"):
        if row.get(name) is not None:
            row[name] = UUID(str(row[name]))
    if any(row[name] is None for name in source.keys):
        raise ValueError
    for name in TIMES & row.keys():
        if row[name] is not None:
            row[name] = parse_zoned(str(row[name]))
    row["aggregate_version"] = int(row["aggregate_version"] or 1)
    return row


def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(one.capitalize() for one in rest)


_KEYS: Mapping[str, Sequence[str]] = {source.name: source.keys for source in TABLES}


def _is_left_out(name: str) -> bool:
    try:
        return find_policy(name).fate is not Fate.EVENTS
    except KeyError:
        return False
