"""Digests of sessions, made as these grow, so that telling what a session is about reads no messages of long ago.

An entry names its message: one that was forgotten, corrected or erased leaves the digest with it
(`afterturn.drop_digested`), one past its end is left out at every read. Killed at any step, a digest has read fewer
messages, and goes on from there; two that write at once write what one would.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, and_, bindparam, column, func, select, text, true, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.driver_rows import fetch_rows
from store.memory.session_summaries import SAID, SessionPlace, build_message, read_unchanged
from store.off_loop import run_off_loop
from store.schema import SESSION_DIGEST, SESSION_HISTORY, in_bank
from store.sql_constants import inline
from store.text.session_digest import DigestEntry, SaidMessage, digest_messages, merge_entries, read_entry

#: Messages that wait before the stage after a turn reads them into the digest; until then, each reader reads them.
LEAST = 16
#: Messages that are read in one transaction: few, so that no other request waits for them.
PAGE = 100
#: The last number that a message of a session can have.
NO_END = 2**31 - 1

_DIGEST, _HISTORY = SESSION_DIGEST.c, SESSION_HISTORY.c
_IN_SESSION = bindparam("session", type_=Uuid)
READ = (
    select(_HISTORY.message_count, _DIGEST.next_seq, _DIGEST.entries)
    .outerjoin_from(
        SESSION_HISTORY,
        SESSION_DIGEST,
        and_(*(_DIGEST[name] == _HISTORY[name] for name in ("host_id", "bank_id", "session_id"))),
    )
    .where(in_bank(SESSION_HISTORY), _HISTORY.session_id == _IN_SESSION, _HISTORY.active)
)
BEGIN = (
    insert(SESSION_DIGEST)
    .values(host_id=bindparam("host"), bank_id=bindparam("bank"), session_id=_IN_SESSION)
    .on_conflict_do_nothing()
)
LOCK = (
    select(_DIGEST.next_seq, _DIGEST.entries)
    .where(in_bank(SESSION_DIGEST), _DIGEST.session_id == _IN_SESSION)
    .with_for_update()
)
WRITE = (
    update(SESSION_DIGEST)
    .values(next_seq=bindparam("to_seq"), entries=bindparam("told", type_=_DIGEST.entries.type))
    .where(in_bank(SESSION_DIGEST), _DIGEST.session_id == _IN_SESSION)
)
_ASKED = (
    func.unnest(bindparam("banks", type_=ARRAY(Uuid)), bindparam("sessions", type_=ARRAY(Uuid)))
    .table_valued(column("bank_id", Uuid), column("session_id", Uuid))
    .render_derived("a")
)
_BEHIND = (
    select((_HISTORY.message_count - func.coalesce(_DIGEST.next_seq, 0)).label("behind"))
    .outerjoin_from(
        SESSION_HISTORY,
        SESSION_DIGEST,
        and_(*(_DIGEST[name] == _HISTORY[name] for name in ("host_id", "bank_id", "session_id"))),
    )
    .where(
        _HISTORY.host_id == bindparam("host"),
        _HISTORY.bank_id == _ASKED.c.bank_id,
        _HISTORY.session_id == _ASKED.c.session_id,
        _HISTORY.active,
    )
    .lateral("h")
)
FIND_BEHIND = (
    select(_ASKED.c.bank_id, _ASKED.c.session_id)
    .join_from(_ASKED, _BEHIND, true())
    .where(_BEHIND.c.behind >= bindparam("least"))
)
_PAGE_SAID = SAID.limit(inline(PAGE))
# Messages of a turn whose text changed, as SAID gives them.
CORRECTED = text("""
    select u.session_id, u.turn_id, u.seq, u.aggregate_version, u.turn_name, u.role, left(u.content, 4000) as content
      from unnest(cast(:units as uuid[])) t(unit_id),
           lateral (select u.* from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.unit_id = t.unit_id and u.active
                       and u.origin = 'message' and u.seq is not null limit 1) u""")


def _merge_page(before: Sequence[Mapping[str, Any]], page: Sequence[SaidMessage]) -> list[DigestEntry]:
    """Return the entries of a digest that had these, with those of more messages."""
    return merge_entries([*map(read_entry, before), *digest_messages(page)])


@dataclass(frozen=True, slots=True)
class SessionDigest:
    """What was said in a session of `messages` messages, by entries; messages from `next_seq` on are not read yet."""

    next_seq: int = 0
    messages: int = 0
    entries: Sequence[DigestEntry] = field(default=(), repr=False)


class SessionDigests:
    """Reads and extends the digests of sessions."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def read(self, place: SessionPlace) -> SessionDigest:
        """Return a session's digest without entries that are gone; an empty one where there is none."""
        async with self._database.tenant(place.host) as connection:
            row = (await connection.execute(READ, place._asdict())).one_or_none()
            if row is None or row.next_seq is None:
                return SessionDigest(messages=0 if row is None else row.message_count)
            entries = [read_entry(one) for one in row.entries]
            still = await read_unchanged(connection, place, self._clock(), entries)
        return SessionDigest(
            row.next_seq, row.message_count, [one for one in entries if (one.seq, one.version) in still]
        )

    async def find_behind(
        self, host: UUID, sessions: Sequence[tuple[UUID, UUID]], least: int = 1
    ) -> list[SessionPlace]:
        """Return those of a tenant's sessions (bank and id) with at least `least` messages that are not read yet."""
        if not sessions:
            return []
        asked = {"banks": [bank for bank, _ in sessions], "sessions": [session for _, session in sessions]}
        async with self._database.tenant(host) as connection:
            found = await connection.execute(FIND_BEHIND, {"host": host, "least": least, **asked})
            return [SessionPlace(host, row.bank_id, row.session_id) for row in found]

    async def extend(self, place: SessionPlace, until: float | None = None, pages: int | None = None) -> int:
        """Read the messages behind a session's digest, page by page, each in a transaction of its own; return how many.

        At most `pages`, and until this time (`time.monotonic`); the rest is left to another call.
        """
        read = 0
        while pages is None or pages > 0:
            page = await self._extend_by_page(place)
            read, pages = read + page, None if pages is None else pages - 1
            if not page or (until is not None and time.monotonic() >= until):
                break
        return read

    async def read_again(self, host: UUID, bank: UUID, units: Sequence[UUID]) -> None:
        """Take corrected messages of a bank into the digests that had read them."""
        async with self._database.tenant(host) as connection:
            rows = await fetch_rows(connection, CORRECTED, {"host": host, "bank": bank, "units": list(units)})
        for row in rows:
            await self._read_corrected(SessionPlace(host, bank, row.session_id), build_message(row))

    async def _read_corrected(self, place: SessionPlace, message: SaidMessage) -> None:
        found = await run_off_loop(len(message.content), digest_messages, [message])
        await self._write(place, None, found, lambda next_seq: next_seq if message.seq < next_seq else None)

    async def _extend_by_page(self, place: SessionPlace) -> int:
        now = self._clock()
        async with self._database.tenant(place.host) as connection:
            row = (await connection.execute(READ, place._asdict())).one_or_none()
            first = 0 if row is None else row.next_seq or 0
            if row is None or row.message_count <= first:
                return 0
            asked = {**place._asdict(), "first": first, "end": NO_END, "now": now}
            page = [build_message(one) for one in await fetch_rows(connection, _PAGE_SAID, asked)]
        before = row.entries or []
        merged = await run_off_loop(sum(len(one.content) for one in page), _merge_page, before, page)
        # Every message after the last one was erased.
        last = page[-1].seq + 1 if page else row.message_count
        written = await self._write(place, before, merged, lambda next_seq: last if next_seq == first else None)
        return last - first if written else 0

    async def _write(
        self,
        place: SessionPlace,
        seen: Sequence[Mapping[str, Any]] | None,
        found: Sequence[DigestEntry],
        move: Callable[[int], int | None],
    ) -> bool:
        """Add entries to a digest, which are merged with those that were `seen` there.

        `move` returns where the digest ends then, or None where it is to stay as it is.
        """
        asked = place._asdict()
        async with self._database.tenant(place.host) as connection:
            await connection.execute(BEGIN, asked)
            row = (await connection.execute(LOCK, asked)).one()
            moved = move(row.next_seq)
            if moved is None:
                return False
            entries = found if row.entries == seen else merge_entries([*map(read_entry, row.entries), *found])
            await connection.execute(
                WRITE, {**asked, "to_seq": moved, "told": await self._select_living(connection, place, entries)}
            )
        return True

    async def _select_living(
        self, connection: AsyncConnection, place: SessionPlace, entries: Sequence[DigestEntry]
    ) -> list[dict[str, Any]]:
        """Return the entries of messages that are still what they were: under the row's lock, none is missed."""
        still = await read_unchanged(connection, place, self._clock(), entries)
        return [one.as_json() for one in entries if (one.seq, one.version) in still]
