"""`afterturn bench capacity`: measures figures for capacity planning: calls per core, bytes per turn, memory."""

import asyncio
import os
import platform
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from afterturn_client import AsyncAfterturn, Message
from sqlalchemy import NullPool

from deploy.lab.bench.footprint import SIZES
from deploy.lab.bench.servers import BenchStack, open_private_stack
from deploy.lab.bench.talk import TurnGenerator
from deploy.lab.bench.usage import StackUsage, read_usage
from deploy.local.stack import Stack
from deploy.notices import Say
from deploy.tables import ResultTable
from store.connections import create_owner_engine

MIB = 1024 * 1024
#: Pause between two checks whether the ledger is drained, in seconds.
PAUSE_S = 0.5
#: Tables with a smaller share of a turn's bytes are summed up.
SHARE = 0.01


@dataclass(frozen=True, slots=True)
class CapacitySizes:
    """The size of a run: warm-up turns, turns of two messages, recalls, and concurrent calls."""

    warm_up: int = 100
    turns: int = 600
    recalls: int = 300
    at_once: int = 4


FULL = CapacitySizes(warm_up=500, turns=5_000, recalls=2_000)


def servers(_data: Path | None = None) -> AbstractContextManager[BenchStack]:
    """Open a private stack with one worker."""
    return open_private_stack("capacity", 1)


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """Figures of one kind of call: number, duration, and processor seconds by part until all their work was done."""

    calls: int
    seconds: float
    cpu_s: Mapping[str, float]

    def per_core(self, part: str | None = None) -> float:
        """Return the calls per second that a core can serve if it runs only this part (None: all parts)."""
        spent = self.cpu_s.get(part, 0.0) if part else sum(self.cpu_s.values())
        return self.calls / spent if spent else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the figures as `--json` prints them."""
        return {
            "calls": self.calls,
            "per_s": round(self.calls / self.seconds, 1),
            "per_s_and_core": round(self.per_core(), 1),
            "per_s_and_core_of_api": round(self.per_core("api"), 1),
            "cpu_ms_a_call": {part: round(1000 * spent / self.calls, 2) for part, spent in self.cpu_s.items()},
        }


@dataclass(frozen=True, slots=True)
class Capacity:
    """The outcome of the benchmark, which has no targets."""

    turns: LoadPhase
    recalls: LoadPhase
    bytes_a_turn: Mapping[str, float]
    usage: StackUsage
    sizes: Mapping[str, int]
    met: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "machine": {"cores": len(os.sched_getaffinity(0)), "processor": platform.machine()},
            "turns": self.turns.as_json(),
            "recalls": self.recalls.as_json(),
            "bytes_a_turn": {name: round(size) for name, size in self.bytes_a_turn.items()},
            "memory_mb": {name: round(one.memory_bytes / MIB, 1) for name, one in self.usage.parts.items()},
            "connections": self.usage.connections,
            "sizes": dict(self.sizes),
        }

    def in_words(self) -> ResultTable:
        """Return the outcome as a table for a terminal."""
        table = ResultTable("what", "figure", numbers=["figure"])
        for name, phase in (("turns", self.turns), ("recalls", self.recalls)):
            table.add_values(f"{name} a second and core, all parts", f"{phase.per_core():.0f}")
            table.add_values(f"{name} a second and core of the API", f"{phase.per_core('api'):.0f}")
        for name, size in self.bytes_a_turn.items():
            table.add_values(f"bytes a turn: {name}", f"{size:.0f}")
        for name, one in self.usage.parts.items():
            table.add_values(f"memory: {name}", f"{one.memory_bytes / MIB:.0f} MiB")
        table.add_values("connections to PostgreSQL", str(self.usage.connections))
        return table


async def run(on: BenchStack, say: Say, sizes: CapacitySizes) -> Capacity:
    """Send turns and recalls, and return what they cost."""
    async with AsyncAfterturn(on.stack.api, on.stack.api_key(), bank="capacity") as memory:
        await _send_turns(memory, "warm-up", sizes.warm_up, sizes.at_once)
        await _wait_until_done(on.stack)
        before = await _read_sizes(on.stack)
        say(f"{sizes.turns} turns, {sizes.at_once} at a time")
        turns = await _measure_phase(
            on.stack, sizes.turns, lambda: _send_turns(memory, "run", sizes.turns, sizes.at_once)
        )
        after = await _read_sizes(on.stack)
        say(f"{sizes.recalls} recalls, {sizes.at_once} at a time")
        recalls = await _measure_phase(
            on.stack, sizes.recalls, lambda: _ask_questions(memory, sizes.recalls, sizes.at_once)
        )
    grown = {name: (after[name] - before.get(name, 0)) / sizes.turns for name in after}
    return Capacity(turns, recalls, _group_small(grown), await read_usage(on.stack), asdict(sizes))


async def _measure_phase(stack: Stack, calls: int, work: Callable[[], Awaitable[None]]) -> LoadPhase:
    """Make the calls, wait until their work is done, and return what each part of the stack spent."""
    before = await read_usage(stack)
    began = time.monotonic()
    await work()
    seconds = time.monotonic() - began
    await _wait_until_done(stack)
    after = await read_usage(stack)
    spent = {name: after.parts[name].cpu_s - one.cpu_s for name, one in before.parts.items()}
    return LoadPhase(calls, seconds, spent)


async def _send_turns(memory: AsyncAfterturn, session: str, count: int, at_once: int) -> None:
    talks = [TurnGenerator(f"{session}-{nth}") for nth in range(at_once)]

    async def send(nth: int) -> None:
        for turn in talks[nth].take(count // at_once):
            said = [Message(one.role, one.content) for one in turn.messages]
            await memory.add_turn(turn.session_name, said, turn_id=turn.turn_name)

    await asyncio.gather(*(send(nth) for nth in range(at_once)))


async def _ask_questions(memory: AsyncAfterturn, count: int, at_once: int) -> None:
    async def ask(nth: int) -> None:
        for turn in TurnGenerator(f"run-{nth}").take(count // at_once):
            await memory.recall(" ".join(turn.messages[0].content.split()[:8]))

    await asyncio.gather(*(ask(nth) for nth in range(at_once)))


async def _wait_until_done(stack: Stack) -> None:
    while (await read_usage(stack)).undone:  # noqa: ASYNC110 - another process sets no event
        await asyncio.sleep(PAUSE_S)


async def _read_sizes(stack: Stack) -> dict[str, int]:
    async with create_owner_engine(stack.owner_url.get_secret_value(), poolclass=NullPool).connect() as connection:
        return {row.name: row.bytes for row in await connection.execute(SIZES)}


def _group_small(grown: Mapping[str, float]) -> dict[str, float]:
    """Return the bytes by table, largest first, with small tables summed up."""
    total = sum(grown.values())
    large = {name: size for name, size in sorted(grown.items(), key=lambda one: -one[1]) if size >= SHARE * total}
    return {"total": total, **large, "others": total - sum(large.values())}
