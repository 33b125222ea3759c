"""The Prometheus exposition of all processes of the service, with gauges of ledger and database (API only).

Processes write their samples to files named by kind and pid, API and workers in separate folders. Files of dead
processes are merged into one per kind, so that restarts neither lose counts nor pile up files. Workers with a metrics
port (`worker.metrics_port`) serve their samples there and the API leaves them out, so that none is counted twice.
"""

import asyncio
import fcntl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import no_type_check

import psutil
import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from deploy.observability.disk_space import free_bytes
from deploy.observability.health_rules import HealthIssueKind, LedgerSample, find_health_issues
from deploy.observability.process_metrics import ProcessGauges
from deploy.observability.samples import API_SAMPLES, NO_SPACE, SERVED, WORKER_SAMPLES, reserve_file
from deploy.settings import HealthSettings
from store.database_gauges import DatabaseSample
from store.database_outage import may_pass
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage

#: Samples that are kept while a replica is behind: those of a day.
LOOKS = 20_000


class XminAge:
    """Computes for how many seconds the oldest writing transaction has been the oldest, from this process's samples.

    Log readers stop before that transaction, and vacuum cannot remove newer dead rows. The age is a lower bound: the
    first sample starts at zero.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._oldest: int | None = None
        self._since = 0.0

    def observe(self, sample: DatabaseSample) -> float:
        """Return the age in seconds as of this sample; 0 while no transaction writes."""
        if sample.oldest_writer != self._oldest:
            self._oldest, self._since = sample.oldest_writer, self._clock()
        return 0.0 if self._oldest is None else self._clock() - self._since


class ReplicaLag:
    """Computes how many seconds each replica is behind the primary, from this process's samples."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: deque[tuple[float, int]] = deque(maxlen=LOOKS)

    def observe(self, sample: DatabaseSample) -> dict[str, float]:
        """Return each replica's lag in seconds; 0 when it has replayed all that the primary had written."""
        now = self._clock()
        self._looks.append((now, sample.written))
        lag = {name: self._find_lag(now, shown) for name, shown in sample.replicas.items()}
        least = min(sample.replicas.values(), default=sample.written)
        while len(self._looks) > 1 and self._looks[0][1] <= least:
            self._looks.popleft()
        return lag

    def _find_lag(self, now: float, shown: int) -> float:
        return next((now - seen for seen, written in self._looks if written > shown), 0.0)


class DatabaseGauges(Collector):
    """A collector of the gauges of one database sample; it yields none when there is no sample."""

    def __init__(self, seen: DatabaseSample | None, xmin_age: XminAge, replica_lag: ReplicaLag) -> None:
        self._seen = seen
        self._xmin_age = xmin_age
        self._replica_lag = replica_lag

    def collect(self) -> Iterable[Metric]:
        """Return the gauges; called once per exposition."""
        if self._seen is None:
            return ()
        return (*self._plain_gauges(self._seen), *self._labelled_gauges(self._seen))

    def _plain_gauges(self, seen: DatabaseSample) -> Iterable[Metric]:
        for name, text, value in (
            (
                "afterturn_database_xmin_age_seconds",
                "Age of the oldest transaction that writes",
                self._xmin_age.observe(seen),
            ),
            ("afterturn_database_connections", "Client connections to the PostgreSQL server", seen.connections),
            ("afterturn_database_connections_max", "max_connections of the PostgreSQL server", seen.most_connections),
            ("afterturn_database_size_bytes", "Size of the database with its indexes", seen.bytes),
            (
                "afterturn_gateway_breaker_open",
                "Gateway targets whose circuit breaker is open, for all workers",
                seen.open_breakers,
            ),
        ):
            yield GaugeMetricFamily(name, text, value=value)

    def _labelled_gauges(self, seen: DatabaseSample) -> Iterable[Metric]:
        lag = GaugeMetricFamily(
            "afterturn_database_replication_lag_seconds", "Time until a replica shows a commit", labels=["replica"]
        )
        overdue = GaugeMetricFamily(
            "afterturn_claim_overdue_seconds",
            "Time since the oldest lease expired without another claim",
            labels=["stage"],
        )
        rows = GaugeMetricFamily(
            "afterturn_tenant_undone_rows", "Undone rows of the largest backlogs", labels=["tenant"]
        )
        oldest = GaugeMetricFamily(
            "afterturn_tenant_oldest_undone_seconds", "Age of the oldest undone row of these", labels=["tenant"]
        )
        workers = GaugeMetricFamily(
            "afterturn_stage_workers", "Living worker processes that work on a stage", labels=["stage"]
        )
        built = GaugeMetricFamily(
            "afterturn_generation_built_ratio",
            "Share of all texts that the pass of a generation of vectors has gone through",
            labels=["generation", "state"],
        )
        for one in seen.generations:
            built.add_metric([str(one.generation), one.state], one.share)
        for worked in Stage:
            workers.add_metric([worked], seen.workers.get(worked, 0))
        for replica, seconds in self._replica_lag.observe(seen).items():
            lag.add_metric([replica], seconds)
        for stage, seconds in seen.overdue_s.items():
            overdue.add_metric([stage], seconds)
        for tenant in seen.tenants:
            rows.add_metric([str(tenant.host_id)], tenant.rows)
            oldest.add_metric([str(tenant.host_id)], tenant.oldest_s)
        return lag, overdue, rows, oldest, workers, built


log = structlog.get_logger(__name__)

#: How long the ledger's counts are cached, in seconds.
COUNTS_S = 5.0
#: How long an exposition waits for them, in seconds: less than Prometheus waits for a scrape.
READ_S = 3.0
#: The statuses that the cheap query counts; counting done and skipped rows would scan the whole ledger.
SHOWN = ("pending", "running", "unknown", "dead")
MERGED = "merged"


class LedgerCounts:
    """A cache of the ledger's counts, read from the database at most every COUNTS_S seconds.

    `newly_failed` counts rows that were quarantined recently; `look` reads the database's gauges.
    """

    def __init__(
        self,
        ledger: Ledger,
        newly_failed: Callable[[], Awaitable[int]],
        look: Callable[[], Awaitable[DatabaseSample]] | None = None,
    ) -> None:
        self._ledger = ledger
        self._newly_failed = newly_failed
        self._look = look
        self._reading: asyncio.Task[LedgerSample] | None = None
        self._until = 0.0

    async def read(self) -> LedgerSample:
        """Return the counts; an empty sample while they cannot be read.

        The read goes on when a caller is cancelled, for the other callers.
        """
        if self._reading is None or (self._reading.done() and time.monotonic() >= self._until):
            self._reading = asyncio.create_task(self._read_fresh(), name="read the ledger's counts")
        return await asyncio.shield(self._reading)

    async def _read_fresh(self) -> LedgerSample:
        seen = await self._read_ledger()
        self._until = time.monotonic() + COUNTS_S
        return seen

    async def _read_ledger(self) -> LedgerSample:
        try:
            database = None if self._look is None else await self._look()
            return LedgerSample(await self._ledger.gauges(), await self._newly_failed(), database)
        except Exception as error:  # noqa: BLE001 - the samples of the processes must be exposed all the same
            if not may_pass(error):
                log.warning("ledger_unreadable", error=type(error).__name__)
            return LedgerSample()


class Exposition:
    """Renders the Prometheus text: samples of all processes below `folder`, gauges, free space of `data`.

    `broker_bytes` returns the memory that the broker's data take.
    """

    def __init__(
        self,
        folder: Path,
        counts: LedgerCounts,
        settings: HealthSettings,
        data: Path,
        broker_bytes: Callable[[], Awaitable[int | None]] | None = None,
    ) -> None:
        self._broker_bytes = broker_bytes
        self._folder = folder
        self._data = data
        self._counts = counts
        self._settings = settings
        self._xmin_age, self._replica_lag = XminAge(), ReplicaLag()
        self._lock = asyncio.Lock()

    async def __call__(self) -> bytes:
        """Return the Prometheus text; the files are read in a thread.

        Gauges of a ledger that cannot be read, or not within READ_S, are left out.
        """
        seen, used = LedgerSample(), None
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_S):
                seen = await self._counts.read()
                used = await self._broker_bytes() if self._broker_bytes else None
        async with self._lock:
            return await asyncio.to_thread(lambda: generate_latest(self._collect(seen, used)))

    async def read_samples(self, seen: LedgerSample) -> Sequence[Metric]:
        """Return what is exposed, with these counts of the ledger; the files are read in a thread."""
        async with self._lock:
            return await asyncio.to_thread(lambda: [*self._collect(seen, None).collect()])

    def _find_sample_files(self) -> "SampleFiles":
        return SampleFiles([self._folder, *self._find_folders().values()])

    def _collect(self, seen: LedgerSample, broker_bytes: int | None) -> CollectorRegistry:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_BrokerGauge(broker_bytes))
        registry.register(_LedgerGauges(seen, self._settings))
        registry.register(DatabaseGauges(seen.database, self._xmin_age, self._replica_lag))
        registry.register(_DiskGauge(self._data))
        registry.register(ProcessGauges(self._find_folders()))
        registry.register(self._find_sample_files())
        return registry

    def _find_folders(self) -> dict[str, Path]:
        folders = {"api": self._folder / API_SAMPLES}
        workers = self._folder / WORKER_SAMPLES
        return folders if is_served_elsewhere(workers) else {**folders, "worker": workers}


class SampleFiles(Collector):
    """A collector of the samples in some folders, summed over living and dead processes."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(folders)

    def collect(self) -> Iterable[Metric]:
        """Return every metric of the files; files of dead processes are merged first."""
        for folder in self._folders:
            merge_dead_samples(folder)
        files = [str(path) for folder in self._folders for path in folder.glob("*.db")]
        found: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]  # left bare
        return found


def is_served_elsewhere(folder: Path) -> bool:
    """Return whether a living process serves the samples of this folder on a port of its own."""
    try:
        return psutil.pid_exists(int((folder / SERVED).read_text(encoding="ascii")))
    except (FileNotFoundError, ValueError):
        return False


class _DiskGauge(Collector):
    def __init__(self, data: Path) -> None:
        self._data = data

    def collect(self) -> Iterable[Metric]:
        free = GaugeMetricFamily("afterturn_disk_free_bytes", "Free space of the data folder, or of its database")
        free.add_metric([], free_bytes(self._data))
        return (free,)


class _BrokerGauge(Collector):
    def __init__(self, used: int | None) -> None:
        self._used = used

    def collect(self) -> Iterable[Metric]:
        memory = GaugeMetricFamily("afterturn_broker_used_bytes", "Memory of the data in the Redis or Valkey")
        if self._used is not None:
            memory.add_metric([], self._used)
        return (memory,)


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
        return (rows, oldest, *self._health_gauges())

    def _health_gauges(self) -> Iterable[Metric]:
        """Return the gauges behind `/health/ready`, without values while the ledger cannot be read."""
        newly = GaugeMetricFamily("afterturn_quarantine_new_rows", "Rows that came into quarantine lately")
        degraded = GaugeMetricFamily("afterturn_degraded", "1: degraded for this reason, and ready", labels=["reason"])
        if self._seen.counts:
            newly.add_metric([], self._seen.newly_failed)
            wrong = {issue.kind for issue in find_health_issues(self._seen, self._settings)}
            for kind in HealthIssueKind:
                degraded.add_metric([kind], float(kind in wrong))
        return (newly, degraded)


def merge_dead_samples(folder: Path) -> None:
    """Merge the sample files of dead processes into one per kind, and delete their gauges."""
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
        # While the disk is full, the counts of dead processes are read from their own files.
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


@no_type_check  # prometheus_client's file class has no annotations
def _add_samples(path: Path, to: Path) -> None:
    reserve_file(to)
    sums = MmapedDict(str(to))
    for key, value, _, _ in MmapedDict.read_all_values_from_file(str(path)):
        sums.write_value(key, sums.read_value(key)[0] + value, 0.0)
    sums.close()
