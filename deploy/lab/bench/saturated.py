"""Measures the latency of acknowledgements over HTTP, on an idle stack and while workers are busy."""

import asyncio
import time
from itertools import count

import httpx

from deploy.lab.bench.talk import TurnGenerator
from deploy.lab.bench.timing import compute_p95_ms
from deploy.local.stack import Stack
from store.memory.turns import NewTurn

#: Pauses between two turns, in seconds, on an idle and on a busy stack.
QUIET_PAUSE_S = 0.1
BUSY_PAUSE_S = 0.03
_names = count(1)


class TurnEndpoint:
    """A client of a stack's HTTP API that sends turns."""

    def __init__(self, stack: Stack) -> None:
        self._api = stack.api
        self._headers = {"authorization": f"Bearer {stack.api_key()}"}

    async def p95_ms(self, turns: int, pause_s: float) -> float:
        """Send turns one after the other; return the 95th percentile of the time to the answer, in milliseconds."""
        talk, took = TurnGenerator(f"door-{next(_names)}"), []
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
