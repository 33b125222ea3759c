"""Accepts turns: validated, durable and queued for the stages when the call returns."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from afterturn_client.contract.turns import TurnStatus

from producers import fair_queue, metrics
from producers.errors import Overloaded, PermissionDenied, ProducerError
from producers.service.authorisation import Action, require_write
from producers.service.banks import assign_author
from producers.service.bodies import parse_body
from producers.service.call_place import note_place
from producers.service.dependencies import ServiceDependencies
from producers.service.gateway_calls import AddBody, split_into_turns
from producers.service.load_shedding import Shed
from producers.service.redacting import Redactor
from producers.service.turns import BatchBody, Judged, limit_call, read_turn
from producers.settings import ApiSettings
from producers.turns.items import measure_value
from store import identity
from store.errors import NotFound, StoreError, TurnBusy, TurnConflict
from store.gen_ai_spans import MemoryOperation, trace_memory
from store.ledger.stages import READY_AT_ONCE, Stage
from store.memory.corrections import PINNED
from store.memory.turns import Appended, NewTurn
from store.off_loop import run_off_loop
from store.tenancy.keys import Grant

#: The result of one turn: accepted, or the error that refuses it.
TurnResult = Appended | ProducerError | StoreError
A = TypeVar("A", bound=TurnResult)

#: Turns of a batch that are validated before other calls get the event loop.
SLICE = 16
#: Most turns of a batch, and characters of their texts, that are written in one piece: a tenth of a second's work.
PIECE_TURNS, PIECE_CHARACTERS = 32, 262_144
#: Seconds between two attempts to append a message that another request is writing, and of all attempts together.
LOOK_AGAIN_S, BUSY_S = 0.025, 1.0


@dataclass(frozen=True, slots=True)
class _Lookups:
    """Lookups shared by the turns of a call: the whole name of each named bank, and documents that exist."""

    banks: dict[str, str] = field(default_factory=dict)
    documents: set[tuple[str, UUID]] = field(default_factory=set)


class Intake:
    """Accepts completed turns, and reads their status."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        self._dependencies = dependencies
        self._settings = settings

    async def add_turn(self, grant: Grant, turn: Any, offered_at: datetime | None = None) -> Appended:
        """Accept one completed turn: durable, readable and on its way through the stages when this returns.

        `offered_at`: when the agent handed it to a queue; the turn's time where it names none.

        Raises Invalid, TooLarge, PermissionDenied, NotFound, TurnConflict, TurnBusy, TurnErased, TurnEnded,
        QuotaExceeded, RateLimited.
        """
        answer = (await self._accept(grant, [turn], offered_at))[0]
        if isinstance(answer, Appended):
            return answer
        raise answer

    async def add_turns(self, grant: Grant, batch: Any) -> list[TurnResult]:
        """Accept turns together and return the result of each, in order; a refused turn affects no other.

        Raises Invalid for an invalid batch, PermissionDenied for a key that may not write, Overloaded.
        """
        self._dependencies.admit(grant, Shed.BATCHES)
        return await self._accept(grant, parse_body(BatchBody, batch).turns)

    async def add_messages(self, grant: Grant, added: Any) -> int:
        """Accept messages that a gateway's client adds, each as a turn; return how many are now remembered.

        The same message again is the same turn. Messages that this service delivers to itself (`--gateway self`) are
        not stored a second time, so that an erasure of their turn leaves no copy.

        Raises Invalid, TooLarge, PermissionDenied, NotFound; TurnBusy, QuotaExceeded and RateLimited, whose details say
        how many messages are remembered all the same, and need not be added again.
        """
        body = parse_body(AddBody, added)
        require_write(grant)
        await self._dependencies.reach(grant, body.bank)
        redactor = Redactor.of(self._settings, grant)
        turns = await run_off_loop(measure_value(added), split_into_turns, body, self._settings, redactor)
        if body.afterturn_turn_id is not None:
            return await self._count_delivered_to_self(grant, body, len(turns))
        with time_call(len(turns)):
            answers = _count_answers(await self._append_when_free(grant, turns, BUSY_S))
        if refused := [answer for answer in answers if isinstance(answer, StoreError)]:
            refused[0].details = {**refused[0].details, "message_count": len(turns) - len(refused)}
            raise refused[0]
        return len(turns)

    async def append_turn(self, grant: Grant, turn: NewTurn, busy_s: float) -> Appended | StoreError:
        """Append a turn that was validated elsewhere, and count it like any other, within a `time_call`.

        A turn that another request is just writing is tried again for `busy_s` seconds. Returns TurnConflict, TurnBusy,
        QuotaExceeded, RateLimited.
        """
        [answer] = _count_answers(await self._append_when_free(grant, [turn], busy_s))
        return answer

    async def read_status(self, grant: Grant, bank: str, session_name: str, turn_name: str) -> TurnStatus:
        """Return the status of a turn. Raises NotFound, PermissionDenied."""
        bank = await self._dependencies.reach(grant, bank)
        return await self._dependencies.turns.status(grant.host_id, bank, session_name, turn_name)

    async def _accept(
        self, grant: Grant, values: Sequence[Any], offered_at: datetime | None = None
    ) -> list[TurnResult]:
        with time_call(len(values)):
            require_write(grant)
            known = _Lookups()
            judged = limit_call(
                [await self._validate_turn(grant, value, known) async for value in _iterate_in_slices(values)]
            )
            if len(judged) == 1 and isinstance(judged[0], NewTurn):
                note_place(grant.host_id, judged[0].bank, judged[0].session_name, judged[0].turn_name)
            accepted = [replace(one, offered_at=offered_at) for one in judged if isinstance(one, NewTurn)]
            answers = iter(await self._append_in_pieces(grant, accepted))
            return _count_answers([next(answers) if isinstance(one, NewTurn) else one for one in judged])

    async def _validate_turn(self, grant: Grant, value: Any, known: _Lookups) -> Judged:
        """Return the validated turn, or the error that refuses it; adds its lookups to `known`."""
        try:
            turn = await run_off_loop(measure_value(value), read_turn, value, self._settings)
            if turn.bank not in known.banks:
                known.banks[turn.bank] = await self._dependencies.reach(grant, turn.bank)
            turn = assign_author(grant, turn, known.banks[turn.bank])
            await self._require_pin(grant, turn)
            if turn.doc_id is not None and (turn.bank, turn.doc_id) not in known.documents:
                await self._dependencies.documents.get(grant.host_id, turn.bank, turn.doc_id)
                known.documents.add((turn.bank, turn.doc_id))
        except (ProducerError, NotFound) as refusal:
            return refusal
        return turn

    async def _require_pin(self, grant: Grant, turn: NewTurn) -> None:
        """Check that a key may add a turn whose metadata pin it. Raises PermissionDenied."""
        if turn.metadata.get(PINNED) != "true":
            return
        try:
            await self._dependencies.authorisation.require(grant, Action.PIN, turn.bank)
        except PermissionDenied as refusal:
            raise PermissionDenied(f"metadata.{PINNED}: {refusal}, or leave it out") from None

    async def _count_delivered_to_self(self, grant: Grant, body: AddBody, messages: int) -> int:
        user, app, project, turn = body.user_id, body.app_id, body.project_id, body.afterturn_turn_id
        if turn is None or not await self._dependencies.turns.is_delivered_here(
            grant.host_id, turn, user, app, project
        ):
            raise NotFound(
                "afterturn_turn_id names no turn that is just being delivered to this user; leave it out to have the "
                "messages stored"
            )
        return messages

    async def _append_when_free(self, grant: Grant, turns: list[NewTurn], busy_s: float) -> list[Appended | StoreError]:
        """Append turns; try those that another request is writing again, for `busy_s` seconds at most."""
        until = time.monotonic() + busy_s
        answers = await self._append(grant, turns)
        while busy := [n for n, answer in enumerate(answers) if isinstance(answer, TurnBusy)]:
            if time.monotonic() >= until:
                break
            await fair_queue.sleep_without_slot(LOOK_AGAIN_S)
            again = await self._append(grant, [turns[n] for n in busy])
            for n, answer in zip(busy, again, strict=True):
                answers[n] = answer
        return answers

    async def _append_in_pieces(self, grant: Grant, turns: Sequence[NewTurn]) -> list[TurnResult]:
        """Append turns piece by piece; between two pieces, calls that wait for a slot of the fair queue go first.

        Where that takes too long, the rest is refused with Overloaded.
        """
        answers: list[TurnResult] = []
        for piece in _cut_pieces(turns):
            try:
                if answers:
                    await fair_queue.sleep_without_slot(0)
            except Overloaded as refusal:
                return [*answers, *(refusal for _ in range(len(turns) - len(answers)))]
            answers += await self._append(grant, piece)
        return answers

    async def _append(self, grant: Grant, turns: list[NewTurn]) -> list[Appended | StoreError]:
        """Append validated turns, then notify the stages that have work now."""
        if not turns:
            return []
        turns = await self._redact(grant, turns)
        places = [(turn.bank, turn.session_name, turn.turn_name) for turn in turns]
        records = sum(len(turn.messages) for turn in turns)
        with trace_memory(MemoryOperation.UPSERT, grant.host_id, places, records=records):
            answers = await self._dependencies.turns.append(grant.host_id, turns)
        new = [t for t, a in zip(turns, answers, strict=True) if isinstance(a, Appended) and not a.duplicate]
        if new:
            begun = {Stage.EMBEDDING} if self._offer_to_micro_batch(grant.host_id, new) else set()
            self._dependencies.notifier.notify(*(stage for stage in READY_AT_ONCE if stage not in begun))
        if any(isinstance(answer, Appended) and answer.delivers for answer in answers):
            self._dependencies.notifier.notify(Stage.GATEWAY)
        if self._dependencies.pending_words_limit is not None:
            # Waits while too many words are pending: recall reads those one by one.
            await self._dependencies.pending_words_limit.wait_for_room(grant.host_id, _count_units(grant.host_id, new))
        return answers

    async def _redact(self, grant: Grant, turns: list[NewTurn]) -> list[NewTurn]:
        redactor = Redactor.of(self._settings, grant)
        size = sum(measure_value([list(message.parts or ()), message.content]) for t in turns for message in t.messages)
        return await run_off_loop(size, lambda: [redactor.redact_turn(turn) for turn in turns])

    def _offer_to_micro_batch(self, host: UUID, turns: list[NewTurn]) -> bool:
        characters = sum(len(message.content) for turn in turns for message in turn.messages)
        offered = self._dependencies.offer_to_micro_batch
        return offered is not None and offered(host, [_turn_identity(host, turn) for turn in turns], characters)


async def _iterate_in_slices(values: Sequence[Any]) -> AsyncIterator[Any]:
    """Yield each value, and let other calls work after each slice, so that a large batch delays none of them."""
    for n, value in enumerate(values):
        if n % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        yield value


def _cut_pieces(turns: Sequence[NewTurn]) -> Iterator[list[NewTurn]]:
    """Yield the turns in pieces of PIECE_TURNS at most, with texts of PIECE_CHARACTERS or one turn."""
    piece, characters = list[NewTurn](), 0
    for turn in turns:
        size = sum(len(message.content) for message in turn.messages)
        if piece and (len(piece) == PIECE_TURNS or characters + size > PIECE_CHARACTERS):
            yield piece
            piece, characters = [], 0
        piece.append(turn)
        characters += size
    if piece:
        yield piece


def _count_units(host: UUID, turns: Sequence[NewTurn]) -> Counter[UUID]:
    """Return how many units these turns have, by bank."""
    units: Counter[UUID] = Counter()
    for turn in turns:
        units[identity.bank_id(host, turn.bank)] += len(turn.messages)
    return units


def _turn_identity(host: UUID, turn: NewTurn) -> UUID:
    session = identity.session_id(identity.bank_id(host, turn.bank), turn.session_name)
    return identity.turn_id(session, turn.turn_name)


@contextmanager
def time_call(turns: int) -> Iterator[None]:
    """Measure the time of one call; an exception counts all its turns as errors."""
    start = time.perf_counter()
    try:
        yield
    except Exception:
        metrics.TURNS_ADDED.labels("error").inc(turns)
        raise
    finally:
        metrics.AFTER_TURN_MS.observe((time.perf_counter() - start) * 1000)


def _count_answers(answers: list[A]) -> list[A]:
    for answer in answers:
        metrics.TURNS_ADDED.labels(_answer_status(answer)).inc()
        if isinstance(answer, TurnConflict):
            metrics.CONFLICTS.inc()
    return answers


def _answer_status(answer: TurnResult) -> str:
    match answer:
        case Appended(duplicate=duplicate):
            return "duplicate" if duplicate else "ok"
        case TurnConflict():
            return "conflict"
        case TurnBusy():
            return "busy"
    return "error"
