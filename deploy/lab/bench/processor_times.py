"""Reads the processor time (user and system) of processes."""

import psutil


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
