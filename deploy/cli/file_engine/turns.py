"""Turns of a session of the file engine: the events of its logs, each once, in their order."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from afterturn_client.message_times import read_time
from afterturn_client.turns import NewTurn

from deploy.cli.file_engine.layout import SessionFolder
from deploy.cli.file_engine.records import BadRecord, Place, Record, read_records
from deploy.ingest_formats.parsed import LONGEST_SESSION_ID, derive_session_name

_INPUT, _OUTPUT = "input_item", "output_item"
#: Events in which the engine tells what it did itself: they hold nothing that was said.
_OWN = frozenset({"compact_summary"})
_NUMBER = re.compile(r"-(?:in|out)-(\d{1,9})$")


@dataclass(frozen=True, slots=True)
class EngineTurn:
    """A turn, and the place of its first event."""

    place: Place
    turn: NewTurn


@dataclass
class SessionTurns:
    """The turns of a session in their order; how many events, how many of them in two files, and told by the engine."""

    turns: list[EngineTurn] = field(default_factory=list)
    events: int = 0
    repeated: int = 0
    own: int = 0
    bad: list[BadRecord] = field(default_factory=list)


@dataclass
class _Turn:
    """Events of a turn, as they are read."""

    place: Place
    name: str
    at: datetime | None
    user: str | None
    events: list[tuple[bool, int, Mapping[str, Any]]] = field(default_factory=list, repr=False)


def read_turns(session: SessionFolder, bank: str) -> SessionTurns:
    """Return the turns of a session, from all its logs; an event that is in several of them is read once."""
    found = SessionTurns()
    if derive_session_name(session.name) != session.name:
        rule = f"a session's id has 1 to {LONGEST_SESSION_ID} bytes without slash, backslash and control character"
        found.bad.append(BadRecord(Place(session.path, 0), rule))
        return found
    reader = _Reader(found)
    for file in session.find_logs():
        reader.take(read_records(file))
    ordered = sorted(enumerate(reader.turns.values()), key=_order_turns)
    found.turns = [_build_turn(one, session.name, bank) for _, one in ordered]
    return found


def _order_turns(numbered: tuple[int, _Turn]) -> tuple[bool, float, int]:
    """Return the order of turns: by the time of the first event, then as they are read; those without a time last."""
    number, turn = numbered
    return turn.at is None, turn.at.timestamp() if turn.at else 0.0, number


class _Reader:
    """Collects the events of a session's logs by their turns."""

    def __init__(self, found: SessionTurns) -> None:
        self.turns: dict[str, _Turn] = {}
        self._found = found
        self._known: dict[str, Mapping[str, Any]] = {}

    def take(self, records: Iterable[Record | BadRecord]) -> None:
        """Take the events of a file."""
        for one in records:
            reason = one.reason if isinstance(one, BadRecord) else self._take(one)
            if reason:
                self._found.bad.append(BadRecord(one.place, reason))

    def _take(self, record: Record) -> str:
        """Take an event; return why it cannot be used, or nothing."""
        value, at = record.value, read_time(record.value.get("ts"))
        if value.get("type") in _OWN:
            self._found.own += 1
            return ""
        fault = _find_fault(value)
        if fault or at is None:
            return fault or "an event without a time (ts)"
        name, item = _name_event(value), value["item"]
        if name not in self._known:
            self._known[name] = item
            self._add(record.place, at, value)
            return ""
        self._found.repeated += 1
        return "" if self._known[name] == item else "another item under the id of an event before it"

    def _add(self, place: Place, at: datetime, value: Mapping[str, Any]) -> None:
        user = value.get("user_id") if isinstance(value.get("user_id"), str) else None
        one = self.turns.setdefault(value["turn_id"], _Turn(place, value["turn_id"], at, user or None))
        numbered = _NUMBER.search(str(value.get("id")))
        number = int(numbered[1]) if numbered else len(one.events)
        one.events.append((value["type"] == _OUTPUT, number, value["item"]))
        self._found.events += 1


def _name_event(value: Mapping[str, Any]) -> str:
    """Return the id of an event; of one that has none, what it holds."""
    name = value.get("id")
    if isinstance(name, str) and name.strip():
        return name
    return json.dumps([value[one] for one in ("type", "turn_id", "ts", "item")], sort_keys=True)


def _find_fault(value: Mapping[str, Any]) -> str:
    """Return why an object is no event of an item, or nothing."""
    if value.get("type") not in (_INPUT, _OUTPUT):
        return "not an event of the engine: its type is unknown"
    if not isinstance(value.get("turn_id"), str) or not value["turn_id"].strip():
        return "an event without turn_id"
    return "" if isinstance(value.get("item"), dict) else "an event without an item"


def _build_turn(turn: _Turn, session: str, bank: str) -> EngineTurn:
    items = [item for _, _, item in sorted(turn.events, key=lambda event: event[:2])]
    return EngineTurn(turn.place, NewTurn(session, items, turn.name, bank, turn.user, turn.at))
