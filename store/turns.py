"""Completed turns: accepted once, durable and readable when `append` returns."""

import asyncio
import hmac
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text

from store import identity
from store.banks import created
from store.database import Database
from store.errors import NotFound, QuotaExceeded, StoreError, TurnBusy, TurnConflict
from store.events.catalog import EventType
from store.events.envelope import Origin, envelope
from store.languages import Languages, Rules, writing
from store.ledger import Stage, StageStatus, public_status
from store.quotas import charged, recounted, refusal_of
from store.recall.terms import analyse, lexical_text
from store.recall.word_rules import WordRules

Clock = Callable[[], datetime]

#: Sessions that a store remembers as living before it begins anew.
MAX_LIVING = 10_000
#: From here on a body is prepared in a thread; below, the hand-over would cost more than the work.
LARGE_CHARACTERS = 20_000

APPEND = text("select ord, outcome, position from afterturn.append_turns(:host, cast(:turns as jsonb)) order by ord")
DIGEST_KEY = text("select digest_key from afterturn.host_t where host_id = :host")
TURN_STATUS = text("""
    select t.position as turn_position, t.accepted_at as turn_accepted_at, l.stage, l.status, l.attempts, l.updated_at,
           l.error_category, l.error_reason
      from afterturn.turn_t t
      join afterturn.ledger_t l on l.host_id = t.host_id and l.turn_id = t.turn_id and l.item_id = t.turn_id
     where t.host_id = :host and t.turn_id = :turn
    union all
    select t.position, t.accepted_at, e.key, e.value->>'status', cast(e.value->>'attempts' as int),
           cast(e.value->>'at' as timestamptz), e.value->>'category', e.value->>'reason'
      from afterturn.turn_t t, jsonb_each(t.ended) e
     where t.host_id = :host and t.turn_id = :turn""")


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
    metadata: Mapping[str, str] = field(default_factory=dict)
    gateway: bool = False
    gateway_asked: bool | None = None
    private_to: str | None = None
    doc_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """The turn is in the log; a read that shows `position` shows the turn."""

    position: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """The turn was not accepted; nothing of it was written."""

    error: StoreError


@dataclass(frozen=True, slots=True)
class TurnStatus:
    """How far a turn has come."""

    position: int
    accepted_at: datetime
    stages: Mapping[Stage, StageStatus]


@dataclass(frozen=True, slots=True)
class _Known:
    """What a turn is prepared with: its host's key of digests, sessions that live, how words of banks are cut."""

    digest_key: bytes = field(repr=False)
    living: Container[UUID]
    rules: Mapping[UUID, Rules]


class TurnStore:
    """Appends turns and tells how far they have come."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._digest_keys: dict[UUID, bytes] = {}
        # Sessions that lived when last written to: their turns need not bring what makes bank and session.
        self._living: set[UUID] = set()
        self._languages = Languages(database)

    async def append(self, host: UUID, turns: Sequence[NewTurn]) -> list[Appended | Refused]:
        """Append turns in one transaction and one call, and answer for each, in order.

        An accepted turn is durable, readable, and has a ledger row for every stage. The same turn and body again
        is a duplicate with the first position; another body is refused with TurnConflict; a turn that another
        request is writing at this moment with TurnBusy; one for which a quota has no room with QuotaExceeded or
        RateLimited. A refused turn undoes no other.
        """
        now = self._clock()
        answers = await self._append(host, turns, now)
        full = any(isinstance(a, Refused) and isinstance(a.error, QuotaExceeded) for a in answers)
        if full and await recounted(self._database, host, now):
            # What was accepted by the first call is a duplicate to the second.
            again = await self._append(host, turns, now)
            answers = [a if isinstance(a, Appended) else b for a, b in zip(answers, again, strict=True)]
        return answers

    async def _append(self, host: UUID, turns: Sequence[NewTurn], now: datetime) -> list[Appended | Refused]:
        """Write turns, those whose session ended unknown to us once more, with what makes it again."""
        known = _Known(await self._digest_key(host), self._living, await self._languages.of(host))
        prepare = partial(_offers, host, turns, now, known)
        # A large body would hold the event loop, and every other agent's turn with it, for the time of its analysis.
        sessions, offered = await asyncio.to_thread(prepare) if _is_large(turns) else prepare()
        found = await charged(partial(self._write, host, offered))
        unborn = [n for n, (outcome, _) in enumerate(found) if outcome == "unborn"]
        answers = [_answer(outcome, position) for outcome, position in found]
        if unborn or len(self._living) > MAX_LIVING:
            self._living.clear()
        if unborn:
            again = await self._append(host, [turns[n] for n in unborn], now)
            for n, answer in zip(unborn, again, strict=True):
                answers[n] = answer
        self._living.update(
            session for session, (outcome, _) in zip(sessions, found, strict=True) if outcome == "accepted"
        )
        return answers

    async def _write(self, host: UUID, offered: str) -> list[tuple[str, int | None]]:
        async with self._database.call() as connection:
            rows = await connection.execute(APPEND, {"host": host, "turns": offered})
            return [(row.outcome, row.position) for row in rows]

    async def status(self, host: UUID, bank: str, session_id: str, turn_id: str) -> TurnStatus:
        """Say how far the turn has come, stage by stage. Raises NotFound for an unknown or foreign turn."""
        turn = identity.turn_id(identity.session_id(identity.bank_id(host, bank), session_id), turn_id)
        async with self._database.tenant(host) as connection:
            rows = (await connection.execute(TURN_STATUS, {"host": host, "turn": turn})).all()
        if not rows:
            raise NotFound("no such turn")
        stages = {
            Stage(row.stage): StageStatus(
                public_status(row.status), row.attempts, row.updated_at, row.error_category, row.error_reason
            )
            for row in rows
        }
        return TurnStatus(rows[0].turn_position, rows[0].turn_accepted_at, stages)

    async def _digest_key(self, host: UUID) -> bytes:
        if host not in self._digest_keys:
            async with self._database.tenant(host) as connection:
                key = (await connection.execute(DIGEST_KEY, {"host": host})).scalar()
            if key is None:
                raise NotFound("no such host")
            self._digest_keys[host] = bytes(key)
        return self._digest_keys[host]


def _answer(outcome: str, position: int | None) -> Appended | Refused:
    if outcome == "busy":
        return Refused(TurnBusy("this turn is being written by another request"))
    if over := refusal_of(outcome):
        return Refused(over)
    if outcome == "conflict" or position is None:
        return Refused(TurnConflict("this turn was accepted before with another body"))
    return Appended(position, outcome == "duplicate")


def _digest(turn: NewTurn, key: bytes) -> str:
    """Return the HMAC of a turn's body, hexadecimal: tells bodies apart and betrays nothing of them."""
    body = [
        turn.user_id,
        _timestamp(turn.occurred_at),
        dict(turn.metadata),
        turn.gateway_asked,
        [[m.role, m.name, m.content, _timestamp(m.occurred_at), m.parts] for m in turn.messages],
    ]
    return hmac.digest(key, orjson.dumps(body, option=orjson.OPT_SORT_KEYS), "sha256").hex()


def _timestamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def _is_large(turns: Sequence[NewTurn]) -> bool:
    return sum(len(m.content) for turn in turns for m in turn.messages) + 500 * len(turns) > LARGE_CHARACTERS


def _offers(host: UUID, turns: Sequence[NewTurn], now: datetime, known: _Known) -> tuple[list[UUID], str]:
    """Return the turns' sessions, and the turns in the form `append_turns` takes, as JSON text.

    Turns of living sessions bring nothing that makes one.
    """
    offered = [{"ord": n, **_offer(host, turn, now, known)} for n, turn in enumerate(turns)]
    return [one["session"] for one in offered], orjson.dumps(offered).decode()


def _offer(host: UUID, turn: NewTurn, now: datetime, known: _Known) -> dict[str, Any]:
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
