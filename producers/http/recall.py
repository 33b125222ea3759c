"""Questions: answered now, or by a worker; and how fresh an answer can be."""

from fastapi import APIRouter, Request, Response

from producers.fair_queue import RECALL
from producers.http.openapi import documented
from producers.http.reading import (
    BankFreshnessParameters,
    FreshnessParameters,
    Nothing,
    WaitParameters,
    body_of,
    grant_of,
    identifier,
    parameters,
    replied,
)
from producers.service.memory import Memory
from producers.service.recall_json import MOST_BYTES, answer_as_json, freshness_json
from producers.service.recalls import RecallBody, RecallJobBody
from producers.service.turns import read
from store.recall.jobs import RecallJob
from store.tenancy.keys import Grant, Keys


def routes(memory: Memory, keys: Keys) -> APIRouter:
    """Return the routes of recall."""
    router = APIRouter(prefix="/api/v1", tags=["recall"])

    @router.post("/recall", **documented("Recall from a bank", RecallBody))
    async def recall(request: Request) -> Response:
        grant = await grant_of(request, keys, RECALL)
        answer = await memory.asking.recall(grant, await body_of(request))
        return _raw(await answer_as_json(answer, MOST_BYTES))

    @router.post("/recall/jobs", **documented("Have a worker recall", RecallJobBody))
    async def request_recall(request: Request) -> Response:
        grant = await grant_of(request, keys)
        ticket = await memory.asking.request_recall(grant, await body_of(request))
        return replied({"job_id": ticket.job_id, "expires_at": ticket.expires_at}, 202)

    @router.get("/recall/jobs/{job_id}", **documented("What became of a recall job", query=WaitParameters))
    async def recall_job(request: Request, job_id: str) -> Response:
        grant = await grant_of(request, keys)
        wait_ms = parameters(request, WaitParameters).wait_ms
        return _job(await memory.asking.recall_job(grant, identifier(job_id), wait_ms))

    @router.delete("/recall/jobs/{job_id}", **documented("Drop a recall job"))
    async def cancel_recall(request: Request, job_id: str) -> Response:
        grant = await grant_of(request, keys)
        parameters(request, Nothing)
        await memory.asking.cancel_recall(grant, identifier(job_id))
        return Response(status_code=204)

    @router.get("/banks/{bank:name}/freshness", **documented("How fresh a bank is", query=FreshnessParameters))
    async def freshness(request: Request, bank: str) -> Response:
        grant = await grant_of(request, keys)
        asked = parameters(request, FreshnessParameters)
        return await _freshness(grant, read(BankFreshnessParameters, {"bank": bank, **asked.model_dump()}))

    @router.get("/freshness", **documented("How fresh a bank of any name is", query=BankFreshnessParameters))
    async def freshness_of(request: Request) -> Response:
        return await _freshness(await grant_of(request, keys), parameters(request, BankFreshnessParameters))

    async def _freshness(grant: Grant, asked: BankFreshnessParameters) -> Response:
        return replied(freshness_json(await memory.asking.freshness(grant, asked.bank, asked.position, asked.wait_ms)))

    return router


def _job(job: RecallJob) -> Response:
    """Return a job's answer; the result is passed on as the worker left it."""
    if job.result is not None:
        return _raw(b'{"status":"done","result":' + job.result + b"}")
    error = {"error": {"category": job.error_category}} if job.status == "failed" else {}
    return replied({"status": job.status, **error})


def _raw(body: bytes) -> Response:
    return Response(body, media_type="application/json")
