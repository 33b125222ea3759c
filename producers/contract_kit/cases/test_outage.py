"""The plugin's store goes away and comes back; needs the two store commands."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from producers.contract_kit.cases.clause import case
from producers.contract_kit.errors import KitError, NoAnswerError
from producers.contract_kit.findings import as_text
from producers.contract_kit.probe import CREATED, OK, UNAVAILABLE, Probe, memory_contents
from producers.contract_kit.store_switch import STORE_COMMANDS
from producers.contract_kit.wire import error_problem, health_problem

#: Seconds within which a plugin must have noticed that its store is back.
RECOVERY_S = 60.0
PAUSE_S = 0.1


@case("1.1 GET health", STORE_COMMANDS, mend="Ask the store on every call (2 s at most); do not answer from a cache.")
async def test_health_is_503(probe: Probe) -> None:
    """Without its store the plugin's health is 503: an Error, or a HealthResponse with status degraded."""
    async with _store_away(probe):
        answer = await probe.send("GET", "/v1/health")
    if probe.expect(answer, UNAVAILABLE):
        degraded = health_problem(answer.value) is None and answer.get("status") == "degraded"
        as_contract = degraded or error_problem(answer.value) is None
        probe.judge(answer, "an Error, or a HealthResponse with status degraded", holds=as_contract)


@case("1.1, 1.9.5", STORE_COMMANDS, mend="Answer 503 unavailable when the store cannot be asked; never stale data.")
async def test_requests_are_503(probe: Probe) -> None:
    """Without its store the plugin answers search, write, upsert and forget with 503 and an Error: nothing stale."""
    namespace = await probe.namespace()
    memory_id = await probe.remember(namespace)
    await probe.found(namespace)
    async with _store_away(probe):
        answers = [
            await probe.search(namespace),
            await probe.write(namespace, "lost"),
            await probe.put(namespace, kind="custom"),
            await probe.forget(memory_id, namespace),
        ]
    for answer in answers:
        if probe.expect(answer, UNAVAILABLE):
            problem = error_problem(answer.value)
            probe.judge(answer, "an Error body", holds=problem is None, saw=f"{problem}: {answer.saw}")


@case("1.1", STORE_COMMANDS, mend="Reconnect by yourself; keep what was acknowledged, and nothing that was refused.")
async def test_nothing_is_lost(probe: Probe) -> None:
    """When the store is back, so is every memory that was acknowledged; a write that was refused is not there."""
    namespace = await probe.namespace()
    await probe.remember(namespace, "kept")
    async with _store_away(probe):
        refused = await probe.write(namespace, "refused")
    expected = ["kept", "refused"] if refused.status == CREATED else ["kept"]
    seen = sorted(memory_contents(await probe.found(namespace)))
    probe.judge_last(as_text(expected), holds=seen == expected, saw=seen)


@asynccontextmanager
async def _store_away(probe: Probe) -> AsyncIterator[None]:
    """Run the block while the store is stopped; afterwards wait until the plugin has noticed its return."""
    try:
        async with probe.store_away():
            yield
    except KitError:
        await _wait_until_healthy(probe)
        raise
    await _wait_until_healthy(probe)


async def _wait_until_healthy(probe: Probe) -> None:
    """Wait until the plugin's health is 200 again; note a deviation when that does not come."""
    deadline = time.monotonic() + RECOVERY_S
    seen = ""
    while time.monotonic() < deadline:
        try:
            answer = await probe.send("GET", "/v1/health")
        except NoAnswerError as error:
            seen = str(error)
        else:
            if answer.status == OK:
                return
            seen = answer.saw
        await asyncio.sleep(PAUSE_S)
    probe.judge_last(f"health 200 within {RECOVERY_S:g} s of the store's return", holds=False, saw=seen)
