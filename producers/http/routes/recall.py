"""Recall: answered at once or by a worker; freshness."""

from typing import Annotated, Any
from uuid import UUID

from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.recall import RecallJob, RecallJobReply, RecallReply
from fastapi import Response

from producers.http.authentication import HeavyCall, TenantCall
from producers.http.operation_router import OperationRouter
from producers.http.requests import (
    BankFreshnessParameters,
    FreshnessParameters,
    PathBank,
    WaitParameters,
    describe_id,
    json_response,
)
from producers.service.bodies import parse_body
from producers.service.recall_coordinator import RecallBody, RecallJobBody
from producers.service.recall_json import MOST_BYTES, answer_as_json
from producers.service.wire import Parameters
from store.errors import ErasedMeanwhile, NotFound, PositionBeyondLog, QuotaExceeded, RateLimited
from store.recall.jobs import RecallJob as StoredJob

JobId = Annotated[UUID, describe_id("the recall job")]

router = OperationRouter(prefix="/api/v1", tags=["recall"])


@router.operation(
    "POST /recall",
    "Recall from a bank",
    "Returns the best units first, equal scores by `unit_id`, and with a message that is ready for the "
    "prompt. With `min_position` it waits up to `wait_ms`, then says what it could not show: `met` is false.",
    "the results",
    body=RecallBody,
    shape=RecallReply,
    fails=(PositionBeyondLog,),
)
async def recall_units(call: HeavyCall, sent: Any) -> Response:
    answer = await call.memory.recalls.recall(call.grant, sent)
    return _raw_response(await answer_as_json(answer, MOST_BYTES))


@router.operation(
    "POST /recall/jobs",
    "Create a recall job",
    "A worker answers meanwhile; the answer is kept for `ttl_s` seconds.",
    "the job was created",
    status=202,
    body=RecallJobBody,
    fails=(ErasedMeanwhile, QuotaExceeded, RateLimited),
)
async def create_recall_job(call: TenantCall, sent: Any) -> RecallJob:
    return await call.memory.recalls.request_recall(call.grant, sent)


@router.operation(
    "GET /recall/jobs/{job_id}",
    "Get a recall job",
    "Waits up to `wait_ms` for the end of the job, then returns its status.",
    "the job",
    shape=RecallJobReply,
    fails=(NotFound,),
)
async def get_recall_job(call: TenantCall, asked: WaitParameters, job_id: JobId) -> Response:
    return _job_response(await call.memory.recalls.recall_job(call.grant, job_id, asked.wait_ms))


@router.operation(
    "DELETE /recall/jobs/{job_id}",
    "Delete a recall job",
    "Deletes the job and its answer.",
    "the job is deleted",
    fails=(NotFound,),
)
async def delete_recall_job(call: TenantCall, asked: Parameters, job_id: JobId) -> None:
    del asked
    await call.memory.recalls.cancel_recall(call.grant, job_id)


@router.operation(
    "GET /banks/{bank:name}/freshness",
    "Get a bank's freshness",
    "Without `position` it answers at once; with it, it waits up to `wait_ms` until every stage passed it.",
    "the bank's freshness",
    fails=(PositionBeyondLog,),
)
async def get_freshness(call: TenantCall, asked: FreshnessParameters, bank: PathBank) -> Freshness:
    return await _find_freshness(call, parse_body(BankFreshnessParameters, {"bank": bank, **asked.model_dump()}))


@router.operation(
    "GET /freshness",
    "Get a bank's freshness, its name as a parameter",
    "The same as with the name in the path, for names that a client or proxy would rewrite.",
    "the bank's freshness",
    fails=(PositionBeyondLog,),
)
async def get_freshness_by_query(call: TenantCall, asked: BankFreshnessParameters) -> Freshness:
    return await _find_freshness(call, asked)


async def _find_freshness(call: TenantCall, asked: BankFreshnessParameters) -> Freshness:
    return await call.memory.recalls.freshness(call.grant, asked.bank, asked.position, asked.wait_ms)


def _job_response(job: StoredJob) -> Response:
    """Return the answer for a job, with the worker's result unchanged."""
    if job.result is not None:
        return _raw_response(b'{"status":"done","result":' + job.result + b"}")
    error = {"error": {"category": job.error_category}} if job.status == "failed" else {}
    return json_response({"status": job.status, **error})


def _raw_response(body: bytes) -> Response:
    return Response(body, media_type="application/json")
