"""Carries out the attempts and pauses of a call, as `retry.plan_attempts` yields them."""

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

import httpx

from afterturn_client.retry import Pause
from afterturn_client.transport import Lost, Reply, Request, exchange_blocking, exchange_once

T = TypeVar("T")

Attempts = Generator[Request | Pause, Reply | Lost | None, T]


async def make_attempts(client: httpx.AsyncClient, attempts: Attempts[T], *, traced: bool) -> T:
    """Send and pause until the call has its answer, and return what it reads from it. Raises the call's errors.

    `traced` as for `exchange_once`.
    """
    outcome: Reply | Lost | None = None
    try:
        while True:
            step = attempts.send(outcome)
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                outcome = None
            else:
                outcome = await exchange_once(client, step, traced=traced)
    except StopIteration as done:
        result: T = done.value
    return result


def make_attempts_blocking(client: httpx.Client, attempts: Attempts[T]) -> T:
    """Do the same without an event loop."""
    outcome: Reply | Lost | None = None
    try:
        while True:
            step = attempts.send(outcome)
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                outcome = None
            else:
                outcome = exchange_blocking(client, step)
    except StopIteration as done:
        result: T = done.value
    return result
