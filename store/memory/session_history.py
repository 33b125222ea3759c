"""Reads a session's history with its original items, newest last, and the current facts."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import BigInteger, FromClause, Integer, Select, Uuid, and_, bindparam, exists, func, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import ONE_PLAN, Database
from store.derived.facts import Identity
from store.derived.said_facts import ONE_BANK, SaidFact, read_said_facts
from store.driver_rows import DriverRow, fetch_rows
from store.expiry import bank_lasts, row_lasts
from store.ledger.stages import OWN, Stage
from store.schema import EVENT_STORE, FACT, LEDGER, SESSION_HISTORY, UNIT, in_bank
from store.sql_constants import ONE, ZERO, inline
from store.text.rules.canonical import fold_text

#: Bytes of messages from which no more of a session are read: twice what a call may send as its history by default.
MOST_BYTES = 4_194_304

_UNIT, _FACT, _RETAINED = UNIT.alias("u"), FACT.alias("f"), EVENT_STORE.alias("e")
_MOST, _IN_SESSION = bindparam("most", type_=Integer), bindparam("session", type_=Uuid)
# Whether a turn of the bank waits for projection: one probe of an index, made once a statement.
_FACTS_WAIT = exists().where(in_bank(LEDGER), LEDGER.c.stage == inline(Stage.PROJECTION), LEDGER.c.undone)
# The original item is stored in the log alone, where an erasure removes it.
_NEWEST = (
    select(
        _UNIT.c.seq,
        _UNIT.c.unit_id,
        _UNIT.c.role,
        _UNIT.c.content,
        _RETAINED.c.data[inline("parts")].astext.label("parts"),
        _FACTS_WAIT.label("facts_wait"),
    )
    .join_from(
        _UNIT,
        _RETAINED,
        and_(
            _RETAINED.c.host_id == _UNIT.c.host_id,
            _RETAINED.c.bank_id == _UNIT.c.bank_id,
            _RETAINED.c.position == _UNIT.c.position,
        ),
        isouter=True,
    )
    .where(
        in_bank(_UNIT),
        _UNIT.c.session_id == _IN_SESSION,
        _UNIT.c.seq.is_not(None),
        _UNIT.c.origin == inline("message"),
        _UNIT.c.active,
        row_lasts(_UNIT),
        bank_lasts(),
    )
    .order_by(_UNIT.c.seq.desc())
    .limit(_MOST)
    .subquery("n")
)
# The server parses what is not returned, too: the size of an item is known only then.
_BYTES = func.greatest(func.octet_length(_NEWEST.c.content), func.octet_length(_NEWEST.c.parts))
_MEASURED = select(_NEWEST, (func.sum(_BYTES).over(order_by=_NEWEST.c.seq.desc()) - _BYTES).label("newer")).subquery(
    "m"
)
RECENT = (
    select(_MEASURED)
    .where(_MEASURED.c.newer < bindparam("most_bytes", type_=BigInteger))
    .order_by(_MEASURED.c.seq.desc())
)


def _select_holding(facts: FromClause) -> Select[*tuple[Any, ...]]:
    """Return the query of the newest valid ones of these facts, without those whose unit was forgotten."""
    unit = (
        select(_UNIT.c["metadata"])
        .where(in_bank(_UNIT), _UNIT.c.unit_id == facts.c.unit_id, _UNIT.c.active, row_lasts(_UNIT))
        .limit(ONE)
        .lateral("unit")
    )
    value, key, tier, confidence = (
        unit.c["metadata"][inline(name)].astext for name in ("value", "key", "tier", "confidence")
    )
    return (
        select(
            facts.c.fact_id,
            facts.c.key,
            func.coalesce(value, facts.c.value).label("value"),
            facts.c.subject,
            facts.c.valid_from,
            facts.c.said,
            func.coalesce(key, facts.c.key).label("shown_key"),
            func.coalesce(tier, inline("L2")).label("tier"),
            confidence.label("confidence"),
        )
        .join_from(facts, unit, true())
        .where(in_bank(facts), facts.c.valid_to.is_(None), bank_lasts())
        .order_by(facts.c.valid_from.desc(), facts.c.position.desc())
        .limit(_MOST)
    )


def _select_facts_of_session() -> FromClause:
    """Return the expression of a session's facts, looked up one by one: few units of a session are no messages."""
    fact = select(_FACT).where(in_bank(_FACT), _FACT.c.unit_id == _UNIT.c.unit_id).offset(ZERO).lateral("f")
    return (
        select(fact)
        .join_from(_UNIT, fact, true())
        .where(in_bank(_UNIT), _UNIT.c.session_id == _IN_SESSION, _UNIT.c.seq.is_(None))
        .subquery("facts")
    )


HOLDING = _select_holding(_FACT)
HOLDING_IN_SESSION = _select_holding(_select_facts_of_session())
_SESSION, _LEDGER = SESSION_HISTORY.c, LEDGER.c
OVERVIEW = select(_SESSION.turn_count, _SESSION.message_count, _SESSION.update_ts).where(
    in_bank(SESSION_HISTORY), _SESSION.session_id == bindparam("session"), _SESSION.active, bank_lasts()
)
UNDONE = (
    select(_LEDGER.stage, func.count().label("undone"))
    .where(in_bank(LEDGER), _LEDGER.session_id == bindparam("session"), _LEDGER.undone, _LEDGER.stage.in_(OWN))
    .group_by(_LEDGER.stage)
)

#: The most facts of one session that an overview counts.
COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class SessionOverview:
    """Counts of a session: turns, messages, valid facts by tier, undone rows of our own stages."""

    turns: int
    messages: int
    updated_at: datetime
    facts: Mapping[str, int]
    undone: int


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """One message of a session; `parts` are its original items, as the interface handed them in beside the text.

    `size` is that of its text or of its items as JSON, the larger, in characters.
    """

    unit_id: UUID
    role: str
    content: str = field(repr=False)
    parts: Sequence[Mapping[str, Any]] = field(repr=False)
    size: int


@dataclass(frozen=True, slots=True)
class HoldingFact:
    """A valid fact; `confidence` is the text of its event."""

    fact_id: str
    key: str
    value: str = field(repr=False)
    subject: str = field(repr=False)
    tier: str
    confidence: str | None
    said_at: datetime


class SessionHistory:
    """Reads the messages, facts and counts of sessions."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def recent(
        self, host: UUID, bank: str, session_name: str, most: int, most_bytes: int = MOST_BYTES
    ) -> list[KeptMessage]:
        """Return the newest messages of a session, oldest first; none for an unknown session.

        They are at most `most`, and no more after the one with which they reach `most_bytes`.
        """
        bank_id = identity.bank_id(host, bank)
        async with self._database.tenant(host, ONE_PLAN) as connection:
            session = identity.session_id(bank_id, session_name)
            rows = await self._read_recent(connection, host, bank_id, session, most=most, most_bytes=most_bytes)
        return _build_messages(rows)

    async def holding(self, host: UUID, bank: str, session_name: str | None, most: int) -> list[HoldingFact]:
        """Return the newest valid facts of a bank.

        They include facts of the newest turns, also those of the session, before a worker has processed these.
        """
        bank_id = identity.bank_id(host, bank)
        session = None if session_name is None else identity.session_id(bank_id, session_name)
        async with self._database.tenant(host, ONE_PLAN) as connection:
            return await self._read_holding(connection, host, bank_id, most, session)

    async def recent_and_holding(
        self, host: UUID, bank: str, session_name: str, messages: int, facts: int, *, within: bool
    ) -> tuple[list[KeptMessage], list[HoldingFact]]:
        """Return messages (as `recent`) and facts as of one transaction; `within`: the facts of this session alone.

        They include facts of the session's newest turns, however many turns of other sessions wait.
        """
        bank_id = identity.bank_id(host, bank)
        session = identity.session_id(bank_id, session_name)
        async with self._database.tenant(host, ONE_PLAN) as connection:
            rows = await self._read_recent(connection, host, bank_id, session, most=messages)
            waits = not rows or rows[0].facts_wait
            holding = await self._read_holding(connection, host, bank_id, facts, session, within=within, waits=waits)
        return _build_messages(rows), holding

    async def _read_recent(
        self,
        connection: AsyncConnection,
        host: UUID,
        bank: UUID,
        session: UUID,
        *,
        most: int,
        most_bytes: int = MOST_BYTES,
    ) -> list[DriverRow]:
        asked = {"host": host, "bank": bank, "session": session, "now": self._clock()}
        asked |= {"most": most, "most_bytes": most_bytes}
        return await fetch_rows(connection, RECENT, asked)

    async def _read_holding(
        self,
        connection: AsyncConnection,
        host: UUID,
        bank: UUID,
        most: int,
        session: UUID | None = None,
        *,
        within: bool = False,
        waits: bool = True,
    ) -> list[HoldingFact]:
        """Read facts of waiting turns first (if any `waits`), so that those projected meanwhile are among the rest."""
        asked = {"host": host, "bank": bank, "most": most, "now": self._clock()}
        said = await read_said_facts(connection, ONE_BANK, asked, session=session) if waits else []
        rows = await fetch_rows(connection, HOLDING_IN_SESSION if within else HOLDING, {**asked, "session": session})
        return _line_up(rows, [one for one in said if not within or one.session_id == session])[:most]

    async def overview(self, host: UUID, bank: str, session_name: str) -> SessionOverview | None:
        """Return the counts of a session; None where there is no such session."""
        asked = _name_session(host, bank, session_name)
        async with self._database.tenant(host) as connection:
            row = (await connection.execute(OVERVIEW, {**asked, "now": self._clock()})).one_or_none()
            if row is None:
                return None
            session = asked["session"]
            facts = await self._read_holding(connection, host, asked["bank"], COUNTED, session, within=True)
        undone = sum((await self.undone(host, bank, session_name)).values())
        tiers = Counter(fact.tier for fact in facts)
        return SessionOverview(row.turn_count, row.message_count, row.update_ts, tiers, undone)

    async def undone(self, host: UUID, bank: str, session_name: str) -> dict[Stage, int]:
        """Return the number of undone rows of each of our own stages for a session."""
        asked = _name_session(host, bank, session_name)
        async with self._database.tenant(host) as connection:
            rows = (await connection.execute(UNDONE, asked)).all()
        return {Stage(row.stage): row.undone for row in rows}


def _build_messages(rows: Sequence[DriverRow]) -> list[KeptMessage]:
    """Return the messages of these rows of RECENT, oldest first."""
    return [_build_message(row.unit_id, row.role, row.content, row.parts or "") for row in reversed(rows)]


def _build_message(unit_id: UUID, role: str, content: str, parts: str) -> KeptMessage:
    return KeptMessage(unit_id, role, content, orjson.loads(parts) if parts else (), max(len(content), len(parts)))


def _line_up(rows: Sequence[DriverRow], said: Sequence[SaidFact]) -> list[HoldingFact]:
    """Return the valid facts, newest first: of one subject and key the one that was said last. Pure."""
    # Facts of one moment keep their order: stored rows come newest first, waiting ones in the order they were said.
    held = {
        Identity(fact_id, subject, key): ((since, position, -nth), (shown_key, value, subject, tier, confidence))
        for nth, (fact_id, key, value, subject, since, position, shown_key, tier, confidence) in enumerate(rows)
    }
    for nth, one in enumerate(said):
        at = (one.said_at, one.said, nth)
        if one.fact.denied:
            known = held.get(one.identity)
            if known is not None and known[0][:2] <= at[:2] and fold_text(known[1][1]) == fold_text(one.fact.value):
                del held[one.identity]
        elif one.identity not in held or held[one.identity][0][:2] <= at[:2]:
            fact, subject = one.fact, one.identity.subject
            held[one.identity] = (at, (fact.key, fact.value, subject, fact.tier.value, f"{fact.confidence:g}"))
    ordered = sorted(held.items(), key=lambda item: item[1][0], reverse=True)
    return [HoldingFact(of.fact_id, *told, said_at) for of, ((said_at, *_), told) in ordered]


def _name_session(host: UUID, bank: str, session_name: str) -> dict[str, Any]:
    bank_id = identity.bank_id(host, bank)
    return {"host": host, "bank": bank_id, "session": identity.session_id(bank_id, session_name)}
