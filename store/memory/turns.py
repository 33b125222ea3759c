"""Appends completed turns, each once, durable and readable when `append` returns, and reads their status."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID
from weakref import WeakValueDictionary

from afterturn_client.contract.turns import StageError, StageStatus, TurnStatus
from sqlalchemy import Row, and_, bindparam, select, text, true

from store import identity
from store.coalescing import Coalescer
from store.database import Database
from store.errors import (
    NotFound,
    QuotaExceeded,
    ResourceBusy,
    StoreError,
    TurnBusy,
    TurnConflict,
    TurnEnded,
    TurnErased,
)
from store.ledger.ledger import public_status
from store.ledger.stages import Stage
from store.memory.graph import Graph
from store.memory.imported_turns import DIFFERS, compare_with_log
from store.memory.listings import Listings
from store.memory.offered_turns import (
    NewMessage,
    NewTurn,
    OfferContext,
    OfferedTurn,
    build_offered_turns,
    estimate_effort,
)
from store.memory.open_turns import OpenTurns
from store.memory.session_digests import SessionDigests
from store.memory.session_history import SessionHistory
from store.memory.session_messages import SessionMessages
from store.memory.session_summaries import SessionSummaries
from store.memory.turn_writes import AppendOutcome, attach_call, write_coalesced, write_offered
from store.off_loop import run_steps_off_loop
from store.schema import GATEWAY_TARGET, HOST, LEDGER, UNIT
from store.tenancy.languages import Languages
from store.tenancy.quotas import recount_quota, refusal_of

__all__ = ["Appended", "Clock", "NewMessage", "NewTurn", "TurnStore"]

Clock = Callable[[], datetime]

#: Concurrent calls of a host, and the most bytes of one, so that a small turn does not wait for large ones.
LANES = 2
MOST_BYTES = 262_144
#: The most begun sessions that a store remembers; beyond them, it forgets all.
MOST_BEGUN_SESSIONS = 10_000

DIGEST_KEY = select(HOST.c.digest_key).where(HOST.c.host_id == bindparam("host"))
_TARGET = GATEWAY_TARGET.c
# The status is committed before the call leaves, and another follows when it has been answered.
DELIVERED_HERE = (
    select(true())
    .select_from(LEDGER)
    .join(GATEWAY_TARGET, and_(_TARGET.host_id == LEDGER.c.host_id, _TARGET.target_id == LEDGER.c.target_id))
    .where(
        LEDGER.c.host_id == bindparam("host"),
        LEDGER.c.stage == Stage.GATEWAY.value,
        LEDGER.c.item_id == bindparam("turn"),
        LEDGER.c.status == "adding",
        _TARGET.base_url.is_(None),
        _TARGET.user_id == bindparam("user"),
        _TARGET.app_id == bindparam("app"),
        _TARGET.project_id == bindparam("project"),
    )
)
# An erased unit has no text.
ERASED = (
    select(UNIT.c.turn_id)
    .where(
        UNIT.c.host_id == bindparam("host"),
        UNIT.c.bank_id.in_(bindparam("banks", expanding=True)),
        UNIT.c.turn_id.in_(bindparam("turns", expanding=True)),
        UNIT.c.origin == "message",
        ~UNIT.c.active,
        UNIT.c.content == "",
    )
    .distinct()
)
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

HAS_ENDED = "the bank of this turn has ended since the turn was accepted; send it under another name to store it anew"
WAS_ERASED = (
    "this turn was erased, and nothing is stored under its name again: to store it anew, send it with another turn_id "
    "or session_id"
)
BUSY = (
    "another request is writing this turn, or holds its bank or session: try again after 0.2, 0.5, 1, then 2 s, "
    "with the same turn_id"
)


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer for an accepted turn: a read that shows `position` shows the turn."""

    position: int
    duplicate: bool
    #: Whether the turn is now waiting for delivery to a gateway.
    delivers: bool = field(default=False, compare=False)


class TurnStore:
    """Appends turns and reads their status."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = self.clock = clock
        self.sessions = SessionHistory(database, clock)
        self.summaries = SessionSummaries(database, clock)
        self.digests = SessionDigests(database, clock)
        self.open = OpenTurns(database, clock)
        self.listings = Listings(database, clock)
        self.graph = Graph(database, clock)
        self.session_messages = SessionMessages(database, clock)
        self._writes: WeakValueDictionary[UUID, Coalescer[list[OfferedTurn], list[AppendOutcome]]] = (
            WeakValueDictionary()
        )
        self._digest_keys: dict[UUID, bytes] = {}
        # Sessions that lived when last written to: their turns need no events that begin bank and session.
        self._begun_sessions: set[UUID] = set()
        self._languages = Languages(database)

    async def append(self, host: UUID, turns: Sequence[NewTurn]) -> list[Appended | StoreError]:
        """Append turns in one transaction and one call; return the answer or the error of each, in order.

        An accepted turn is durable, readable, and has a ledger row for every stage that it opens. The same turn and
        body again is a duplicate with the first position; another body is refused with TurnConflict; a turn that
        another request is writing at this moment with TurnBusy; one for which a quota has no room with QuotaExceeded
        or RateLimited. A refused turn undoes no other.
        """
        now = self._clock()
        answers = await self._append(host, turns, now)
        full = any(isinstance(a, QuotaExceeded) for a in answers)
        if full and await recount_quota(self._database, host, now):
            # A turn that the first call accepted is a duplicate in the second.
            again = await self._append(host, turns, now)
            answers = [a if isinstance(a, Appended) else b for a, b in zip(answers, again, strict=True)]
        return answers

    async def _append(self, host: UUID, turns: Sequence[NewTurn], now: datetime) -> list[Appended | StoreError]:
        """Write turns; repeat those whose session had ended unknown to this process, with the events that begin it."""
        known = OfferContext(await self._digest_key(host), self._begun_sessions, await self._languages.of(host))
        offered = await run_steps_off_loop(estimate_effort(turns), build_offered_turns(host, turns, now, known))
        found = await self._write(host, [attach_call(turn) for turn in offered])
        unborn = [n for n, (outcome, *_) in enumerate(found) if outcome == "unborn"]
        answers = [_build_answer(outcome) for outcome in found]
        await self._tell_conflicts(host, turns, offered, answers)
        if unborn or len(self._begun_sessions) > MOST_BEGUN_SESSIONS:
            self._begun_sessions.clear()
        if unborn:
            again = await self._append(host, [turns[n] for n in unborn], now)
            for n, answer in zip(unborn, again, strict=True):
                answers[n] = answer
        self._begun_sessions.update(
            turn.session for turn, (outcome, *_) in zip(offered, found, strict=True) if outcome == "accepted"
        )
        return answers

    async def _tell_conflicts(
        self,
        host: UUID,
        turns: Sequence[NewTurn],
        offered: Sequence[OfferedTurn],
        answers: list[Appended | StoreError],
    ) -> None:
        """Replace the conflicts of turns that were erased, or that came by a snapshot without their digest."""
        conflicts = {
            turn.turn: n
            for n, (turn, answer) in enumerate(zip(offered, answers, strict=True))
            if isinstance(answer, TurnConflict)
        }
        if not conflicts:
            return
        banks = {offered[n].bank for n in conflicts.values()}
        async with self._database.tenant(host) as connection:
            asked = {"host": host, "banks": list(banks), "turns": list(conflicts)}
            for turn in (await connection.execute(ERASED, asked)).scalars():
                answers[conflicts.pop(turn)] = TurnErased(WAS_ERASED)
            left = [(turns[n], offered[n]) for n in conflicts.values() if not isinstance(answers[n], TurnEnded)]
            for turn, position in (await compare_with_log(connection, host, left)).items():
                answers[conflicts[turn]] = (
                    TurnConflict(DIFFERS) if position is None else Appended(position, duplicate=True)
                )

    async def _write(self, host: UUID, offered: list[OfferedTurn]) -> list[AppendOutcome]:
        """Write turns together with other callers'; those whose bank or session is locked wait on their own."""
        found = await self._find_coalescer(host).ask(offered)
        if held := [n for n, (outcome, *_) in enumerate(found) if outcome == "held"]:
            again = await self._write_alone(host, [offered[n] for n in held])
            for n, outcome in zip(held, again, strict=True):
                found[n] = outcome
        return found

    async def _write_alone(self, host: UUID, offered: list[OfferedTurn]) -> list[AppendOutcome]:
        """Write turns whose bank or session is locked, waiting for the lock; after a lock timeout they are busy."""
        try:
            return await write_offered(self._database, host, offered)
        except ResourceBusy:
            return [("busy", None, False)] * len(offered)

    def _find_coalescer(self, host: UUID) -> Coalescer[list[OfferedTurn], list[AppendOutcome]]:
        """Return the coalescer that joins concurrent appends of a host; under load each one costs less."""
        if (found := self._writes.get(host)) is None:
            write = partial(write_coalesced, self._database, host)
            found = self._writes[host] = Coalescer(write, MOST_BYTES, LANES, _weigh_turns, eager=True)
        return found

    async def status(self, host: UUID, bank: str, session_name: str, turn_name: str) -> TurnStatus:
        """Return the turn's status, stage by stage. Raises NotFound for an unknown or foreign turn."""
        turn = identity.turn_id(identity.session_id(identity.bank_id(host, bank), session_name), turn_name)
        async with self._database.tenant(host) as connection:
            rows = (await connection.execute(TURN_STATUS, {"host": host, "turn": turn})).all()
        if not rows:
            raise NotFound("no such turn")
        position, accepted_at = rows[0].turn_position, rows[0].turn_accepted_at
        stages = {row.stage: _build_stage(row) for row in rows}
        # A turn without a gateway has no row in the gateway's stage.
        stages.setdefault(Stage.GATEWAY.value, StageStatus(status="skipped", attempts=0, updated_at=accepted_at))
        return TurnStatus(id=turn, position=position, accepted_at=accepted_at, stages=stages)

    async def is_delivered_here(self, host: UUID, turn: UUID, user: str, app: str, project: str) -> bool:
        """Return whether a worker is just delivering the turn of this id to this service, for this gateway's user.

        No caller learns whether other turns exist, even with a computed id.
        """
        place = {"host": host, "turn": turn, "user": user, "app": app, "project": project}
        async with self._database.tenant(host) as connection:
            return (await connection.execute(DELIVERED_HERE, place)).scalar() is not None

    async def _digest_key(self, host: UUID) -> bytes:
        if host not in self._digest_keys:
            async with self._database.tenant(host) as connection:
                key = (await connection.execute(DIGEST_KEY, {"host": host})).scalar()
            if key is None:
                raise NotFound("no such host")
            self._digest_keys[host] = bytes(key)
        return self._digest_keys[host]


def _build_stage(row: Row[Any]) -> StageStatus:
    error = StageError(category=row.error_category, reason=row.error_reason) if row.error_category else None
    status: Any = public_status(row.status)
    return StageStatus(status=status, attempts=row.attempts, updated_at=row.updated_at, error=error)


def _weigh_turns(turns: list[OfferedTurn]) -> int:
    return sum(turn.weight for turn in turns)


def _build_answer(found: AppendOutcome) -> Appended | StoreError:
    outcome, position, delivers = found
    if outcome == "busy":
        return TurnBusy(BUSY)
    if over := refusal_of(outcome):
        return over
    if outcome == "ended":
        return TurnEnded(HAS_ENDED)
    if outcome == "conflict" or position is None:
        return TurnConflict("this turn was accepted before with another body")
    duplicate = outcome == "duplicate"
    return Appended(position, duplicate, delivers and not duplicate)
