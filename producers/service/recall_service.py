"""Answers recalls at once or through a worker, with their freshness."""

import time
from datetime import timedelta
from typing import Any
from uuid import UUID

from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.recall import RecallJob

from producers import fair_queue, metrics
from producers.errors import FieldProblem, Invalid
from producers.service.banks import listable_names, reaches_bank, resolve_speaker
from producers.service.bodies import parse_body
from producers.service.dependencies import ServiceDependencies
from producers.service.gateway_calls import SearchBody, build_answer, build_query
from producers.service.load_shedding import Shed
from producers.service.recall_coordinator import RecallBody, RecallJobBody, RecallResult
from producers.settings import ApiSettings
from store.errors import NotFound
from store.ledger.freshness import compute_poll_delay
from store.recall.jobs import RecallJob as StoredJob
from store.tenancy.keys import Grant


class RecallService:
    """Answers recalls, with their freshness."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        """Keep the dependencies and settings, which limit how many recall jobs may wait."""
        self._dependencies = dependencies
        self._settings = settings

    async def recall(self, grant: Grant, asked: Any) -> RecallResult:
        """Return the answer to a question, from one bank or across banks.

        Raises Invalid, PermissionDenied, PositionBeyondLog.
        """
        with metrics.count_outcome(metrics.RECALLS):
            body = parse_body(RecallBody, asked)
            if body.across_banks:
                return await self._recall_across_banks(grant, body)
            bank = await self._dependencies.reach(grant, body.bank)
            target = await self._dependencies.recall_coordinator.choose_target(grant, body, bank)
            return await self._dependencies.recall_coordinator.answer(
                grant.host_id, body.model_copy(update={"bank": bank}), target
            )

    async def _recall_across_banks(self, grant: Grant, body: RecallBody) -> RecallResult:
        """Return the answer from the banks that a user wrote to last, among those the key reaches."""
        whose = await self._resolve_banks(grant, body)
        whole = body.model_copy(update={"user_id": whose["user_id"]})
        return await self._dependencies.recall_coordinator.answer_across_banks(grant.host_id, whole, whose["banks"])

    async def _resolve_banks(self, grant: Grant, body: RecallBody) -> dict[str, Any]:
        """Return the user of the question, and the banks they wrote to last, among those the key reaches."""
        user = resolve_speaker(grant, body.user_id)
        if user is None:
            raise Invalid(FieldProblem("across_banks", "say whose banks: user_id"))
        banks = await self._dependencies.banks.of_user(grant.host_id, grant.space, user, names=listable_names(grant))
        return {"user_id": user, "banks": [bank for bank in banks if grant.allows(bank)]}

    async def _resolve_bank(self, grant: Grant, body: RecallBody) -> dict[str, Any]:
        """Return the whole name of the question's bank, and the gateway target to search, if any."""
        bank = await self._dependencies.reach(grant, body.bank)
        target = await self._dependencies.recall_coordinator.choose_target(grant, body, bank)
        return {"bank": bank} | ({} if target is None else {"target": str(target)})

    async def request_recall(self, grant: Grant, asked: Any, job: UUID | None = None) -> RecallJob:
        """Open a recall job, which a worker answers; `recall_job` returns the answer until it expires.

        A `job` id that exists already opens no second job.

        Raises the errors of `recall`, Overloaded, QuotaExceeded, RateLimited where too many jobs of the tenant wait.
        """
        self._dependencies.admit(grant, Shed.RECALL_JOBS)
        with metrics.count_outcome(metrics.RECALLS):
            body = parse_body(RecallJobBody, asked)
            whose = await (self._resolve_banks(grant, body) if body.across_banks else self._resolve_bank(grant, body))
            request = {name: value for name, value in asked.items() if name != "ttl_s"} | whose
            ttl, waiting = timedelta(seconds=body.ttl_s), self._settings.max_recall_jobs
            opened, end = await self._dependencies.jobs.open(grant.host_id, request, ttl, most_waiting=waiting, job=job)
        self._dependencies.notifier.notify_job(grant.host_id, opened)
        return RecallJob(job_id=opened, expires_at=end)

    async def recall_job(self, grant: Grant, job: UUID, wait_ms: int = 0) -> StoredJob:
        """Return the state of a recall job, after waiting for its end at most `wait_ms`. Raises NotFound."""
        begun = time.monotonic()
        while True:
            found = await self._read_job(grant, job)
            waited = time.monotonic() - begun
            if found.status != "pending" or waited >= wait_ms / 1000:
                return found
            await fair_queue.sleep_without_slot(compute_poll_delay(waited))

    async def cancel_recall(self, grant: Grant, job: UUID) -> None:
        """Delete a recall job and its answer. Raises NotFound."""
        await self._read_job(grant, job)
        await self._dependencies.jobs.cancel(grant.host_id, job)

    async def search_messages(self, grant: Grant, asked: Any) -> dict[str, Any]:
        """Return the results for a gateway's client, perhaps an empty list. Raises Invalid, PermissionDenied."""
        with metrics.count_outcome(metrics.RECALLS):
            body = parse_body(SearchBody, asked)
            await self._dependencies.reach(grant, body.bank)
            question = build_query(body)
            found = (
                await self._dependencies.recall_coordinator.search_bank(grant.host_id, question) if question else None
            )
        return build_answer(body, found.items if found else ())

    async def freshness(self, grant: Grant, bank: str, position: int | None = None, wait_ms: int = 0) -> Freshness:
        """Return a bank's freshness; with a position, wait until all stages passed it or the time is up.

        Raises PermissionDenied, PositionBeyondLog.
        """
        bank = await self._dependencies.reach(grant, bank)
        return await self._dependencies.recall_coordinator.freshness(grant.host_id, bank, position, wait_ms)

    async def _read_job(self, grant: Grant, job: UUID) -> StoredJob:
        """Return a job that the grant may see; a foreign one does not exist."""
        found = await self._dependencies.jobs.read(grant.host_id, job)
        if not all([await reaches_bank(self._dependencies.banks, grant, bank) for bank in found.banks]):
            raise NotFound("no such recall job")
        return found
