"""The victim: a tenant that keeps making 8 turns and 8 recalls a second, from a process of its own.

Calls start when they are due, even if earlier ones have not ended or have failed, so that a stall of the service
delays all calls that are due meanwhile. Run as `python -m deploy.lab.bench.attacks.victim URL` with the key on
standard input; the first line of output is its start (`time.monotonic`), then each ended call is a line of JSON.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx

from deploy.lab.bench.talk import make_sentence
from deploy.lab.bench.timing import compute_p95_ms

RATE = 8
#: Time-out of a call, in seconds.
PATIENCE_S = 30.0
#: Turns per bank (12 s): in a single bank that grows during the run, later recalls would take longer by themselves.
TURNS_A_BANK = 96
POLL_INTERVAL_S = 0.05


class VictimGone(Exception):
    """The victim's process has ended, so nothing can be measured."""


@dataclass(frozen=True, slots=True)
class VictimCall:
    """A call of the victim: when it was due (`time.monotonic`), how long it took, and whether it succeeded."""

    kind: str
    due: float
    seconds: float
    well: bool


@dataclass(slots=True)
class Victim:
    """The victim's process, and its calls so far."""

    began: float
    felt: list[VictimCall] = field(default_factory=list)
    ended: bool = False

    async def during(self, begin: float, end: float) -> list[VictimCall]:
        """Wait for the end of all calls that were due in this period, and return them. Raises VictimGone."""
        due = 2 * (int((end - self.began) * RATE) - int((begin - self.began) * RATE))
        until = time.monotonic() + PATIENCE_S + 5.0
        while len(found := [one for one in self.felt if begin <= one.due < end]) < due - 2:
            if self.ended or time.monotonic() > until:
                raise VictimGone("the victim's process does not tell how its calls ended")
            await asyncio.sleep(POLL_INTERVAL_S)
        return found


def compute_call_p95_ms(felt: Sequence[VictimCall], kind: str) -> float:
    """Return the 95th percentile of the calls of a kind, in milliseconds."""
    return compute_p95_ms([one.seconds for one in felt if one.kind == kind])


@asynccontextmanager
async def run_victim(api: str, key: str) -> AsyncGenerator[Victim]:
    """Run a victim's process while the block runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        __name__,
        api,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdin is None or process.stdout is None:
        raise VictimGone("the victim's process has no pipes")
    process.stdin.write(f"{key}\n".encode())
    first = await process.stdout.readline()
    if not first:
        raise VictimGone("the victim's process did not start")
    told = Victim(float(first))
    listening = asyncio.create_task(_collect_calls(process.stdout, told))
    try:
        yield told
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await listening


async def _collect_calls(lines: asyncio.StreamReader, told: Victim) -> None:
    async for line in lines:
        told.felt.append(VictimCall(**json.loads(line)))
    told.ended = True


async def send_steadily(api: str, key: str) -> None:
    """Make calls at the fixed rate until the process is ended."""
    chance = random.Random("victim")  # noqa: S311 - a seed, not a secret
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    headers = {"authorization": f"Bearer {key}"}
    calls: set[asyncio.Task[None]] = set()
    async with httpx.AsyncClient(
        base_url=api, headers=headers, trust_env=False, timeout=PATIENCE_S, limits=limits
    ) as client:
        began = time.monotonic()
        print(began, flush=True)
        for number in count():
            due = began + number / RATE / 2
            await asyncio.sleep(due - time.monotonic())
            kind, path, body = _make_recall_call(chance, number) if number % 2 else _make_turn_call(chance, number)
            task = asyncio.create_task(_time_call(client, kind, due, path, body))
            calls.add(task)
            task.add_done_callback(calls.discard)


def _make_turn_call(chance: random.Random, number: int) -> tuple[str, str, dict[str, Any]]:
    messages = [{"role": role, "content": make_sentence(chance)} for role in ("user", "assistant")]
    named = {"bank": _name_bank(number), "session_id": f"s{number // 2 % 8}", "turn_id": f"t{number}"}
    return "turn", "/api/v1/turns", {**named, "messages": messages}


def _make_recall_call(chance: random.Random, number: int) -> tuple[str, str, dict[str, Any]]:
    return "recall", "/api/v1/recall", {"bank": _name_bank(number), "query": make_sentence(chance)}


def _name_bank(number: int) -> str:
    return f"victim-{number // 2 // TURNS_A_BANK}"


async def _time_call(client: httpx.AsyncClient, kind: str, due: float, path: str, body: dict[str, Any]) -> None:
    try:
        well = (await client.post(path, json=body)).is_success
    except httpx.HTTPError:
        well = False
    told = {"kind": kind, "due": due, "seconds": time.monotonic() - due, "well": well}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(send_steadily(sys.argv[1], sys.stdin.readline().strip()))
