"""Completed turns in the form the log takes: ids, digest, events and words, made before anything is locked."""

import hmac
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from store import identity
from store.authority import Authority
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer
from store.off_loop import Steps
from store.tenancy.banks import bank_created_fields
from store.tenancy.languages import Rules, rules_for_writing
from store.text.message_terms import analyse_message
from store.text.terms import Terms, analyse_text
from store.text.word_rules import WordRules


@dataclass(frozen=True, slots=True)
class NewMessage:
    """One message of a turn; `parts`: its content parts where it had more than text."""

    role: str
    content: str
    name: str | None = None
    occurred_at: datetime | None = None
    parts: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A completed, validated turn to append; names are the agent's own.

    `gateway`: deliver it to the gateway of its bank or tenant, if there is one. `gateway_asked`: what the body said
    about that, if anything: two turns are compared by their bodies, not by the targets that were set at their arrival.
    `doc_id`: the document (of this bank) that the turn was read from.
    `private_to`: the user who shall own the bank if this turn begins it; most banks' names tell their owner.
    `agent`: the agent whose key hands it in, and the author of what it begins.
    `expires_at`: from then on no answer holds its messages or what was drawn from them.
    `offered_at`: when the agent handed it to a queue: the time of messages where neither they nor the turn name one.
    Two turns are the same whenever they were handed in.
    `request`: the JSON by which two turns are the same, where the messages hold only its new part; else the messages.
    """

    bank: str
    session_name: str
    turn_name: str
    messages: Sequence[NewMessage]
    user_id: str | None = None
    occurred_at: datetime | None = None
    metadata: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    gateway: bool = False
    gateway_asked: bool | None = None
    private_to: str | None = None
    doc_id: UUID | None = None
    agent: str | None = None
    request: Any = field(default=None, repr=False)
    expires_at: datetime | None = None
    offered_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class OfferContext:
    """What offered turns are built with: their host's digest key, sessions known to have begun, banks' word rules."""

    digest_key: bytes = field(repr=False)
    begun_sessions: Container[UUID]
    rules: Mapping[UUID, Rules]


@dataclass(frozen=True, slots=True)
class IndexedText:
    """The index terms of a text: how often each occurs (JSON), and the number of words."""

    terms: str
    length: int


#: The fields of `afterturn.turn_event`: id, type, aggregate, subject and data (JSON); of a text also its index terms
#: (JSON) and the number of words.
TurnEvent = tuple[str, str, str, str, str, str | None, int | None]


@dataclass(frozen=True, slots=True)
class OfferedTurn:
    """A turn in the form that `append_turns` takes (store/sql/turns.sql describes the fields)."""

    turn: UUID
    bank: UUID
    session: UUID
    user: UUID
    digest: bytes
    gateway: bool
    accepted_at: datetime
    size: int
    begins: bool
    events: Sequence[TurnEvent] = field(repr=False)
    #: The traceparent of the request that hands it in.
    traceparent: str | None = None
    #: The authority of the call that hands it in; None: the service's own work.
    authority: Authority | None = None

    @property
    def weight(self) -> int:
        """The approximate number of bytes that are sent or written for it, whichever is more."""
        return max(self.size, sum(len(data) + len(terms or "") for *_, data, terms, _ in self.events))


def build_turn_event(
    origin: Origin,
    event: EventType,
    parts: tuple[object, ...],
    data: Mapping[str, Any],
    *,
    indexed: IndexedText | None = None,
    nth: str = "1",
) -> TurnEvent:
    """Return one event of a turn; `parts`, `data` and `nth` are those of `build_offer`."""
    offer = build_offer(origin, event, parts, data, nth=nth)
    words = (None, None) if indexed is None else (indexed.terms, indexed.length)
    return offer["id"], offer["type"], offer["aggregate"], offer["subject"], orjson.dumps(data).decode(), *words


def index_text(text: str, rules: WordRules) -> IndexedText:
    """Return the index terms of a text by the bank's rules."""
    return _build_index_terms(analyse_text(text, rules))


def _build_index_terms(terms: Terms) -> IndexedText:
    return IndexedText(orjson.dumps(terms.counts).decode(), terms.length)


def _digest_turn(turn: NewTurn, key: bytes) -> bytes:
    """Return the HMAC of a turn's body, which tells bodies apart without revealing them."""
    body = [
        turn.user_id,
        _format_timestamp(turn.occurred_at),
        dict(turn.metadata),
        turn.gateway_asked,
        [[m.role, m.name, m.content, _format_timestamp(m.occurred_at), m.parts] for m in turn.messages]
        if turn.request is None
        else {"request": turn.request},
        *([_format_timestamp(turn.expires_at)] if turn.expires_at else []),
    ]
    # hmac.digest is slower for short texts, and releases the interpreter's lock each time.
    return hmac.new(key, orjson.dumps(body, option=orjson.OPT_SORT_KEYS), "sha256").digest()


def _format_timestamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def estimate_effort(turns: Sequence[NewTurn]) -> int:
    """Return the effort of preparing these turns, in characters of text to analyse."""
    return sum(len(m.content) for turn in turns for m in turn.messages) + 500 * len(turns)


def build_offered_turns(
    host: UUID, turns: Sequence[NewTurn], now: datetime, known: OfferContext
) -> Steps[list[OfferedTurn]]:
    """Return the turns in the form `append_turns` takes; turns of begun sessions do not begin theirs.

    It is a generator: `run_steps_off_loop` or `run_steps` (store/off_loop.py) runs it and gives its result.
    """
    found: list[OfferedTurn] = []
    for turn in turns:
        offered = yield from _build_offered_turn(host, turn, now, known)
        found.append(offered)
    return found


def _build_offered_turn(host: UUID, turn: NewTurn, now: datetime, known: OfferContext) -> Steps[OfferedTurn]:
    """Return one turn in the form `append_turns` takes: its identity, its events and its words."""
    bank = identity.bank_id(host, turn.bank)
    session = identity.session_id(bank, turn.session_name)
    turn_id = identity.turn_id(session, turn.turn_name)
    origin = Origin(host, bank, identity.user_id(host, turn.user_id), now)
    place = {"sessionId": session, "sessionName": turn.session_name, "turnId": turn_id, "turnName": turn.turn_name}
    units = [identity.unit_id(turn_id, n) for n in range(len(turn.messages))]
    arrived = min(turn.offered_at or now, now)
    said_at = [m.occurred_at or turn.occurred_at or arrived for m in turn.messages]
    rules = rules_for_writing(known.rules, bank)
    sizes = _message_sizes(turn)
    unit_place = place | ({"agentDefId": identity.agent_id(host, turn.agent)} if turn.agent else {})
    begins = session not in known.begun_sessions
    events = _beginning_events(origin, turn, session) if begins else []
    digest = _digest_turn(turn, known.digest_key)
    appended = {**_appended_event(turn, place, units, said_at), "bodyDigest": digest.hex()}
    events.append(build_turn_event(origin, EventType.SESSION_APPENDED, (session,), appended, nth=str(turn_id)))
    for n, (unit, message, at) in enumerate(zip(units, turn.messages, said_at, strict=True)):
        data = {**_retained_event(turn, n, unit, at, unit_place), "bytes": sizes[n]}
        indexed = _build_index_terms(analyse_message(message.name or message.role, at, message.content, rules))
        events.append(build_turn_event(origin, EventType.UNIT_RETAINED, (unit,), data, indexed=indexed))
        yield
    return OfferedTurn(
        turn=turn_id,
        bank=bank,
        session=session,
        user=origin.user,
        digest=digest,
        gateway=turn.gateway,
        accepted_at=now,
        size=sum(sizes),
        begins=begins,
        events=events,
    )


def _message_sizes(turn: NewTurn) -> list[int]:
    """Return the bytes that quotas are charged for each message, with its parts and the turn's metadata."""
    beside = len(orjson.dumps(dict(turn.metadata))) if turn.metadata else 0
    return [
        len(message.content.encode()) + (len(orjson.dumps(message.parts)) if message.parts else 0) + beside
        for message in turn.messages
    ]


def _beginning_events(origin: Origin, turn: NewTurn, session: UUID) -> list[TurnEvent]:
    """Return the events that begin the turn's bank and session."""
    named = {"sessionId": session, "sessionName": turn.session_name}
    return [
        build_turn_event(
            origin, EventType.BANK_CREATED, (), bank_created_fields(origin.host, turn.bank, turn.private_to)
        ),
        build_turn_event(origin, EventType.SESSION_CREATED, (session,), named),
    ]


def _appended_event(
    turn: NewTurn, place: Mapping[str, object], units: Sequence[UUID], said_at: Sequence[datetime]
) -> dict[str, Any]:
    """Return the data of the history event: who spoke when, and the unit that holds the text."""
    return {
        **place,
        "metadata": dict(turn.metadata),
        "messages": [
            {"unitId": unit, "role": m.role, "name": m.name, "timestamp": at}
            for unit, m, at in zip(units, turn.messages, said_at, strict=True)
        ],
    }


def _retained_event(turn: NewTurn, n: int, unit: UUID, at: datetime, place: Mapping[str, object]) -> dict[str, Any]:
    """Return the data of a message's event; `write_turns` adds its number and the metadata of the history event."""
    message = turn.messages[n]
    return {
        **place,
        "unitId": unit,
        **({"docId": turn.doc_id} if turn.doc_id else {}),
        "content": message.content,
        "factType": "experience",
        "eventDate": at,
        "mentionedAt": at,
        "origin": "message",
        "ordinal": n,
        "role": message.role,
        "name": message.name,
        **({"userName": turn.user_id} if turn.user_id else {}),
        # As text, which keeps the order of names and the form of numbers.
        **({"parts": orjson.dumps(message.parts).decode()} if message.parts else {}),
        **({"expiresAt": turn.expires_at} if turn.expires_at else {}),
    }
