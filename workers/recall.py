"""Answers recall jobs in their rows."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import orjson
import structlog
from opentelemetry.trace import SpanKind
from pydantic import ValidationError

from producers.errors import ProducerError, Unavailable
from producers.service.recall_coordinator import RecallCoordinator, RecallJobRequest, RecallResult
from producers.service.recall_json import MOST_BYTES_OF_JOB, answer_as_json
from store.database_outage import may_pass
from store.errors import PositionBeyondLog
from store.recall.jobs import RecallJobs, TakenJob
from store.tracing import is_tracing, trace_operation
from workers.metrics import RECALL_JOBS

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class RecallWork:
    """Answers recall jobs. A job that cannot be answered now is released; one of a dead worker is free after its lease.

    The lease is renewed while the answer is computed, so it does not limit how long a recall may take.

    `ready` returns when the model is loaded: a job claimed earlier would use up its attempts waiting for it.
    """

    jobs: RecallJobs
    coordinator: RecallCoordinator
    lease: timedelta
    ready: Callable[[], Awaitable[None]]
    stopping: bool = False
    _answering: set["asyncio.Task[None]"] = field(default_factory=set)

    async def answer(self, host: UUID, job: UUID) -> None:
        """Answer one job if it still waits. Never raises, so that the queue never repeats a notification."""
        if self.stopping:
            return
        answering = asyncio.create_task(self._attempt(host, job), name="answer a recall job")
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)
        try:
            await answering
        except asyncio.CancelledError:
            if not self.stopping:
                raise

    async def stop(self, grace_s: float) -> None:
        """Claim no more jobs; give running answers `grace_s` seconds, then cancel them and release their jobs."""
        self.stopping = True
        if self._answering:
            _, late = await asyncio.wait(self._answering, timeout=grace_s)
            for task in late:
                task.cancel()
                await asyncio.wait({task}, timeout=grace_s)

    async def _attempt(self, host: UUID, job: UUID) -> None:
        try:
            await self.ready()
            taken = await self.jobs.take(host, job, self.lease)
            if taken is not None:
                RECALL_JOBS.labels(await self._traced(taken)).inc()
        except Exception as error:  # noqa: BLE001 - the sweeper notifies again after any error
            RECALL_JOBS.labels("interrupted").inc()
            log.warning("recall_job_interrupted", error=type(error).__name__)

    async def _traced(self, taken: TakenJob) -> str:
        """Answer a job within the trace of the request that made it; return its outcome."""
        if not is_tracing():
            return await self._ended(taken)
        named = {"afterturn.tenant.id": str(taken.host_id), "afterturn.recall_job.id": str(taken.job_id)}
        parent = await self.jobs.read_traceparent(taken)
        with trace_operation("process recall", named, kind=SpanKind.CONSUMER, parent=parent) as span:
            ended = await self._ended(taken)
            span.set_attributes({"afterturn.attempt": taken.attempt, "afterturn.outcome": ended})
            return ended

    async def _ended(self, taken: TakenJob) -> str:
        keeping = asyncio.create_task(self._keep(taken), name="keep a recall job")
        try:
            return await self._answer(taken)
        except BaseException:
            # Also when this process ends: otherwise the caller would wait for the lease to run out.
            await self._give_back(taken)
            raise
        finally:
            keeping.cancel()

    async def _keep(self, taken: TakenJob) -> None:
        """Renew the job's lease after every third of it, until it is lost."""
        held = True
        while held:
            await asyncio.sleep(self.lease.total_seconds() / 3)
            try:
                held = await self.jobs.renew(taken, self.lease)
            except Exception as error:  # noqa: BLE001 - an error of any kind: the lease expires by itself
                log.warning("recall_job_lease_renewal_failed", error=type(error).__name__)

    async def _answer(self, taken: TakenJob) -> str:
        try:
            body = RecallJobRequest.model_validate_json(orjson.dumps(taken.request))
            answer = await self._recalled(taken.host_id, body)
        except Exception as error:
            if may_pass(error):
                raise
            category = _error_category(error)
            log.warning("recall_job_failed", category=category, error=type(error).__name__)
            return "failed" if await self.jobs.fail(taken, category) else "lost"
        result = await answer_as_json(answer, MOST_BYTES_OF_JOB)
        return "done" if await self.jobs.finish(taken, result) else "lost"

    async def _recalled(self, host: UUID, body: RecallJobRequest) -> RecallResult:
        if body.banks is None:
            return await self.coordinator.answer(host, body, body.target)
        return await self.coordinator.answer_across_banks(host, body, body.banks)

    async def _give_back(self, taken: TakenJob) -> None:
        try:
            await self.jobs.give_back(taken)
        except Exception as error:  # noqa: BLE001 - an error of any kind: the lease expires by itself
            log.warning("recall_job_release_failed", error=type(error).__name__)


def _error_category(error: Exception) -> str:
    if isinstance(error, Unavailable):
        return "unavailable"
    return "invalid" if isinstance(error, ValidationError | ProducerError | PositionBeyondLog) else "internal"
