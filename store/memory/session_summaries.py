"""Summaries of sessions: a digest of the messages that a prepared turn no longer shows, held by a Compacted event.

The originals stay, in the log and for recall. An entry names its message: one that was forgotten, corrected or has
ended since is left out at every read, and an erasure removes the whole summary, which is then made anew.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Uuid, bindparam, func, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.driver_rows import DriverRow, fetch_rows
from store.expiry import row_lasts
from store.log.append import append_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_command
from store.log.locks import ENTER_LOG, hold_lock, share_lock
from store.schema import READING, SESSION_HISTORY, UNIT, in_bank
from store.sql_constants import inline
from store.text.session_digest import DigestEntry, DigestKind, SaidMessage, read_entry

#: The role of a summary's message, which no speaker has, and the kind of its content.
ROLE, KIND = "summary", "session_summary"
#: Messages that are read at once, and characters of each.
MESSAGES, CHARACTERS = 500, 4_000

# A writer of turns takes the bank's lock shared and the session's alone; an erasure takes the bank's alone.
LOCK = select(ENTER_LOG, share_lock("quota", "host"), share_lock("bank", "bank"), hold_lock("session", "session"))
READ = text("select * from afterturn.session_summary(:host, :bank, :session, :now)")
FIRST = text("select afterturn.first_to_summarise(:host, :bank, :session, :first)")
DUE = text("""
    select due from afterturn.sessions_to_summarise(:host, :bank, cast(:sessions as uuid[]), :items, :bytes) as due""")
#: Sessions of a page of `list_sessions`.
SESSIONS = 500
_SESSION = SESSION_HISTORY.c
NEXT = (
    select(_SESSION.bank_id, _SESSION.session_id)
    .where(
        _SESSION.host_id == bindparam("host"),
        tuple_(_SESSION.bank_id, _SESSION.session_id)
        > tuple_(bindparam("after_bank", type_=Uuid), bindparam("after_session", type_=Uuid)),
    )
    .order_by(_SESSION.bank_id, _SESSION.session_id)
    .limit(SESSIONS)
)
_UNIT, _READING = UNIT.c, READING.c
_IN_SESSION = bindparam("session", type_=Uuid)
SAID = (
    select(
        _UNIT.turn_id,
        _UNIT.seq,
        _UNIT.aggregate_version,
        _UNIT.turn_name,
        _UNIT.role,
        func.left(_UNIT.content, inline(CHARACTERS)).label("content"),
    )
    .where(
        in_bank(UNIT),
        _UNIT.session_id == _IN_SESSION,
        _UNIT.seq.is_not(None),
        _UNIT.seq >= bindparam("first"),
        _UNIT.seq < bindparam("end"),
        _UNIT.origin == inline("message"),
        _UNIT.active,
        row_lasts(UNIT),
    )
    .order_by(_UNIT.seq)
    .limit(inline(MESSAGES))
)


class SessionPlace(NamedTuple):
    """A session by its ids."""

    host: UUID
    bank: UUID
    session: UUID


@dataclass(frozen=True, slots=True)
class SummaryLimits:
    """When a session is summarised: `items` are what a prepared turn shows; 0: nothing is, and nothing summarised.

    `most_bytes`: of messages that are in no summary.
    """

    items: int = 30
    most_bytes: int = 384_000


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session's summary: messages from `first_seq` on are shown as they are, those before them by `entries`.

    `made`: whether there is a summary, of ours or a platform's.
    """

    first_seq: int
    version: int
    made: bool
    entries: Sequence[DigestEntry] = field(default=(), repr=False)


class SessionSummaries:
    """Reads and writes the summaries of sessions."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def read(self, place: SessionPlace) -> SessionSummary | None:
        """Return a session's summary, without entries whose message changed; None: no such session."""
        async with self._database.tenant(place.host) as connection:
            return await read_summary(connection, place, self._clock())

    async def find_due(self, host: UUID, bank: UUID, sessions: Sequence[UUID], limits: SummaryLimits) -> list[UUID]:
        """Return those of a bank's sessions whose history is to be summarised."""
        async with self._database.tenant(host) as connection:
            return await find_due(connection, host, bank, sessions, limits)

    async def find_first(self, place: SessionPlace, seen: SessionSummary) -> int:
        """Return the number of the first message that the summary does not tell of."""
        asked = {**place._asdict(), "first": seen.first_seq}
        async with self._database.tenant(place.host) as connection:
            return int((await connection.execute(FIRST, asked)).scalar_one())

    async def list_sessions(self, host: UUID, after: tuple[UUID, UUID]) -> list[tuple[UUID, UUID]]:
        """Return bank and id of a tenant's next sessions, at most `SESSIONS`, behind one."""
        async with self._database.tenant(host) as connection:
            found = await connection.execute(NEXT, {"host": host, "after_bank": after[0], "after_session": after[1]})
            return [(row.bank_id, row.session_id) for row in found]

    async def read_messages(self, place: SessionPlace, first: int, end: int) -> list[SaidMessage]:
        """Return the first messages of a session with a number of at least `first` and below `end`."""
        asked = {**place._asdict(), "first": first, "end": end, "now": self._clock()}
        async with self._database.tenant(place.host) as connection:
            return [build_message(row) for row in await fetch_rows(connection, SAID, asked)]

    async def find_read(self, place: SessionPlace, turns: Collection[UUID], version: str) -> frozenset[UUID]:
        """Return those of these turns that a version of an extractor has read: its model has got their texts."""
        query = select(_READING.turn_id).where(
            _READING.host_id == bindparam("host"), _READING.turn_id.in_(turns), _READING.version == bindparam("version")
        )
        async with self._database.tenant(place.host) as connection:
            found = await connection.execute(query, {"host": place.host, "version": version})
            return frozenset(found.scalars())

    async def write(
        self, place: SessionPlace, seen: SessionSummary, kept_from: int, found: Sequence[DigestEntry]
    ) -> bool:
        """Append a summary of the messages before `kept_from`; False: the session has another by now, or has ended.

        Entries whose message was forgotten, corrected or erased since it was read are left out.
        """
        host, bank, session = place
        origin = Origin(host, bank, identity.user_id(host, None), self._clock())
        async with self._database.tenant(host) as connection:
            await connection.execute(LOCK, place._asdict())
            there = await read_summary(connection, place, origin.at)
            if there is None or (there.first_seq, there.made) != (seen.first_seq, seen.made):
                return False
            still = await read_unchanged(connection, place, origin.at, found)
            entries = [one.as_json() for one in found if (one.seq, one.version) in still]
            content = {"kind": KIND, "entries": entries}
            fields = {
                "sessionId": str(session),
                "keptFrom": kept_from,
                "messages": [{"role": ROLE, "timestamp": origin.at.isoformat(), "content": content}],
            }
            event = build_command(origin, EventType.SESSION_COMPACTED, fields, version=there.version + 1)
            return await append_events(connection, host, [event]) is not None


async def read_summary(connection: AsyncConnection, place: SessionPlace, now: datetime) -> SessionSummary | None:
    """Return a session's summary as `SessionSummaries.read`, inside the tenant's transaction."""
    row = (await connection.execute(READ, {**place._asdict(), "now": now})).one_or_none()
    if row is None:
        return None
    entries = [read_entry(told) for told in (row.summary or {"entries": ()})["entries"]]
    entries += [DigestEntry(DigestKind.SAID, one, "", -1, 0) for one in row.messages or () if isinstance(one, str)]
    return SessionSummary(row.first_seq, row.version, bool(row.summary or row.messages), tuple(entries))


async def find_due(
    connection: AsyncConnection, host: UUID, bank: UUID, sessions: Sequence[UUID], limits: SummaryLimits
) -> list[UUID]:
    """Return those of a bank's sessions whose history is to be summarised, inside the tenant's transaction."""
    if not limits.items or not sessions:
        return []
    asked = {"host": host, "bank": bank, "sessions": list(sessions)}
    found = await connection.execute(DUE, {**asked, "items": limits.items, "bytes": limits.most_bytes})
    return list(found.scalars())


async def read_unchanged(
    connection: AsyncConnection, place: SessionPlace, now: datetime, found: Sequence[DigestEntry]
) -> set[tuple[int, int]]:
    """Return number and version of the messages of these entries that are still what they were."""
    query = select(_UNIT.seq, _UNIT.aggregate_version).where(
        in_bank(UNIT),
        _UNIT.session_id == _IN_SESSION,
        _UNIT.seq.is_not(None),
        _UNIT.seq.in_(sorted({one.seq for one in found})),
        _UNIT.active,
        _UNIT.content != inline(""),
        row_lasts(UNIT),
    )
    asked = {**place._asdict(), "now": now}
    return {(row.seq, row.aggregate_version) for row in await connection.execute(query, asked)}


def build_message(row: DriverRow) -> SaidMessage:
    """Return a message from its row of SAID."""
    return SaidMessage(row.seq, row.aggregate_version, row.turn_name or "", row.role or "", row.content, row.turn_id)
