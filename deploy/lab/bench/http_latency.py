"""Measures latencies over HTTP: of acknowledgements, idle and under load, and of recall jobs beside direct recalls."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import httpx

from deploy.lab.bench.talk import BANK, TurnGenerator, make_sentence
from deploy.lab.bench.timing import compute_p95_ms
from deploy.local.stack import Stack
from store.memory.turns import NewTurn

#: Pauses between two turns, in seconds, on an idle and on a busy stack.
QUIET_PAUSE_S = 0.1
BUSY_PAUSE_S = 0.03
#: Pause between two questions, and the time-out of an answer, in seconds.
QUESTION_PAUSE_S = 0.05
PATIENCE_S = 30.0
#: Number of questions to warm up connections and statements.
WARM_UP = 5

_names = count(1)


class TurnEndpoint:
    """A client of a stack's HTTP API that sends turns."""

    def __init__(self, stack: Stack) -> None:
        self._api = stack.api
        self._headers = {"authorization": f"Bearer {stack.api_key()}"}

    async def p95_ms(self, turns: int, pause_s: float) -> float:
        """Send turns one after the other; return the 95th percentile of the time to the answer, in milliseconds."""
        talk, took = TurnGenerator(f"endpoint-{next(_names)}"), []
        async with httpx.AsyncClient(base_url=self._api, headers=self._headers, trust_env=False) as client:
            await self._hand_in(client, next(talk))
            for turn in talk.take(turns):
                await asyncio.sleep(pause_s)
                took.append(await self._hand_in(client, turn))
        return compute_p95_ms(took)

    @staticmethod
    async def _hand_in(client: httpx.AsyncClient, turn: NewTurn) -> float:
        messages = [{"role": message.role, "content": message.content} for message in turn.messages]
        body = {"bank": turn.bank, "session_id": turn.session_name, "turn_id": turn.turn_name, "messages": messages}
        started = time.perf_counter()
        (await client.post("/api/v1/turns", json=body)).raise_for_status()
        return time.perf_counter() - started


class RecallJobFailed(Exception):
    """A recall job was not completed, so the figures would be meaningless."""


class Questions:
    """Asks a stack the same questions in two ways: directly, and as a job that a worker answers."""

    def __init__(self, stack: Stack) -> None:
        self._api = stack.api
        self._headers = {"authorization": f"Bearer {stack.api_key()}"}

    async def p95_ms(self, questions: int) -> tuple[float, float]:
        """Ask the questions one after the other; return the 95th percentiles (direct, as a job) in milliseconds."""
        chance = random.Random("questions")  # noqa: S311 - a seed, not a secret
        at_once, as_job = [], []
        async with httpx.AsyncClient(base_url=self._api, headers=self._headers, trust_env=False) as client:
            for _ in range(questions + WARM_UP):
                body = {"bank": BANK, "query": make_sentence(chance)}
                at_once.append(await _time_question(_ask_at_once, client, body))
                as_job.append(await _time_question(_ask_by_job, client, body))
        return compute_p95_ms(at_once[WARM_UP:]), compute_p95_ms(as_job[WARM_UP:])


async def _time_question(ask: Callable[..., Awaitable[None]], client: httpx.AsyncClient, body: dict[str, Any]) -> float:
    await asyncio.sleep(QUESTION_PAUSE_S)
    started = time.perf_counter()
    await ask(client, body)
    return time.perf_counter() - started


async def _ask_at_once(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    (await client.post("/api/v1/recall", json=body, timeout=PATIENCE_S)).raise_for_status()


async def _ask_by_job(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    job = (await client.post("/api/v1/recall/jobs", json=body, timeout=PATIENCE_S)).raise_for_status().json()["job_id"]
    answer = await client.get(f"/api/v1/recall/jobs/{job}", params={"wait_ms": 10_000}, timeout=PATIENCE_S)
    if (status := answer.raise_for_status().json()["status"]) != "done":
        raise RecallJobFailed(f"a recall job is {status}")
