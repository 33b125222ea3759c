"""The faults of a chaos run: each injects one fault and returns what happened."""

import asyncio
import os
import random
import signal
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType

import redis
from sqlalchemy import text

from deploy.lab.chaos.database_observer import DatabaseObserver
from deploy.lab.chaos.feeder import TrafficSender
from deploy.lab.chaos.gateway import GatewayHandle
from deploy.lab.chaos.gateway_process import AnswerMode
from deploy.lab.chaos.half_open import open_half_open_session
from deploy.lab.chaos.interrupted import (
    FaultEpisode,
    LedgerKey,
    list_turn_rows,
    read_gateway_rows,
    read_running_rows,
    read_waiting_rows,
)
from deploy.lab.chaos.moments import POLL_INTERVAL_S, wait_until
from deploy.local.ports import LOOPBACK
from deploy.local.stack import Stack, StackNotRunning, find_stack

#: How long broker or gateway are unavailable, in seconds.
AWAY_S = 3.0
#: How long the broker answers and refuses writes, in seconds: several sweeps.
REFUSED_S = 8.0
#: Seconds between the end of a stopped worker's leases and its continuation.
PAST_LEASE_S = 2.0
#: Least and largest number of calls that a gateway fault affects.
CALLS = (2, 4)
#: Longest wait until there is something to hit, and until the remaining calls are affected, in seconds.
MOMENT_S, MORE_CALLS_S = 10.0, 2.0
#: Deaths of a process per minute; the supervisor gives up at the fifth, which is not tested here.
DEATHS_A_MINUTE = 3
MINUTE_S = 60.0

NEWEST_BANK = text("select bank_id from afterturn.turn_t order by position desc limit 1")


@dataclass(frozen=True, slots=True)
class WriteRefusal:
    """The command after which Valkey answers and refuses writes, and the one that ends it."""

    begin: tuple[str, ...]
    end: tuple[str, ...]


#: READONLY, as after a failover; OOM; NOREPLICAS.
REFUSALS = (
    WriteRefusal(("REPLICAOF", LOOPBACK, "1"), ("REPLICAOF", "NO", "ONE")),
    WriteRefusal(("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
    WriteRefusal(("CONFIG", "SET", "min-replicas-to-write", "1"), ("CONFIG", "SET", "min-replicas-to-write", "0")),
)


@dataclass(slots=True)
class FaultTargets:
    """The objects that faults act on, and the processes that they stopped or killed."""

    data: Path
    lease_s: float
    observer: DatabaseObserver
    gateway: GatewayHandle
    feeder: TrafficSender
    chance: random.Random
    stopped: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    went_well: int = 0
    deaths: deque[tuple[float, str]] = field(default_factory=deque)

    @property
    def workers(self) -> dict[int, str]:
        """The names of the live workers, by process id."""
        return {pid: name for name, pid in self._list_pids().items() if name.startswith("worker")}

    @property
    def stack(self) -> Stack:
        """The stack with its current processes."""
        return find_stack(self.data)

    async def pid(self, name: str) -> int:
        """Wait for a process of the stack; return its process id. Raises StackNotRunning when it is not restarted."""
        await wait_until(lambda: name in self._list_pids(), MINUTE_S)
        try:
            return self._list_pids()[name]
        except KeyError:
            raise StackNotRunning(f"{name} was not started again") from None

    def _list_pids(self) -> dict[str, int]:
        """Return the process ids by name, without those of killed processes whose death is not yet recorded."""
        return {one.name: one.pid for one in self.stack.processes if one.pid not in self.dead}

    def kill(self, name: str, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal that ends a process, and record its death."""
        os.kill(pid, number)
        self.dead.add(pid)
        self.deaths.append((time.monotonic(), name))

    def died_often(self, name: str) -> bool:
        """Return whether this process must not be killed again for now, so that its supervisor does not give up."""
        while self.deaths and self.deaths[0][0] < time.monotonic() - MINUTE_S:
            self.deaths.popleft()
        return Counter(one for _, one in self.deaths)[name] >= DEATHS_A_MINUTE

    def hold(self, pid: int) -> None:
        """Stop a process (SIGSTOP)."""
        os.kill(pid, signal.SIGSTOP)
        self.stopped.add(pid)

    def resume(self, pid: int) -> None:
        """Continue a stopped process (SIGCONT)."""
        os.kill(pid, signal.SIGCONT)
        self.stopped.discard(pid)


Fault = Callable[[FaultTargets], Awaitable[FaultEpisode]]


async def kill_worker(scene: FaultTargets) -> FaultEpisode:
    """Kill a worker that is processing rows with SIGKILL."""
    name, pid, rows = await _stop_busiest_worker(scene)
    at = time.time()
    scene.stopped.discard(pid)
    scene.kill(name, pid)
    return FaultEpisode("kill_worker", name, at, at, rows)


async def stop_worker(scene: FaultTargets) -> FaultEpisode:
    """Stop a worker that is processing rows until its leases have expired, then continue it."""
    began = time.time()
    name, pid, rows = await _stop_busiest_worker(scene)
    await asyncio.sleep(scene.lease_s + PAST_LEASE_S)
    scene.resume(pid)
    return FaultEpisode("stop_worker", name, began, time.time(), rows)


async def kill_api(scene: FaultTargets) -> FaultEpisode:
    """Kill the API with SIGKILL while turns are being sent to it."""
    pid = await scene.pid("api")
    await wait_until(lambda: bool(scene.feeder.sending), MOMENT_S)
    at = time.time()
    scene.kill("api", pid)
    return FaultEpisode(
        "kill_api", "api", at, at, frozenset(list_turn_rows([turn.id for turn in scene.feeder.sending]))
    )


async def kill_valkey(scene: FaultTargets) -> FaultEpisode:
    """Kill Valkey, with the notifications it holds, with SIGKILL."""
    pid, rows = await scene.pid("valkey"), await read_waiting_rows(scene.observer)
    at = time.time()
    scene.kill("valkey", pid)
    return FaultEpisode("kill_valkey", "valkey", at, at, frozenset(rows))


async def flush_valkey(scene: FaultTargets) -> FaultEpisode:
    """Delete everything in Valkey."""
    rows = await read_waiting_rows(scene.observer)
    at = time.time()
    await asyncio.to_thread(_flush_broker, scene.stack)
    return FaultEpisode("flush_valkey", "valkey", at, time.time(), frozenset(rows))


async def pause_valkey(scene: FaultTargets) -> FaultEpisode:
    """Stop Valkey for AWAY_S: connections stay open and get no answer."""
    pid, rows = await scene.pid("valkey"), await read_waiting_rows(scene.observer)
    began = time.time()
    scene.hold(pid)
    await asyncio.sleep(AWAY_S)
    scene.resume(pid)
    return FaultEpisode("pause_valkey", "valkey", began, time.time(), frozenset(rows))


async def refuse_writes_of_valkey(scene: FaultTargets) -> FaultEpisode:
    """Let Valkey answer and refuse writes for REFUSED_S: as a replica, without memory, or without its replicas."""
    refusal = scene.chance.choice(REFUSALS)
    began = time.time()
    await asyncio.to_thread(_order_valkey, scene.stack, *refusal.begin)
    try:
        await asyncio.sleep(REFUSED_S)
        rows = await read_waiting_rows(scene.observer)
    finally:
        await asyncio.to_thread(_order_valkey, scene.stack, *refusal.end)
    return FaultEpisode("refuse_writes_of_valkey", " ".join(refusal.begin), began, time.time(), frozenset(rows))


async def leave_session_half_open(scene: FaultTargets) -> FaultEpisode:
    """Leave a session that holds the lock of a bank in use, in the middle of a statement, until the service ends it."""
    bank = (await scene.observer.query(NEWEST_BANK))[0].bank_id
    began = time.time()
    session = await open_half_open_session(scene.stack.database_url.get_secret_value(), bank)
    try:
        await wait_until(session.is_closed, MINUTE_S)
        rows = await read_waiting_rows(scene.observer)
    finally:
        session.terminate()
    return FaultEpisode("leave_session_half_open", "postgres", began, time.time(), frozenset(rows))


async def restart_postgres(scene: FaultTargets) -> FaultEpisode:
    """Shut PostgreSQL down in immediate mode: no checkpoint, all connections cut, recovery from the WAL."""
    pid, held = await scene.pid("postgres"), await read_running_rows(scene.observer)
    at = time.time()
    scene.kill("postgres", pid, signal.SIGQUIT)
    return FaultEpisode("restart_postgres", "postgres", at, at, frozenset().union(*held.values()))


async def refuse_gateway(scene: FaultTargets) -> FaultEpisode:
    """Close the gateway's port for AWAY_S: connections are refused."""
    await _wait_for_gateway(scene)
    began = time.time()
    await _set_gateway_mode(scene, AnswerMode.REFUSE)
    await asyncio.sleep(AWAY_S)
    rows = await read_gateway_rows(scene.observer)
    await _set_gateway_mode(scene, AnswerMode.OK)
    return FaultEpisode("gateway_refuse", "gateway", began, time.time(), frozenset(rows))


def _create_gateway_fault(mode: AnswerMode) -> Fault:
    async def spoil(scene: FaultTargets) -> FaultEpisode:
        await _wait_for_gateway(scene)
        began = time.time()
        calls = scene.chance.randint(*CALLS)
        await _set_gateway_mode(scene, mode, calls)
        await wait_until(lambda: _has_fewer_left(scene, calls), MOMENT_S)
        await wait_until(lambda: _has_fewer_left(scene, 1), MORE_CALLS_S)
        rows = await read_gateway_rows(scene.observer)
        await _set_gateway_mode(scene, AnswerMode.OK)
        return FaultEpisode(f"gateway_{mode}", "gateway", began, time.time(), frozenset(rows))

    return spoil


#: Every kind of fault by its name.
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "kill_worker": kill_worker,
        "stop_worker": stop_worker,
        "kill_api": kill_api,
        "kill_valkey": kill_valkey,
        "flush_valkey": flush_valkey,
        "pause_valkey": pause_valkey,
        "refuse_writes_of_valkey": refuse_writes_of_valkey,
        "leave_session_half_open": leave_session_half_open,
        "restart_postgres": restart_postgres,
        "gateway_refuse": refuse_gateway,
        **{
            f"gateway_{mode}": _create_gateway_fault(mode)
            for mode in (AnswerMode.SLOW, AnswerMode.HANG, AnswerMode.GARBAGE, AnswerMode.LIMITED, AnswerMode.BROKEN)
        },
    }
)
#: Faults that a round holds more than once, because they are the most frequent in practice.
OFTENER = ("kill_worker", "kill_worker")


def plan_faults(rounds: int, chance: random.Random) -> list[str]:
    """Return the faults of a run in their order: every kind in every round, no two gateway faults in succession."""
    return [kind for _ in range(rounds) for kind in _plan_round(chance)]


def _plan_round(chance: random.Random) -> list[str]:
    gateway = [kind for kind in FAULTS if kind.startswith("gateway")]
    others = [*OFTENER, *(kind for kind in FAULTS if not kind.startswith("gateway"))]
    chance.shuffle(gateway)
    chance.shuffle(others)
    # After refusals, workers do not call the gateway for as long as a lease; a worker is stopped for that time.
    long, after = others.index("stop_worker"), gateway.index("gateway_refuse") + 1
    others[long], others[after] = others[after], others[long]
    return [kind for pair in zip_longest(others, gateway) for kind in pair if kind]


async def _stop_busiest_worker(scene: FaultTargets) -> tuple[str, int, frozenset[LedgerKey]]:
    """Stop the worker with the most running rows; return its name, process id and rows. An idle one is continued."""
    until = time.monotonic() + MOMENT_S
    while True:
        workers = scene.workers
        fit = {pid: name for pid, name in workers.items() if not scene.died_often(name)} or workers
        held = await read_running_rows(scene.observer)
        late = time.monotonic() > until
        pid = max(fit, key=lambda one: len(held.get(one, ())), default=None)
        if pid is not None and (late or pid in held):
            with suppress(ProcessLookupError):
                scene.hold(pid)
                rows = (await read_running_rows(scene.observer)).get(pid, set())
                if rows or late:
                    return fit[pid], pid, frozenset(rows)
                scene.resume(pid)
        await asyncio.sleep(POLL_INTERVAL_S)


async def _wait_for_gateway(scene: FaultTargets) -> None:
    """Wait until a call has succeeded since the last gateway fault, so that the two can be told apart.

    After many consecutive failures, workers do not call the gateway for as long as a lease.
    """
    await wait_until(lambda: _is_gateway_well(scene), MOMENT_S + scene.lease_s)


async def _is_gateway_well(scene: FaultTargets) -> bool:
    return await asyncio.to_thread(scene.gateway.well) > scene.went_well


async def _has_fewer_left(scene: FaultTargets, calls: int) -> bool:
    return await asyncio.to_thread(scene.gateway.left) < calls


async def _set_gateway_mode(scene: FaultTargets, mode: AnswerMode, calls: int = 0) -> None:
    await asyncio.to_thread(scene.gateway.order, mode, calls)
    scene.went_well = await asyncio.to_thread(scene.gateway.well)


def _flush_broker(stack: Stack) -> None:
    _order_valkey(stack, "FLUSHALL")


def _order_valkey(stack: Stack, *command: str) -> None:
    with redis.Redis.from_url(stack.redis_url.get_secret_value(), socket_timeout=5) as client:
        send_command(client, command)


def send_command(client: "redis.Redis", command: Sequence[str]) -> None:
    """Send one command; raises redis.RedisError when it is refused."""
    client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis leaves it without annotations
