"""Reads the figures that operators watch, from the ledger and from the samples of this machine's processes."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from afterturn_client.contract.figures import FigureReport, FigureSample
from afterturn_client.contract.operators import Worker
from prometheus_client.metrics_core import Metric

from deploy.observability.alert_rules import find_quantile
from deploy.observability.alerts import Alerts, list_unjudged
from deploy.observability.health_rules import LedgerSample
from deploy.observability.metrics import SHOWN, Exposition, LedgerCounts
from producers.http.routes.service import HealthCheck
from store.database_outage import may_pass
from store.ledger.ledger import StageCounts
from store.ledger.stages import TURN_STAGES, Stage
from store.ledger.workers import WorkerRegistry

#: The samples that are read, as the metrics name them.
TURNS, SETTLED = "mcp_memory_after_turn_total", "afterturn_stage_total"
RECALLS, AGES = "afterturn_recall_seconds_bucket", "afterturn_stage_age_seconds_bucket"
HALF, MOST = 0.5, 0.95
MS = 1000.0

N = TypeVar("N", int, float)
#: A histogram: by a number of seconds, how many events took at most as long.
Buckets = Mapping[float, float]


@dataclass(frozen=True, slots=True)
class Totals:
    """What was counted since the processes began, as of a moment of the monotonic clock."""

    read_at: float
    turns: float = 0.0
    settled: Mapping[str, float] = field(default_factory=dict)
    recalls: Buckets = field(default_factory=dict)
    ages: Mapping[str, Buckets] = field(default_factory=dict)


class ServiceFigures:
    """Reads the figures; rates are those since the reading before. Belongs to one event loop."""

    def __init__(
        self,
        exposition: Exposition,
        counts: LedgerCounts,
        health: HealthCheck,
        workers: WorkerRegistry,
        clock: Callable[[], datetime],
    ) -> None:
        self._exposition = exposition
        self._counts = counts
        self._health = health
        self._workers = workers
        self._clock = clock
        self._alerts = Alerts()
        self._unjudged = tuple(list_unjudged())
        self._before: Totals | None = None

    async def read(self) -> FigureReport:
        """Return the figures of now as the one sample of a report, which says so where the database is away."""
        health, seen = await self._health.ready(), await self._counts.read()
        workers = await self._list_workers()
        metrics, now, read_at = await self._exposition.read_samples(seen), self._clock(), time.monotonic()
        totals = sum_samples(metrics, read_at)
        sample = build_sample(now, seen, self._before, totals)
        self._before = totals
        return FigureReport(
            samples=(sample,),
            rows={stage.value: {one: found.counts[one] for one in SHOWN} for stage, found in _choose_stages(seen)},
            workers=tuple(workers),
            status=health.status,
            failing=health.failing,
            reasons=tuple(health.reasons),
            alerts=tuple(self._alerts.judge(metrics, read_at, now)),
            unjudged=self._unjudged,
        )

    async def _list_workers(self) -> Sequence[Worker]:
        """Return the worker processes; none where the database does not answer, which the health tells."""
        try:
            return await self._workers.list()
        except Exception as error:
            if may_pass(error):
                return ()
            raise


def sum_samples(metrics: Iterable[Metric], read_at: float) -> Totals:
    """Return the totals in the samples of all processes."""
    turns, settled = 0.0, defaultdict[str, float](float)
    recalls: dict[float, float] = {}
    ages: defaultdict[str, dict[float, float]] = defaultdict(dict)
    for name, labels, value, *_ in (sample for metric in metrics for sample in metric.samples):
        if name == TURNS and labels["status"] == "ok":
            turns += value
        elif name == SETTLED:
            settled[labels["stage"]] += value
        elif name == RECALLS:
            recalls[float(labels["le"])] = value
        elif name == AGES:
            ages[labels["stage"]][float(labels["le"])] = value
    return Totals(read_at, turns, settled, recalls, ages)


def build_sample(at: datetime, seen: LedgerSample, before: Totals | None, now: Totals) -> FigureSample:
    """Return the sample of a moment, with rates since the totals before."""
    since = before or now
    passed_s = now.read_at - since.read_at
    recalls = _subtract(now.recalls, since.recalls)
    took = [find_quantile(recalls, share) for share in (HALF, MOST)]
    settled = {
        stage: _per_second(count - since.settled.get(stage, 0.0), passed_s) for stage, count in now.settled.items()
    }
    ages = {
        stage: find_quantile(_subtract(found, since.ages.get(stage, {})), MOST) for stage, found in now.ages.items()
    }
    return FigureSample(
        at=at,
        undone=_count(seen, lambda one: one.counts["pending"] + one.counts["running"]),
        failed=_count(seen, lambda one: one.counts["unknown"] + one.counts["dead"]),
        oldest_s=_count(seen, lambda one: round(one.oldest_undone_s, 1)),
        turns_per_s=None if before is None else _per_second(now.turns - since.turns, passed_s),
        recalls_per_s=None if before is None else _per_second(max(recalls.values(), default=0.0), passed_s),
        recall_p50_ms=None if took[0] is None else round(took[0] * MS, 1),
        recall_p95_ms=None if took[1] is None else round(took[1] * MS, 1),
        done_per_s={stage: rate for stage, rate in settled.items() if rate},
        age_p95_s={stage: round(age, 2) for stage, age in ages.items() if age is not None},
    )


def _choose_stages(seen: LedgerSample) -> Sequence[tuple[Stage, StageCounts]]:
    """Return the stages that every turn passes, and others that have rows."""
    found = [(stage, seen.counts[stage]) for stage in Stage if stage in seen.counts]
    return [(stage, one) for stage, one in found if stage in TURN_STAGES or any(one.counts.values())]


def _count(seen: LedgerSample, of: Callable[[StageCounts], N]) -> Mapping[str, N] | None:
    """Return a figure of each stage that has one; None where the ledger was not read."""
    if not seen.counts:
        return None
    return {stage.value: found for stage in Stage if stage in seen.counts and (found := of(seen.counts[stage]))}


def _per_second(counted: float, passed_s: float) -> float:
    """Return a rate. A total that shrank, as by a deleted folder of samples, counts as none."""
    return round(max(0.0, counted) / passed_s, 3) if passed_s > 0 else 0.0


def _subtract(now: Buckets, before: Buckets) -> Buckets:
    return {most: max(0.0, count - before.get(most, 0.0)) for most, count in sorted(now.items())}
