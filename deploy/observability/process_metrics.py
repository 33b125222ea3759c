"""Processor time, memory and start of this machine's processes, which prometheus_client leaves out for many of them."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

LABELS = ("process", "pid")


class ProcessGauges(Collector):
    """A collector of the living processes that write samples to some folders, by each folder's name for them."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders

    def collect(self) -> Iterable[Metric]:
        """Return processor seconds, resident bytes and time of start for each process, and the version."""
        cpu = CounterMetricFamily("afterturn_process_cpu_seconds", "Processor time of a process", labels=LABELS)
        memory = GaugeMetricFamily("afterturn_process_resident_bytes", "Resident memory of a process", labels=LABELS)
        started = GaugeMetricFamily(
            "afterturn_process_start_time_seconds", "Start of a process in seconds since 1970", labels=LABELS
        )
        for name, folder in self._folders.items():
            for pid in sorted({int(found) for path in folder.glob("*_*.db") if (found := _pid_of(path)).isdecimal()}):
                with suppress(psutil.Error):
                    process = psutil.Process(pid)
                    with process.oneshot():
                        times, resident, begun = process.cpu_times(), process.memory_info().rss, process.create_time()
                    cpu.add_metric([name, str(pid)], times.user + times.system)
                    memory.add_metric([name, str(pid)], resident)
                    started.add_metric([name, str(pid)], begun)
        build = GaugeMetricFamily("afterturn_build_info", "Version of the package, as a label of 1", labels=["version"])
        build.add_metric([version("afterturn")], 1.0)
        return cpu, memory, started, build


def _pid_of(path: Path) -> str:
    return path.stem.rpartition("_")[2]
