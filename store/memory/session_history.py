"""Reads a session's history with its original items, newest last, and the current facts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import BigInteger, ColumnElement, Integer, Subquery, Uuid, bindparam, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import ONE_PLAN, Database
from store.derived.own_names import read_own_subjects
from store.derived.said_facts import ONE_BANK, read_said_facts
from store.driver_rows import DriverRow, fetch_rows
from store.expiry import bank_lasts, row_lasts
from store.ledger.stages import OWN, Stage
from store.memory.held_facts import FactQuestion, HoldingFact, read_names, read_ranked_facts
from store.memory.session_summaries import SessionPlace, SessionSummary, read_summary
from store.schema import EVENT_STORE, LEDGER, SESSION_HISTORY, UNIT, in_bank
from store.sql_constants import inline
from store.text.session_digest import SaidMessage

#: Bytes of messages from which no more of a session are read: twice what a call may send as its history by default.
MOST_BYTES = 4_194_304

_UNIT, _RETAINED = UNIT.alias("u"), EVENT_STORE.alias("e")
_MOST, _IN_SESSION = bindparam("most", type_=Integer), bindparam("session", type_=Uuid)
_MOST_BYTES = bindparam("most_bytes", type_=BigInteger)
# Whether a turn of the bank waits for projection: one probe of an index, made once a statement.
_FACTS_WAIT = exists().where(in_bank(LEDGER), LEDGER.c.stage == inline(Stage.PROJECTION), LEDGER.c.undone)
# More than 0 where a summary may stand before the messages numbered from here on.
_FIRST_SEQ = (
    select(SESSION_HISTORY.c.first_seq)
    .where(in_bank(SESSION_HISTORY), SESSION_HISTORY.c.session_id == _IN_SESSION)
    .scalar_subquery()
)
_NEWEST = (
    select(
        _UNIT.c.host_id,
        _UNIT.c.bank_id,
        _UNIT.c.position,
        _UNIT.c.seq,
        _UNIT.c.aggregate_version,
        _UNIT.c.turn_name,
        _UNIT.c.unit_id,
        _UNIT.c.role,
        _UNIT.c.content,
        _FACTS_WAIT.label("facts_wait"),
        _FIRST_SEQ.label("first_seq"),
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


def _measure_newer(rows: Subquery, size: ColumnElement[int], name: str) -> Subquery:
    """Return the rows with `newer`: the sum of the sizes of those that stand behind each."""
    return select(rows, (func.sum(size).over(order_by=rows.c.seq.desc()) - size).label("newer")).subquery(name)


# The length of a text is known without reading it.
_BY_TEXT = _measure_newer(_NEWEST, func.octet_length(_NEWEST.c.content), "t")
# The original item is stored in the log alone, where an erasure removes it. The server parses an item to know its size,
# so it reads no item of a message that its text alone excludes. The limit keeps it from reading an item twice.
_WITH_ITEMS = (
    select(
        *(column for column in _BY_TEXT.c if column.name != "newer"),
        select(_RETAINED.c.data[inline("parts")].astext)
        .where(
            _RETAINED.c.host_id == _BY_TEXT.c.host_id,
            _RETAINED.c.bank_id == _BY_TEXT.c.bank_id,
            _RETAINED.c.position == _BY_TEXT.c.position,
        )
        .scalar_subquery()
        .label("parts"),
    )
    .where(_BY_TEXT.c.newer < _MOST_BYTES)
    .order_by(_BY_TEXT.c.seq.desc())
    .limit(_MOST)
    .subquery("i")
)
_MEASURED = _measure_newer(
    _WITH_ITEMS, func.greatest(func.octet_length(_WITH_ITEMS.c.content), func.octet_length(_WITH_ITEMS.c.parts)), "m"
)
RECENT = select(_MEASURED).where(_MEASURED.c.newer < _MOST_BYTES).order_by(_MEASURED.c.seq.desc())


_SESSION, _LEDGER = SESSION_HISTORY.c, LEDGER.c
OVERVIEW = select(_SESSION.update_ts).where(
    in_bank(SESSION_HISTORY), _SESSION.session_id == bindparam("session"), _SESSION.active, bank_lasts()
)
UNDONE = (
    select(_LEDGER.stage, func.count().label("undone"))
    .where(in_bank(LEDGER), _LEDGER.session_id == bindparam("session"), _LEDGER.undone, _LEDGER.stage.in_(OWN))
    .group_by(_LEDGER.stage)
)

#: The most facts of one session that an overview holds.
LISTED_FACTS = 60


@dataclass(frozen=True, slots=True)
class SessionOverview:
    """A session: its last change, its first facts by rank, and the number of undone rows of our own stages."""

    updated_at: datetime
    facts: Sequence[HoldingFact] = field(repr=False)
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
    seq: int = 0
    version: int = 0
    turn: str = ""

    @property
    def said(self) -> SaidMessage:
        """The message as a digest reads it."""
        return SaidMessage(self.seq, self.version, self.turn, self.role, self.content)


@dataclass(frozen=True, slots=True)
class RecentHistory:
    """A session's newest messages, oldest first, its valid facts, and the summary of older messages if there is one."""

    kept: Sequence[KeptMessage] = field(repr=False)
    facts: Sequence[HoldingFact] = field(repr=False)
    summary: SessionSummary | None = None


@dataclass(frozen=True, slots=True)
class WantedFacts:
    """How many facts to read, for whom (None: not known who speaks), and what is said in the turn."""

    most: int
    user: str | None = None
    said: str = field(default="", repr=False)


class SessionHistory:
    """Reads the messages, facts and counts of sessions."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def is_known(self, host: UUID, bank: UUID, session: UUID) -> bool:
        """Return whether a bank has, or had, a session of this id."""
        named = SESSION_HISTORY.c.session_id == session
        async with self._database.tenant(host) as connection:
            return bool(
                await connection.scalar(
                    select(exists().where(in_bank(SESSION_HISTORY), named)), {"host": host, "bank": bank}
                )
            )

    async def recent(
        self, host: UUID, bank: str, session_name: str, most: int, most_bytes: int = MOST_BYTES
    ) -> list[KeptMessage]:
        """Return the newest messages of a session, oldest first; none for an unknown session.

        They are at most `most`, and no more after the one with which they reach `most_bytes`.
        """
        bank_id = identity.bank_id(host, bank)
        return await self.newest(host, bank_id, identity.session_id(bank_id, session_name), most, most_bytes)

    async def newest(
        self, host: UUID, bank: UUID, session: UUID, most: int, most_bytes: int = MOST_BYTES
    ) -> list[KeptMessage]:
        """Return the newest messages of a session as `recent` does, by the ids of bank and session."""
        async with self._database.tenant(host, ONE_PLAN) as connection:
            rows = await self._read_recent(connection, host, bank, session, most=most, most_bytes=most_bytes)
        return _build_messages(rows)

    async def holding(
        self, host: UUID, bank: str, wanted: WantedFacts, session_name: str | None = None
    ) -> list[HoldingFact]:
        """Return the first valid facts of a bank by rank.

        They include facts of the newest turns, also those of the session, before a worker has processed these.
        """
        bank_id = identity.bank_id(host, bank)
        session = None if session_name is None else identity.session_id(bank_id, session_name)
        async with self._database.tenant(host, ONE_PLAN) as connection:
            return await self._read_holding(connection, host, bank_id, wanted, session)

    async def recent_and_holding(
        self, host: UUID, bank: str, session_name: str, messages: int, wanted: WantedFacts, *, within: bool
    ) -> RecentHistory:
        """Return messages (as `recent`) and facts as of one transaction; `within`: the facts of this session alone.

        They include facts of the session's newest turns, however many turns of other sessions wait.
        """
        bank_id = identity.bank_id(host, bank)
        session = identity.session_id(bank_id, session_name)
        async with self._database.tenant(host, ONE_PLAN) as connection:
            rows = await self._read_recent(connection, host, bank_id, session, most=messages)
            waits = not rows or rows[0].facts_wait
            summary = None
            if rows and rows[0].first_seq:
                summary = await read_summary(connection, SessionPlace(host, bank_id, session), self._clock())
            holding = await self._read_holding(connection, host, bank_id, wanted, session, within=within, waits=waits)
        return RecentHistory(_build_messages(rows), holding, summary)

    async def names_of(self, host: UUID, bank: str, users: Sequence[UUID]) -> Mapping[UUID, str]:
        """Return the names that these users of a bank state as their own; of the others nothing."""
        place = {"host": host, "bank": identity.bank_id(host, bank), "now": self._clock()}
        async with self._database.tenant(host, ONE_PLAN) as connection:
            return await read_names(connection, place, users)

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
        wanted: WantedFacts,
        session: UUID | None,
        *,
        within: bool = False,
        waits: bool = True,
    ) -> list[HoldingFact]:
        """Read facts of waiting turns first (if any `waits`), so that those projected meanwhile are among the rest."""
        place = {"host": host, "bank": bank, "now": self._clock()}
        retention = self._database.retention
        said = await read_said_facts(connection, ONE_BANK, place, retention, session=session) if waits else []
        own = frozenset({str(identity.user_id(host, wanted.user))})
        if wanted.user is not None:
            own = await read_own_subjects(connection, ONE_BANK, place, wanted.user, said)
        asked = FactQuestion(own, wanted.user is not None, wanted.said)
        place |= {"most": wanted.most, "session": session if within else None}
        return await read_ranked_facts(
            connection, place, [one for one in said if not within or one.session_id == session], asked
        )

    async def overview(self, host: UUID, bank: str, session_name: str) -> SessionOverview | None:
        """Return a session's state; None where there is no such session."""
        asked = _name_session(host, bank, session_name)
        async with self._database.tenant(host) as connection:
            row = (await connection.execute(OVERVIEW, {**asked, "now": self._clock()})).one_or_none()
            if row is None:
                return None
            session = asked["session"]
            facts = await self._read_holding(
                connection, host, asked["bank"], WantedFacts(LISTED_FACTS), session, within=True
            )
        undone = sum((await self.undone(host, bank, session_name)).values())
        return SessionOverview(row.update_ts, facts, undone)

    async def undone(self, host: UUID, bank: str, session_name: str) -> dict[Stage, int]:
        """Return the number of undone rows of each of our own stages for a session."""
        asked = _name_session(host, bank, session_name)
        async with self._database.tenant(host) as connection:
            rows = (await connection.execute(UNDONE, asked)).all()
        return {Stage(row.stage): row.undone for row in rows}


def _build_messages(rows: Sequence[DriverRow]) -> list[KeptMessage]:
    """Return the messages of these rows of RECENT, oldest first."""
    return [_build_message(row) for row in reversed(rows)]


def _build_message(row: DriverRow) -> KeptMessage:
    content, parts = row.content, row.parts or ""
    items, size = orjson.loads(parts) if parts else (), max(len(content), len(parts))
    return KeptMessage(row.unit_id, row.role, content, items, size, row.seq, row.aggregate_version, row.turn_name or "")


def _name_session(host: UUID, bank: str, session_name: str) -> dict[str, Any]:
    bank_id = identity.bank_id(host, bank)
    return {"host": host, "bank": bank_id, "session": identity.session_id(bank_id, session_name)}
