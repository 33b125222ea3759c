"""The facade: everything that can be asked of the memory, the same for every door.

Every call takes the grant of a key; the tenant comes from it and from nothing else. Calls take JSON values and judge
them, so that no door has rules of its own.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from producers import metrics
from producers.banks import (
    BankBody,
    BankChange,
    BanksParameters,
    fitting,
    holds,
    listed,
    reach,
    space_for,
    speaker,
    writes,
    written_by,
)
from producers.corrections import correction_of
from producers.doorbell import Doorbell
from producers.erasures import ErasureBody, scope_of, shows, target_in, user_target
from producers.errors import Invalid, PermissionDenied, Problem, ProducerError
from producers.gateway import AddBody, SearchBody, question_of, results_of, turns_of
from producers.knowledge import Knowledge
from producers.persons import ProfileParameters, profile
from producers.pressure import Pressure, Shed
from producers.recalls import Answer, Freshly, RecallBody, RecallJobBody, Recalls
from producers.settings import ApiSettings
from producers.turns import BatchBody, read, read_turn
from store import identity
from store.banks import Bank, Banks
from store.corrections import Corrected
from store.curation import Curation
from store.documents import Documents
from store.erasure import Erasures, Receipt
from store.errors import NotFound, StoreError, TurnBusy, TurnConflict
from store.keys import Grant
from store.ledger import Stage
from store.persons import Person, Persons
from store.recall_jobs import RecallJob, RecallJobs
from store.turns import Appended, NewTurn, Refused, TurnStatus, TurnStore
from store.units import Forgotten, Unit, Units

Accepted = Appended | ProducerError | StoreError

#: How often a waiting call looks again, in seconds.
LOOK_AGAIN_S = 0.025
#: Whoever waits for an answer looks again after a share of the time it has waited: late by that share, and cheap.
LOOK_SHARE, SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.1, 0.008, 0.1
#: How often a message is offered again that another request is just writing.
BUSY_LOOKS = 40
#: How long an erasure is worked on before the answer; the sweeper goes on with the rest.
ERASE_FOR = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class JobTicket:
    """Where the answer to a recall job can be fetched, and until when."""

    job_id: UUID
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Parts:
    """What the facade stands on."""

    turns: TurnStore
    units: Units
    recalls: Recalls
    jobs: RecallJobs
    doorbell: Doorbell
    banks: Banks
    erasures: Erasures
    documents: Documents
    curation: Curation
    persons: Persons
    pressure: Pressure | None = None
    #: Takes new turns (host, ids, characters in all) to embed them at once, or leaves them to the workers (False).
    embed: Callable[[UUID, Sequence[UUID], int], bool] | None = None

    def admit(self, what: Shed) -> None:
        """Let something in, or raise Overloaded."""
        if self.pressure is not None:
            self.pressure.admit(what)


class Memory:
    """What an agent can do with its memory."""

    def __init__(self, parts: Parts, settings: ApiSettings, *, gateway: bool) -> None:
        """Stand on these parts; `gateway` says whether turns are delivered to a gateway where nothing else is said."""
        self._parts = parts
        self.knowledge = Knowledge(parts.documents, parts.curation, parts.banks, parts.doorbell)
        self._settings = settings
        self._gateway = gateway

    async def after_turn(self, grant: Grant, turn: Any) -> Appended:
        """Take in one completed turn: durable, readable and on its way through the stages when this returns.

        Raises Invalid, TooLarge, PermissionDenied, TurnConflict, TurnBusy.
        """
        answer = (await self._take_in(grant, [turn]))[0]
        if isinstance(answer, Appended):
            return answer
        raise answer

    async def after_turns(self, grant: Grant, batch: Any) -> list[Accepted]:
        """Take in turns together and answer for each, in order; a refused turn undoes no other.

        Raises Invalid for what is no batch, PermissionDenied for a key that may not write, Overloaded.
        """
        self._parts.admit(Shed.BATCHES)
        return await self._take_in(grant, read(BatchBody, batch).turns)

    async def add_messages(self, grant: Grant, added: Any) -> int:
        """Take in messages as a gateway's client adds them, each as a turn; returns how many are now remembered.

        The same message again is the same turn. Raises Invalid, TooLarge, PermissionDenied, TurnBusy.
        """
        body = read(AddBody, added)
        writes(grant)
        await self._reach(grant, body.bank)
        turns = turns_of(body, self._settings)
        with _timed(len(turns)):
            answers = _counted(await self._insist(grant, turns))
        if refusals := [answer for answer in answers if not isinstance(answer, Appended)]:
            raise refusals[0]
        return len(turns)

    async def search_messages(self, grant: Grant, asked: Any) -> list[dict[str, Any]]:
        """Answer a gateway's client; an answer without results is an empty list. Raises Invalid, PermissionDenied."""
        with _asked():
            body = read(SearchBody, asked)
            await self._reach(grant, body.bank)
            question = question_of(body)
            found = await self._parts.recalls.find(grant.host_id, question) if question else None
        return results_of(body, found.items) if found else []

    async def turn(self, grant: Grant, bank: str, session_id: str, turn_id: str) -> TurnStatus:
        """Say how far a turn has come. Raises NotFound, PermissionDenied."""
        bank = await self._reach(grant, bank)
        return await self._parts.turns.status(grant.host_id, bank, session_id, turn_id)

    async def recall(self, grant: Grant, asked: Any) -> Answer:
        """Answer a question from one bank. Raises Invalid, PermissionDenied, PositionBeyondLog."""
        with _asked():
            body = read(RecallBody, asked)
            self._parts.recalls.judge(grant, body)
            if body.across_banks:
                return await self._across(grant, body)
            bank = await self._reach(grant, body.bank)
            return await self._parts.recalls.answer(grant.host_id, body.model_copy(update={"bank": bank}))

    async def _across(self, grant: Grant, body: RecallBody) -> Answer:
        """Answer from the banks a user wrote to last, of those the key reaches."""
        whose = await self._whose(grant, body)
        whole = body.model_copy(update={"user_id": whose["user_id"]})
        return await self._parts.recalls.across(grant.host_id, whole, whose["banks"])

    async def _whose(self, grant: Grant, body: RecallBody) -> dict[str, Any]:
        """Return the user who is asked about, and the banks they wrote to last, of those the key reaches."""
        user = speaker(grant, body.user_id)
        if user is None:
            raise Invalid(Problem("across_banks", "say whose banks: user_id"))
        banks = await self._parts.banks.of_user(grant.host_id, grant.space, user, names=listed(grant))
        return {"user_id": user, "banks": banks}

    async def _one(self, grant: Grant, body: RecallBody) -> dict[str, Any]:
        return {"bank": await self._reach(grant, body.bank)}

    async def request_recall(self, grant: Grant, asked: Any) -> JobTicket:
        """Have a worker answer a question; `recall_job` has the answer until it expires.

        Raises as `recall`, and Overloaded.
        """
        self._parts.admit(Shed.RECALL_JOBS)
        with _asked():
            body = read(RecallJobBody, asked)
            self._parts.recalls.judge(grant, body)
            whose = await (self._whose(grant, body) if body.across_banks else self._one(grant, body))
            request = {name: value for name, value in asked.items() if name != "ttl_s"} | whose
            ticket = await self._parts.jobs.open(grant.host_id, request, timedelta(seconds=body.ttl_s))
        self._parts.doorbell.ask(grant.host_id, ticket[0])
        return JobTicket(*ticket)

    async def recall_job(self, grant: Grant, job: UUID, wait_ms: int = 0) -> RecallJob:
        """Say how a recall job stands, waiting for its end at most `wait_ms`. Raises NotFound."""
        begun = time.monotonic()
        while True:
            found = await self._job(grant, job)
            waited = time.monotonic() - begun
            if found.status != "pending" or waited >= wait_ms / 1000:
                return found
            await asyncio.sleep(min(max(waited * LOOK_SHARE, SHORTEST_LOOK_S), LONGEST_LOOK_S))

    async def cancel_recall(self, grant: Grant, job: UUID) -> None:
        """Remove a recall job and its answer. Raises NotFound."""
        await self._job(grant, job)
        await self._parts.jobs.cancel(grant.host_id, job)

    async def freshness(self, grant: Grant, bank: str, position: int | None = None, wait_ms: int = 0) -> Freshly:
        """Say how far the stages of a bank have come; with a position, wait until all passed it or time is up.

        Raises PermissionDenied, PositionBeyondLog.
        """
        bank = await self._reach(grant, bank)
        return await self._parts.recalls.freshness(grant.host_id, bank, position, wait_ms)

    async def unit(self, grant: Grant, bank: str, unit: UUID) -> Unit:
        """Return one unit with its provenance. Raises NotFound, PermissionDenied."""
        bank = await self._reach(grant, bank)
        return await self._parts.units.get(grant.host_id, bank, unit)

    async def correct(self, grant: Grant, bank: str, unit: UUID, asked: Any) -> Corrected:
        """Make one unit say something else; facts drawn from its old text end.

        Raises Invalid, TooLarge, NotFound, PermissionDenied, TurnBusy, ConcurrencyError (another version was seen).
        """
        writes(grant)
        body = correction_of(asked, self._settings)
        bank = await self._reach(grant, bank)
        told = await self._parts.units.correct(
            grant.host_id, bank, unit, body.content, version=body.version, user=grant.user
        )
        if told.changed:
            self._parts.doorbell.ring(Stage.EXTRACTION, Stage.EMBEDDING)
            self._parts.doorbell.ring(Stage.PROJECTION)
        return told

    async def forget(self, grant: Grant, bank: str, unit: UUID, *, with_facts: bool = False) -> Forgotten:
        """Forget one unit, and `with_facts` those drawn from it that nothing else says: see store.units.

        Raises NotFound, PermissionDenied.
        """
        writes(grant)
        bank = await self._reach(grant, bank)
        done = await self._parts.units.forget(grant.host_id, bank, unit, grant.user, with_facts=with_facts)
        self._parts.doorbell.ring(Stage.PROJECTION)
        return done

    async def erase(self, grant: Grant, asked: Any) -> Receipt:
        """Erase a unit, a session, a user or a bank for good; a large one goes on after this returns.

        Asked for again, it goes on where it is, or finds nothing left. Raises Invalid, NotFound, PermissionDenied.
        """
        writes(grant)
        body = read(ErasureBody, asked)
        if body.kind == "user":
            target = user_target(grant, body)
        else:
            target = target_in(grant, body, await self._reach(grant, body.bank))
        erasure = await self._parts.erasures.request(grant.host_id, target)
        return await self._parts.erasures.run(grant.host_id, erasure, ERASE_FOR)

    async def erasure(self, grant: Grant, erasure: UUID) -> Receipt:
        """Return the receipt of an erasure, done or not. Raises NotFound."""
        receipt = await self._parts.erasures.receipt(grant.host_id, erasure, *scope_of(grant))
        if not shows(grant, receipt):
            raise NotFound("no such erasure")
        return receipt

    async def create_bank(self, grant: Grant, asked: Any) -> tuple[Bank, bool]:
        """Make a bank before its first turn; returns it and whether it is new.

        Raises Invalid, PermissionDenied, QuotaExceeded.
        """
        writes(grant)
        body = read(BankBody, asked)
        space = space_for(grant, body)
        if not grant.allows(body.bank.removeprefix(space.prefix)) and not grant.allows(body.bank):
            raise PermissionDenied("this key does not reach this bank")
        return await self._parts.banks.create(grant.host_id, space.user, fitting(space.name(body.bank)))

    async def change_bank(self, grant: Grant, bank: str, asked: Any) -> Bank:
        """Change a bank's language; its words follow. Raises Invalid, NotFound, PermissionDenied, TurnBusy."""
        writes(grant)
        body = read(BankChange, asked)
        return await self._parts.banks.speak(grant.host_id, await self._reach(grant, bank), body.language, grant.user)

    async def list_banks(self, grant: Grant, asked: BanksParameters) -> list[Bank]:
        """List the banks a key reaches, by name."""
        return await self._parts.banks.list(
            grant.host_id, grant.space, names=listed(grant), after=asked.after, limit=asked.limit
        )

    async def profile(self, grant: Grant, asked: ProfileParameters) -> Person:
        """Tell what is known of a person, and from where. Raises Invalid, PermissionDenied."""
        return await profile(self._parts.persons, self._parts.banks, grant, asked)

    async def _job(self, grant: Grant, job: UUID) -> RecallJob:
        """Return a job the grant may see; another bank's does not exist."""
        found = await self._parts.jobs.read(grant.host_id, job)
        if not all([await holds(self._parts.banks, grant, bank) for bank in found.banks]):
            raise NotFound("no such recall job")
        return found

    async def _take_in(self, grant: Grant, values: Sequence[Any]) -> list[Accepted]:
        with _timed(len(values)):
            writes(grant)
            known: set[tuple[str, UUID]] = set()
            judged = [await self._judge(grant, value, known) for value in values]
            answers = iter(await self._append(grant, [one for one in judged if isinstance(one, NewTurn)]))
            return _counted([next(answers) if isinstance(one, NewTurn) else one for one in judged])

    async def _judge(
        self, grant: Grant, value: Any, known: set[tuple[str, UUID]]
    ) -> NewTurn | ProducerError | NotFound:
        """Return the turn or why it is none; `known` are documents that were looked up already."""
        try:
            turn = read_turn(value, self._settings, gateway=self._gateway)
            turn = written_by(grant, turn, await self._reach(grant, turn.bank))
            if turn.doc_id is not None and (turn.bank, turn.doc_id) not in known:
                await self._parts.documents.get(grant.host_id, turn.bank, turn.doc_id)
                known.add((turn.bank, turn.doc_id))
        except (ProducerError, NotFound) as refusal:
            return refusal
        return turn

    async def _reach(self, grant: Grant, bank: str) -> str:
        """Return the whole name of the bank that is meant. Raises PermissionDenied."""
        return await reach(self._parts.banks, grant, bank)

    async def _insist(self, grant: Grant, turns: list[NewTurn]) -> list[Accepted]:
        """Append turns; what another request is just writing is offered again until that has ended."""
        answers = await self._append(grant, turns)
        for _ in range(BUSY_LOOKS):
            busy = [n for n, answer in enumerate(answers) if isinstance(answer, TurnBusy)]
            if not busy:
                break
            await asyncio.sleep(LOOK_AGAIN_S)
            again = await self._append(grant, [turns[n] for n in busy])
            for n, answer in zip(busy, again, strict=True):
                answers[n] = answer
        return answers

    async def _append(self, grant: Grant, turns: list[NewTurn]) -> list[Accepted]:
        """Append judged turns, then ring for the stages that have something to do now."""
        if not turns:
            return []
        answers = await self._parts.turns.append(grant.host_id, turns)
        new = [t for t, a in zip(turns, answers, strict=True) if isinstance(a, Appended) and not a.duplicate]
        if new:
            metrics.FACT_WRITES.labels("experience").inc(sum(len(turn.messages) for turn in new))
            self._parts.doorbell.ring(Stage.EXTRACTION)
            if not self._embeds(grant.host_id, new):
                self._parts.doorbell.ring(Stage.EMBEDDING)
        if any(turn.gateway for turn in new):
            self._parts.doorbell.ring(Stage.GATEWAY)
        return [answer.error if isinstance(answer, Refused) else answer for answer in answers]

    def _embeds(self, host: UUID, turns: list[NewTurn]) -> bool:
        characters = sum(len(message.content) for turn in turns for message in turn.messages)
        offered = self._parts.embed
        return offered is not None and offered(host, [_identity(host, turn) for turn in turns], characters)


def _identity(host: UUID, turn: NewTurn) -> UUID:
    session = identity.session_id(identity.bank_id(host, turn.bank), turn.session_id)
    return identity.turn_id(session, turn.turn_id)


@contextmanager
def _timed(turns: int) -> Iterator[None]:
    """Time one call; when it ends without an answer, none of its turns went well."""
    start = time.perf_counter()
    try:
        yield
    except Exception:
        metrics.AFTER_TURN.labels("error").inc(turns)
        raise
    finally:
        metrics.AFTER_TURN_MS.observe((time.perf_counter() - start) * 1000)


def _counted(answers: list[Accepted]) -> list[Accepted]:
    for answer in answers:
        metrics.AFTER_TURN.labels(_status(answer)).inc()
        if isinstance(answer, TurnConflict):
            metrics.CONFLICTS.inc()
    return answers


def _status(answer: Accepted) -> str:
    match answer:
        case Appended(duplicate=duplicate):
            return "duplicate" if duplicate else "ok"
        case TurnConflict():
            return "conflict"
        case TurnBusy():
            return "busy"
    return "error"


@contextmanager
def _asked() -> Iterator[None]:
    try:
        yield
    except Exception:
        metrics.BEFORE_TURN.labels("error").inc()
        raise
    metrics.BEFORE_TURN.labels("ok").inc()
