"""`afterturn soak`: puts steady load on every interface, then checks that resources return to their baseline."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from afterturn_client import AfterturnError, Message
from afterturn_client.publisher import AsyncTurnPublisher, QueueOptions

from deploy.lab.bench.talk import TurnGenerator
from deploy.lab.bench.usage import StackUsage, read_usage
from deploy.local.private_stack import run_private_stack
from deploy.local.stack import Stack
from deploy.notices import Say
from store.concurrent_calls import run_meanwhile

MIB = 1024 * 1024
#: Warm-up of models, pools and caches before the baseline: share of the whole time, and its longest duration.
WARM_UP_SHARE, WARM_UP_S = 0.2, 120.0
#: How long the work of the warm-up may take on a busy machine, in seconds.
SETTLE_S = 600.0
#: How long resources may take to return after the load, in seconds.
RETURN_S = 90.0
LOOK_S = 5.0
#: Allowed growth above the baseline, because allocators and pools keep some of what they had.
MEMORY_SHARE, MEMORY_BYTES = 0.15, 48 * MIB
FILES, CONNECTIONS = 16, 8
NAMESPACE = "custom:soak"
QUEUE = "soak"
ENVIRONMENT = {"AFTERTURN_QUEUE__TENANTS": json.dumps({QUEUE: "default"})}
PATIENCE_S = 60.0


@dataclass(slots=True)
class Calls:
    """Counts of successful and failed calls by interface, and of the reasons of failures."""

    well: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def count(self, name: str, reason: str | None) -> None:
        """Count a call; `reason` says why it failed, None: it succeeded."""
        if reason is None:
            self.well[name] += 1
        else:
            self.failed[name] += 1
            self.reasons[f"{name}: {reason}"] += 1


@dataclass(frozen=True, slots=True)
class Soaked:
    """The result of a soak: calls, and samples before, during and after the load."""

    minutes: float
    calls: Calls
    baseline: StackUsage
    loaded: Sequence[StackUsage]
    after: StackUsage

    @property
    def failures(self) -> list[str]:
        """The failures, as texts: resources that did not return, and failed calls."""
        found = [f"{name}: {many} calls failed" for name, many in sorted(self.calls.failed.items())]
        return found + describe_growth(self.baseline, self.after)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "minutes": self.minutes,
            "calls": dict(sorted(self.calls.well.items())),
            "failed": dict(sorted(self.calls.failed.items())),
            "baseline": _serialise_usage(self.baseline),
            "peak": {
                "memory_mb": max(_serialise_usage(one)["memory_mb"] for one in self.loaded),
                "connections": max(one.connections for one in self.loaded),
                "files": max(one.files for one in self.loaded),
                "undone": max(one.undone for one in self.loaded),
            },
            "after": _serialise_usage(self.after),
            "failures": self.failures,
        }


def describe_growth(baseline: StackUsage, after: StackUsage) -> list[str]:
    """Return a text for each resource that exceeds the baseline by more than the allowed growth."""
    found = list[str]()
    allowed = baseline.memory_bytes * (1 + MEMORY_SHARE) + MEMORY_BYTES
    if after.memory_bytes > allowed:
        found.append(f"memory: {after.memory_bytes / MIB:.0f} MiB, {baseline.memory_bytes / MIB:.0f} before")
    if after.files > baseline.files + FILES:
        found.append(f"open files: {after.files}, {baseline.files} before")
    if after.connections > baseline.connections + CONNECTIONS:
        found.append(f"connections: {after.connections}, {baseline.connections} before")
    if after.undone:
        found.append(f"ledger: {after.undone} rows undone or messages not accepted")
    return found


def run_soak(minutes: float, per_second: float, say: Say) -> Soaked:
    """Put a private stack under load for some minutes, and return the samples before, during and after it."""
    with run_private_stack(1, name="soak", gateway="self", environment=ENVIRONMENT) as stack:
        return asyncio.run(_run_soak(stack, minutes, per_second, say))


async def _run_soak(stack: Stack, minutes: float, per_second: float, say: Say) -> Soaked:
    headers = {"authorization": f"Bearer {stack.api_key()}", "accept": "application/json"}
    # WHY not durable: a file system that syncs slowly would set the pace of every round.
    options = QueueOptions(durable=False, timeout_s=PATIENCE_S)
    async with (
        httpx.AsyncClient(base_url=stack.api, headers=headers, timeout=PATIENCE_S, trust_env=False) as http,
        AsyncTurnPublisher(stack.redis_url.get_secret_value(), QUEUE, options) as queue,
    ):
        load = Load(http, Calls(), queue)
        warm_up = min(WARM_UP_S, 60 * minutes * WARM_UP_SHARE)
        say(f"warming up for {warm_up:.0f} s")
        await load.run(warm_up, per_second)
        baseline = await _wait_settled(stack, queue, None)
        say(f"baseline: {_serialise_usage(baseline)}; load for {60 * minutes - warm_up:.0f} s")
        loaded = [baseline]
        async with run_meanwhile(_watch_stack(stack, queue, loaded), "watch the stack"):
            await load.run(60 * minutes - warm_up, per_second)
        after = await _wait_settled(stack, queue, baseline)
    return Soaked(minutes, load.calls, baseline, loaded, after)


async def _watch_stack(stack: Stack, queue: AsyncTurnPublisher, seen: list[StackUsage]) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        seen.append(await _measure_stack(stack, queue))


async def _measure_stack(stack: Stack, queue: AsyncTurnPublisher) -> StackUsage:
    """Return a sample of the stack, in which waiting messages of the turn queue count as undone."""
    seen = await read_usage(stack)
    return replace(seen, undone=seen.undone + await queue.length())


async def _wait_settled(stack: Stack, queue: AsyncTurnPublisher, baseline: StackUsage | None) -> StackUsage:
    """Wait until nothing is undone, or with a baseline until nothing exceeds it, or a time-out; return the sample."""
    deadline = time.monotonic() + (SETTLE_S if baseline is None else RETURN_S)
    while True:
        seen = await _measure_stack(stack, queue)
        done = not seen.undone if baseline is None else not describe_growth(baseline, seen)
        if done or time.monotonic() > deadline:
            return seen
        await asyncio.sleep(LOOK_S)


class Load:
    """A steady load: rounds of calls, each over every interface; the turn queue only if one is given."""

    def __init__(self, http: httpx.AsyncClient, calls: Calls, queue: AsyncTurnPublisher | None = None) -> None:
        self.calls = calls
        self._http, self._queue = http, queue
        self._talk = TurnGenerator("soak")
        self._nth = 0

    async def run(self, seconds: float, per_second: float) -> None:
        """Make rounds at a rate for `seconds`; a late round delays the next, so that none pile up."""
        await self._call("namespace", "PUT", f"/v1/namespaces/{NAMESPACE}", {"kind": "custom"})
        began = time.monotonic()
        rounds = 0
        while time.monotonic() - began < seconds:
            await self._use_each_interface()
            rounds += 1
            await asyncio.sleep(max(0.0, began + rounds / per_second - time.monotonic()))

    async def _use_each_interface(self) -> None:
        """Send a turn, ask for it, and use every other interface once."""
        turn = next(self._talk)
        self._nth += 1
        said = [{"role": one.role, "content": one.content} for one in turn.messages]
        query = " ".join(turn.messages[0].content.split()[:6])
        place = {"session_id": f"items-{self._nth // 50}", "turn_id": str(self._nth)}
        item = {"type": "message", "role": "user", "content": query}
        tool = {"name": "memory_search", "arguments": {"query": query}}
        whole = {**place, "session_id": f"s-{self._nth // 50}", "messages": said}
        memory = {"content": query, "kind": "fact", "source": "agent"}
        calls: Sequence[tuple[str, str, str, dict[str, Any] | None]] = (
            ("turns", "POST", "/api/v1/turns", whole),
            ("recall", "POST", "/api/v1/recall", {"query": query}),
            ("turns/before", "POST", "/api/v1/turns/before", {**place, "current_input": [item]}),
            ("turns/after", "POST", "/api/v1/turns/after", {**place, "input_items": [item]}),
            ("memories", "POST", "/api/v1/memories", {"id": f"note-{self._nth % 100}", "content": query}),
            ("mcp", "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}),
            ("plugin", "POST", f"/v1/namespaces/{NAMESPACE}/memories", memory),
            ("plugin search", "POST", "/v1/search", {"namespaces": [NAMESPACE], "query": query}),
            ("lists", "GET", "/api/v1/sessions", None),
            ("health", "GET", "/health/ready", None),
            ("metrics", "GET", "/metrics", None),
        )
        published = [Message(one.role, one.content) for one in turn.messages]
        queues = [self._publish(self._queue, published)] if self._queue else []
        await asyncio.gather(*queues, *(self._call(*one) for one in calls))

    async def _publish(self, queue: AsyncTurnPublisher, messages: Sequence[Message]) -> None:
        try:
            await queue.add_turn(f"queued-{self._nth // 50}", messages, turn_id=str(self._nth))
        except AfterturnError:
            self.calls.failed["queue"] += 1
        else:
            self.calls.well["queue"] += 1

    async def _call(self, name: str, method: str, path: str, body: dict[str, Any] | None) -> None:
        try:
            answer = await self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            self.calls.count(name, type(error).__name__)
        else:
            well = answer.is_success and b'"isError":true' not in answer.content
            self.calls.count(name, None if well else f"status {answer.status_code}")


def _serialise_usage(seen: StackUsage) -> dict[str, Any]:
    return {
        "memory_mb": round(seen.memory_bytes / MIB, 1),
        "memory_mb_by_part": {name: round(one.memory_bytes / MIB, 1) for name, one in seen.parts.items()},
        "files": seen.files,
        "connections": seen.connections,
        "undone": seen.undone,
    }
