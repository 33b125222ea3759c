"""One exposition for all processes of the service, and the ledger's gauges, which only the API shows.

Processes leave their samples in files of one folder, named by kind and pid. What the dead left is merged into one
file of each kind, so that restarts neither lose a count nor pile up files.
"""

import asyncio
import fcntl
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import no_type_check

import psutil
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from deploy.disk_space import free_bytes
from deploy.health_rules import HealthIssueKind, LedgerSample, find_health_issues
from deploy.samples import NO_SPACE, reserve
from deploy.settings import HealthSettings
from store.database_outage import may_pass
from store.ledger.ledger import Ledger

#: How long counts of the ledger are believed, in seconds.
COUNTS_S = 5.0
#: What the cheap query counts; done and skipped would cost a walk over the whole ledger.
SHOWN = ("pending", "running", "unknown", "dead")
MERGED = "merged"


class LedgerCounts:
    """What is undone or failed, read at most every five seconds, however many ask.

    `newly_failed` counts what came into quarantine lately.
    """

    def __init__(self, ledger: Ledger, newly_failed: Callable[[], Awaitable[int]]) -> None:
        self._ledger = ledger
        self._newly_failed = newly_failed
        self._reading: asyncio.Task[LedgerSample] | None = None
        self._until = 0.0

    async def read(self) -> LedgerSample:
        """Return the counts; nothing while the database cannot answer. Who stops waiting stops nobody's reading."""
        if self._reading is None or (self._reading.done() and time.monotonic() >= self._until):
            self._reading = asyncio.create_task(self._fresh(), name="read the ledger's counts")
        return await asyncio.shield(self._reading)

    async def _fresh(self) -> LedgerSample:
        seen = await self._looked()
        self._until = time.monotonic() + COUNTS_S
        return seen

    async def _looked(self) -> LedgerSample:
        try:
            return LedgerSample(await self._ledger.gauges(), await self._newly_failed())
        except Exception as error:
            if may_pass(error):
                return LedgerSample()
            raise


class Exposition:
    """Prometheus text of all processes that leave their samples in `folder`, and the free space for `data`."""

    def __init__(self, folder: Path, counts: LedgerCounts, settings: HealthSettings, data: Path) -> None:
        self._folder = folder
        self._data = data
        self._counts = counts
        self._settings = settings
        self._lock = asyncio.Lock()

    async def __call__(self) -> bytes:
        """Return the text; reading the files is left to a thread."""
        seen = await self._counts.read()
        async with self._lock:
            return await asyncio.to_thread(self._expose, seen)

    def _expose(self, seen: LedgerSample) -> bytes:
        merge_dead_samples(self._folder)
        registry = CollectorRegistry()
        registry.register(_LedgerGauges(seen, self._settings))
        registry.register(_DiskGauge(self._data))
        MultiProcessCollector(registry, str(self._folder))  # type: ignore[no-untyped-call]  # the library leaves it bare
        return generate_latest(registry)


class _DiskGauge(Collector):
    def __init__(self, data: Path) -> None:
        self._data = data

    def collect(self) -> Iterable[Metric]:
        free = GaugeMetricFamily("afterturn_disk_free_bytes", "Free space of the data folder, or of its database")
        free.add_metric([], free_bytes(self._data))
        return (free,)


class _LedgerGauges(Collector):
    def __init__(self, seen: LedgerSample, settings: HealthSettings) -> None:
        self._seen = seen
        self._settings = settings

    def collect(self) -> Iterable[Metric]:
        rows = GaugeMetricFamily("afterturn_ledger_rows", "Rows undone or failed", labels=["stage", "status"])
        oldest = GaugeMetricFamily(
            "afterturn_ledger_oldest_undone_seconds", "Age of the oldest undone row", labels=["stage"]
        )
        for stage, found in self._seen.counts.items():
            oldest.add_metric([stage], found.oldest_undone_s)
            for status in SHOWN:
                rows.add_metric([stage, status], found.counts[status])
        return (rows, oldest, *self._strains())

    def _strains(self) -> Iterable[Metric]:
        """Show what `/health/ready` goes by; nothing while the ledger cannot be read."""
        newly = GaugeMetricFamily("afterturn_quarantine_new_rows", "Rows that came into quarantine lately")
        degraded = GaugeMetricFamily("afterturn_degraded", "1: ready, but not as it should be", labels=["reason"])
        if self._seen.counts:
            newly.add_metric([], self._seen.newly_failed)
            wrong = {strain.kind for strain in find_health_issues(self._seen, self._settings)}
            for kind in HealthIssueKind:
                degraded.add_metric([kind], float(kind in wrong))
        return (newly, degraded)


def merge_dead_samples(folder: Path) -> None:
    """Merge what dead processes counted into one file of each kind; their gauges say nothing any more."""
    dead = [path for path in folder.glob("*.db") if _is_dead_sample(path)]
    if not dead:
        return
    try:
        with (folder / "merge.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for path in dead:
                if path.exists():
                    _merge_sample_file(path)
    except OSError as error:
        # Until there is space, what the dead counted is read from their own files.
        if error.errno not in NO_SPACE:
            raise


def _is_dead_sample(path: Path) -> bool:
    pid = path.stem.rpartition("_")[2]
    return pid.isdecimal() and not psutil.pid_exists(int(pid))


def _merge_sample_file(path: Path) -> None:
    kind = path.stem.partition("_")[0]
    if kind != "gauge":
        _add_samples(path, path.with_name(f"{kind}_{MERGED}.db"))
    path.unlink()


@no_type_check  # the library leaves its files' class without annotations
def _add_samples(path: Path, to: Path) -> None:
    reserve(to)
    sums = MmapedDict(str(to))
    for key, value, _, _ in MmapedDict.read_all_values_from_file(str(path)):
        sums.write_value(key, sums.read_value(key)[0] + value, 0.0)
    sums.close()
