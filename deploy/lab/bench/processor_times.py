"""Processor time of processes, user and system, as the operating system counts it."""

import psutil


def read_cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and of those of its children that ended; 0 when it has ended itself."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def read_family_seconds(pid: int) -> float:
    """Return the processor time of a process and of all it started, in seconds; 0 when it has ended."""
    try:
        family = [pid, *(process.pid for process in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return 0.0
    return sum(map(read_cpu_seconds, family))
