"""Answers recalls at once or through a worker, with their freshness."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from producers import fair_queue, metrics
from producers.errors import FieldProblem, Invalid
from producers.service.banks import listable_names, reaches_bank, resolve_speaker
from producers.service.dependencies import ServiceDependencies
from producers.service.gateway_calls import SearchBody, answer_of, question_of
from producers.service.load_shedding import Shed
from producers.service.recalls import AwaitedFreshness, RecallBody, RecallJobBody, RecallResult
from producers.service.turns import parse_body
from producers.settings import ApiSettings
from store.errors import NotFound
from store.ledger.freshness import look_after
from store.recall.jobs import RecallJob
from store.tenancy.keys import Grant


@dataclass(frozen=True, slots=True)
class JobTicket:
    """The id of a recall job, and its expiry."""

    job_id: UUID
    expires_at: datetime


class RecallService:
    """Answers recalls, with their freshness."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        """Keep the collaborators; as many recall jobs may wait as the settings say."""
        self._dependencies = dependencies
        self._settings = settings

    async def recall(self, grant: Grant, asked: Any) -> RecallResult:
        """Answer a question from one bank. Raises Invalid, PermissionDenied, PositionBeyondLog."""
        with count_question():
            body = parse_body(RecallBody, asked)
            if body.across_banks:
                return await self._recall_across_banks(grant, body)
            bank = await self._dependencies.reach(grant, body.bank)
            target = await self._dependencies.recalls.choose_target(grant, body, bank)
            return await self._dependencies.recalls.answer(
                grant.host_id, body.model_copy(update={"bank": bank}), target
            )

    async def _recall_across_banks(self, grant: Grant, body: RecallBody) -> RecallResult:
        """Answer from the banks a user wrote to last, of those the key reaches."""
        whose = await self._resolve_banks(grant, body)
        whole = body.model_copy(update={"user_id": whose["user_id"]})
        return await self._dependencies.recalls.answer_across_banks(grant.host_id, whole, whose["banks"])

    async def _resolve_banks(self, grant: Grant, body: RecallBody) -> dict[str, Any]:
        """Return the user who is asked about, and the banks they wrote to last, of those the key reaches."""
        user = resolve_speaker(grant, body.user_id)
        if user is None:
            raise Invalid(FieldProblem("across_banks", "say whose banks: user_id"))
        banks = await self._dependencies.banks.of_user(grant.host_id, grant.space, user, names=listable_names(grant))
        return {"user_id": user, "banks": banks}

    async def _resolve_bank(self, grant: Grant, body: RecallBody) -> dict[str, Any]:
        """Return the bank that is asked, and through which gateway target, if through one."""
        bank = await self._dependencies.reach(grant, body.bank)
        target = await self._dependencies.recalls.choose_target(grant, body, bank)
        return {"bank": bank} | ({} if target is None else {"target": str(target)})

    async def request_recall(self, grant: Grant, asked: Any, job: UUID | None = None) -> JobTicket:
        """Have a worker answer a question; `recall_job` has the answer until it expires.

        With a `job` that is there already, nothing is asked again.

        Raises as `recall`, Overloaded, QuotaExceeded, and RateLimited where too many of the tenant's wait already.
        """
        self._dependencies.admit(grant, Shed.RECALL_JOBS)
        with count_question():
            body = parse_body(RecallJobBody, asked)
            whose = await (self._resolve_banks(grant, body) if body.across_banks else self._resolve_bank(grant, body))
            request = {name: value for name, value in asked.items() if name != "ttl_s"} | whose
            ttl, waiting = timedelta(seconds=body.ttl_s), self._settings.max_recall_jobs
            ticket = await self._dependencies.jobs.open(grant.host_id, request, ttl, most_waiting=waiting, job=job)
        self._dependencies.notifier.notify_job(grant.host_id, ticket[0])
        return JobTicket(*ticket)

    async def recall_job(self, grant: Grant, job: UUID, wait_ms: int = 0) -> RecallJob:
        """Say how a recall job stands, waiting for its end at most `wait_ms`. Raises NotFound."""
        begun = time.monotonic()
        while True:
            found = await self._read_job(grant, job)
            waited = time.monotonic() - begun
            if found.status != "pending" or waited >= wait_ms / 1000:
                return found
            await fair_queue.sleep_without_slot(look_after(waited))

    async def cancel_recall(self, grant: Grant, job: UUID) -> None:
        """Remove a recall job and its answer. Raises NotFound."""
        await self._read_job(grant, job)
        await self._dependencies.jobs.cancel(grant.host_id, job)

    async def search_messages(self, grant: Grant, asked: Any) -> dict[str, Any]:
        """Answer a gateway's client; without results they are an empty list. Raises Invalid, PermissionDenied."""
        with count_question():
            body = parse_body(SearchBody, asked)
            await self._dependencies.reach(grant, body.bank)
            question = question_of(body)
            found = await self._dependencies.recalls.find(grant.host_id, question) if question else None
        return answer_of(body, found.items if found else ())

    async def freshness(
        self, grant: Grant, bank: str, position: int | None = None, wait_ms: int = 0
    ) -> AwaitedFreshness:
        """Say how far the stages of a bank have come; with a position, wait until all passed it or time is up.

        Raises PermissionDenied, PositionBeyondLog.
        """
        bank = await self._dependencies.reach(grant, bank)
        return await self._dependencies.recalls.freshness(grant.host_id, bank, position, wait_ms)

    async def _read_job(self, grant: Grant, job: UUID) -> RecallJob:
        """Return a job the grant may see; another bank's does not exist."""
        found = await self._dependencies.jobs.read(grant.host_id, job)
        if not all([await reaches_bank(self._dependencies.banks, grant, bank) for bank in found.banks]):
            raise NotFound("no such recall job")
        return found


@contextmanager
def count_question() -> Iterator[None]:
    """Count a question by how it ends."""
    try:
        yield
    except Exception:
        metrics.RECALLS.labels("error").inc()
        raise
    metrics.RECALLS.labels("ok").inc()
