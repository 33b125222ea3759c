"""Facts of a session of the file engine that hold now: its index, or else what its shards of facts come to."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from afterturn_client.memories import MemoryOptions
from afterturn_client.message_times import read_time

from deploy.cli.file_engine.layout import SessionFolder
from deploy.cli.file_engine.records import BadRecord, Place, Record, parse_record, read_records
from deploy.ingest_formats.parsed import TurnNames

Identity = tuple[str, str]
_UPSERT, _DELETE, _SUPERSEDE = "fact_upsert", "fact_delete", "fact_supersede"
#: Facts that the engine's rules found: the id names the turn whose items say it.
_OF_RULES = re.compile(r"(?s)(?P<turn>.+)-fact-(?:name|prefer|like|today-task|week-task)")
#: How a person says the facts of the engine's rules, by fact_id; any other is told as "key: value".
_SENTENCES = {
    "user_name": "My name is {value}.",
    "user_preference": "I prefer {value}.",
    "user_like": "I like {value}.",
    "today_task": "Today I need {value}.",
    "weekly_task": "This week I need {value}.",
}
#: The contract's score: the bonus of each tier, what an age takes away in hours, and the most that a new fact has.
_BONUS = {"L0": 0.35, "L2": 0.20, "L1": 0.10}
_HOURS, _FRESH = 240.0, 0.25
LONGEST_INDEX = 67_108_864


@dataclass(frozen=True, slots=True)
class EngineFact:
    """A fact that holds, and where it stands; `turn` is the one that a rule found it in, None: a model found it."""

    place: Place
    fact_id: str
    key: str
    value: str = field(repr=False)
    tier: str
    confidence: float
    at: datetime | None
    expires_at: datetime | None
    user: str | None
    turn: str | None

    @property
    def identity(self) -> Identity:
        """What the engine knows a fact by."""
        return self.fact_id.strip().lower(), self.key.strip().lower()

    def has_ended(self, now: datetime) -> bool:
        """Return whether its end has come; an end that cannot be read never comes."""
        return self.expires_at is not None and self.expires_at <= now

    def tell(self) -> str:
        """Return the fact as a text to keep."""
        return _SENTENCES.get(self.fact_id, "{key}: {value}").format(key=self.key or self.fact_id, value=self.value)

    def describe(self, session: str) -> MemoryOptions:
        """Return how it is kept as a memory: under an id of its own, which a later run finds again."""
        options: MemoryOptions = {
            "memory_id": f"file-engine-{TurnNames.digest(session, *self.identity)}",
            "user_id": self.user,
            "occurred_at": self.at,
            "expires_at": self.expires_at,
            "metadata": {"source": "file-engine", "fact_id": self.fact_id, "key": self.key, "tier": self.tier},
        }
        return options


@dataclass
class SessionFacts:
    """The facts of a session that the engine held."""

    facts: list[EngineFact] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)


def read_facts(session: SessionFolder) -> SessionFacts:
    """Return the facts of the index; where it is missing, empty or damaged, of the shards and the legacy file."""
    found = SessionFacts()
    index = session.find_index()
    if index is not None:
        found.facts = _read_index(index, found.bad)
    if not found.facts:
        found.facts = _rebuild(session, found.bad)
    return found


def rank_facts(facts: Iterable[EngineFact], now: datetime) -> list[EngineFact]:
    """Return facts by the contract's score for an input whose terms none holds, the best first."""

    def score(fact: EngineFact) -> tuple[float, float, float]:
        hours = (now - fact.at).total_seconds() / 3600 if fact.at else _FRESH * _HOURS
        fresh = max(0.0, _FRESH - hours / _HOURS)
        at = fact.at.timestamp() if fact.at else 0.0
        return fact.confidence + _BONUS.get(fact.tier, _BONUS["L2"]) + fresh, at, fact.confidence

    return sorted(facts, key=score, reverse=True)


def _read_index(file: Path, bad: list[BadRecord]) -> list[EngineFact]:
    try:
        with file.open("rb") as stream:
            raw = stream.read(LONGEST_INDEX + 1)
        whole = parse_record(raw.decode(), Place(file, 0)) if len(raw) <= LONGEST_INDEX else None
    except (OSError, UnicodeDecodeError):
        whole = None
    if whole is None:
        whole = BadRecord(Place(file, 0), f"not a text of at most {LONGEST_INDEX} bytes")
    if isinstance(whole, BadRecord):
        bad.append(whole)
        return []
    listed = whole.value.get("facts")
    if not isinstance(listed, dict):
        bad.append(BadRecord(whole.place, "an index without facts"))
        return []
    return [fact for value in listed.values() if (fact := _read_fact(Record(whole.place, value), bad)) is not None]


def _rebuild(session: SessionFolder, bad: list[BadRecord]) -> list[EngineFact]:
    """Return the facts that hold after every record of the shards, each once, states before new facts of their time."""
    records = list[tuple[str, bool, int, EngineFact]]()
    known = set[tuple[Any, ...]]()
    for file in session.find_facts():
        for one in read_records(file):
            if isinstance(one, BadRecord):
                bad.append(one)
                continue
            kind = one.value.get("type")
            if kind not in (_UPSERT, _DELETE, _SUPERSEDE):
                bad.append(BadRecord(one.place, "not a record of a fact: its type is unknown"))
                continue
            fact = _read_fact(one, bad, any_state=True)
            name = one.value.get("id"), kind
            if fact is None or (one.value.get("id") and name in known):
                continue
            known.add(name)
            records.append((fact.at.isoformat() if fact.at else "", kind == _UPSERT, len(records), fact))
    active = dict[Identity, EngineFact]()
    for _, is_new, _, fact in sorted(records, key=lambda record: record[:3]):
        if is_new:
            active[fact.identity] = fact
        else:
            active.pop(fact.identity, None)
    return list(active.values())


def _read_fact(record: Record, bad: list[BadRecord], *, any_state: bool = False) -> EngineFact | None:
    """Return a fact; None for one that does not hold, and for a bad one."""
    value = record.value
    reason = _find_fault(value)
    if reason:
        bad.append(BadRecord(record.place, reason))
        return None
    if not any_state and (value.get("state") or "active") != "active":
        return None
    texts = {name: str(value.get(name) or "") for name in ("id", "fact_id", "key", "value", "tier", "source_turn_id")}
    by_rule = _OF_RULES.fullmatch(texts["id"])
    sure = value.get("confidence")
    return EngineFact(
        place=record.place,
        fact_id=texts["fact_id"] or texts["key"],
        key=texts["key"],
        value=texts["value"],
        tier=texts["tier"] if texts["tier"] in _BONUS else "L2",
        confidence=float(sure) if isinstance(sure, int | float) and not isinstance(sure, bool) else 0.0,
        at=read_time(value.get("ts")),
        expires_at=read_time(value.get("expires_at")),
        user=_read_user(value),
        turn=(texts["source_turn_id"] or by_rule["turn"]) if by_rule else None,
    )


def _read_user(value: Mapping[str, Any]) -> str | None:
    user = value.get("source_user_id")
    return user if isinstance(user, str) and user else None


def _find_fault(value: Any) -> str:
    """Return why a record is no fact, or nothing."""
    if not isinstance(value, dict):
        return "not a JSON object"
    named = [value.get(name) for name in ("fact_id", "key")]
    if not any(isinstance(name, str) and name.strip() for name in named):
        return "a fact without fact_id and key"
    if value.get("type") != _DELETE and not (isinstance(value.get("value"), str) and value["value"].strip()):
        return "a fact without a value"
    return ""
