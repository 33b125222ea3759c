"""Reads the resource usage of a stack's processes: memory, files, connections and processor time."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil
from sqlalchemy import NullPool, text

from deploy.local.stack import Stack
from store.connections import create_owner_engine

# Uses only columns that a role without administrator's rights sees of all sessions.
CONNECTIONS = text("select count(*) from pg_stat_activity where usesysid is not null and pid <> pg_backend_pid()")
UNDONE = text("select count(*) from afterturn.ledger_t where undone")


@dataclass(frozen=True, slots=True)
class Usage:
    """A sample of a part: processes, proportional set size in bytes, open files, processor seconds so far."""

    processes: int
    memory_bytes: int
    files: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class StackUsage:
    """A sample of a stack: usage by part, connections, undone rows of the ledger."""

    parts: dict[str, Usage]
    connections: int
    undone: int

    @property
    def memory_bytes(self) -> int:
        """Return the proportional set size of all parts, in bytes."""
        return sum(one.memory_bytes for one in self.parts.values())

    @property
    def files(self) -> int:
        """Return the open files of API and workers; those of servers vary with the tables in use."""
        return sum(one.files for name, one in self.parts.items() if name in {"api", "workers"})

    @property
    def cpu_s(self) -> float:
        """Return the processor seconds of all parts so far."""
        return sum(one.cpu_s for one in self.parts.values())


async def read_usage(stack: Stack) -> StackUsage:
    """Return a sample of a stack on this machine: its processes, connections and ledger."""
    async with create_owner_engine(stack.owner_url.get_secret_value(), poolclass=NullPool).connect() as connection:
        connections = int((await connection.execute(CONNECTIONS)).scalar_one())
        undone = int((await connection.execute(UNDONE)).scalar_one())
    parts = dict[str, Usage]()
    for process in stack.processes:
        name = "workers" if process.name.startswith("worker") else process.name
        seen = _add_up(list(_list_family(process.pid)))
        parts[name] = _sum_up(parts[name], seen) if name in parts else seen
    return StackUsage(parts, connections, undone)


def _list_family(pid: int) -> Iterator[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        yield process
        yield from process.children(recursive=True)


def _add_up(processes: list[psutil.Process]) -> Usage:
    """Return the summed usage of live processes; processor time includes that of their ended children."""
    total = Usage(0, 0, 0, 0.0)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            spent = times.user + times.system + times.children_user + times.children_system
            total = _sum_up(total, Usage(1, int(process.memory_full_info().pss), process.num_fds(), float(spent)))
    return total


def _sum_up(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.processes + other.processes,
        one.memory_bytes + other.memory_bytes,
        one.files + other.files,
        one.cpu_s + other.cpu_s,
    )


def read_cpu_seconds(pid: int) -> float:
    """Return the processor seconds of a process and of its ended children; 0 when the process has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def read_family_seconds(pid: int) -> float:
    """Return the processor seconds of a process and of all its descendants; 0 when the process has ended."""
    try:
        family = [pid, *(process.pid for process in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return 0.0
    return sum(map(read_cpu_seconds, family))
