"""Completed turns in the form the log takes: ids, digest, events and words, made before anything is locked."""

import hmac
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from store import identity
from store.banks import created
from store.events.catalog import EventType
from store.events.envelope import Origin, envelope
from store.languages import Rules, writing
from store.recall.terms import analyse, lexical_text
from store.recall.word_rules import WordRules

#: From here on a body is prepared in a thread; below, the hand-over would cost more than the work.
LARGE_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class NewMessage:
    """One message of a turn; `parts` keeps the content parts where there was more than text."""

    role: str
    content: str
    name: str | None = None
    occurred_at: datetime | None = None
    parts: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A completed turn as a door hands it in, validated; names are the agent's own.

    `gateway`: deliver it to the gateway. `gateway_asked`: what the body said about that, if it said anything; the
    body is what makes two turns the same, whatever the service was configured to when each arrived.
    `doc_id`: the document (of this bank) that the turn was read from.
    `private_to`: the user whose own the bank shall be, should this turn be its first; most names say that themselves.
    """

    bank: str
    session_id: str
    turn_id: str
    messages: Sequence[NewMessage]
    user_id: str | None = None
    occurred_at: datetime | None = None
    metadata: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    gateway: bool = False
    gateway_asked: bool | None = None
    private_to: str | None = None
    doc_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What a turn is prepared with: its host's key of digests, sessions that live, how words of banks are cut."""

    digest_key: bytes = field(repr=False)
    living: Container[UUID]
    rules: Mapping[UUID, Rules]


def _digest(turn: NewTurn, key: bytes) -> str:
    """Return the HMAC of a turn's body, hexadecimal: tells bodies apart and betrays nothing of them."""
    body = [
        turn.user_id,
        _timestamp(turn.occurred_at),
        dict(turn.metadata),
        turn.gateway_asked,
        [[m.role, m.name, m.content, _timestamp(m.occurred_at), m.parts] for m in turn.messages],
    ]
    # hmac.digest is slower for what is short, and lets the interpreter go for a moment each time.
    return hmac.new(key, orjson.dumps(body, option=orjson.OPT_SORT_KEYS), "sha256").hexdigest()


def _timestamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def is_large(turns: Sequence[NewTurn]) -> bool:
    """Say whether to prepare turns would hold the event loop for too long."""
    return sum(len(m.content) for turn in turns for m in turn.messages) + 500 * len(turns) > LARGE_CHARACTERS


def offers(host: UUID, turns: Sequence[NewTurn], now: datetime, known: Known) -> tuple[list[UUID], list[bytes]]:
    """Return the turns' sessions, and each turn in the form `append_turns` takes, as JSON.

    Turns of living sessions bring nothing that makes one.
    """
    offered = [_offer(host, turn, now, known) for turn in turns]
    return [one["session"] for one in offered], [orjson.dumps(one) for one in offered]


def _offer(host: UUID, turn: NewTurn, now: datetime, known: Known) -> dict[str, Any]:
    """Return one turn in the form `append_turns` takes: its identity, its events and its words."""
    bank = identity.bank_id(host, turn.bank)
    session = identity.session_id(bank, turn.session_id)
    turn_id = identity.turn_id(session, turn.turn_id)
    origin = Origin(host, bank, identity.user_id(host, turn.user_id), now)
    place = {"sessionId": session, "sessionName": turn.session_id, "turnId": turn_id, "turnName": turn.turn_id}
    units = [identity.unit_id(turn_id, n) for n in range(len(turn.messages))]
    said = [m.occurred_at or turn.occurred_at or now for m in turn.messages]
    appended = _appended(turn, place, units, said)
    rules = writing(known.rules, bank)
    return {
        "turn": turn_id,
        "bank": bank,
        "session": session,
        "user": origin.user,
        "digest": _digest(turn, known.digest_key),
        "gateway": turn.gateway,
        "accepted_at": now,
        "bytes": sum(len(message.content.encode()) for message in turn.messages),
        "begin": None if session in known.living else _beginnings(origin, turn, session),
        "events": [
            envelope(origin, EventType.SESSION_APPENDED, (session,), appended, nth=str(turn_id)),
            *(
                envelope(origin, EventType.UNIT_RETAINED, (unit,), _retained(turn, n, unit, said[n], place))
                for n, unit in enumerate(units)
            ),
        ],
        "postings": [_posting(*one, rules) for one in zip(units, turn.messages, said, strict=True)],
    }


def _beginnings(origin: Origin, turn: NewTurn, session: UUID) -> list[dict[str, Any]]:
    """Return the events that make the turn's bank and session."""
    named = {"sessionId": session, "sessionName": turn.session_id}
    return [
        envelope(origin, EventType.BANK_CREATED, (), created(origin.host, turn.bank, turn.private_to)),
        envelope(origin, EventType.SESSION_CREATED, (session,), named),
    ]


def _appended(
    turn: NewTurn, place: Mapping[str, object], units: Sequence[UUID], said: Sequence[datetime]
) -> dict[str, Any]:
    """Return what the history event says: who spoke when, and in which unit the words are kept (once)."""
    return {
        **place,
        "metadata": dict(turn.metadata),
        "messages": [
            {"unitId": unit, "role": m.role, "name": m.name, "timestamp": at}
            for unit, m, at in zip(units, turn.messages, said, strict=True)
        ],
    }


def _retained(turn: NewTurn, n: int, unit: UUID, at: datetime, place: Mapping[str, object]) -> dict[str, Any]:
    message = turn.messages[n]
    return {
        **place,
        "unitId": unit,
        **({"docId": turn.doc_id} if turn.doc_id else {}),
        "content": message.content,
        "factType": "experience",
        "eventDate": at,
        "mentionedAt": at,
        "metadata": dict(turn.metadata),
        "origin": "message",
        "ordinal": n,
        "role": message.role,
        "name": message.name,
        **({"parts": message.parts} if message.parts else {}),
    }


def _posting(unit: UUID, message: NewMessage, at: datetime, rules: WordRules) -> dict[str, Any]:
    terms = analyse(lexical_text(message.name or message.role, at, message.content, rules), rules)
    return {"unit": unit, "terms": dict(terms.counts), "length": terms.length}
