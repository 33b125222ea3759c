"""Gauges of the database: oldest writing transaction, connections, lags, claims, breakers, tenants, generations."""

import time
from collections import deque
from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from store.database_gauges import DatabaseSample
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
