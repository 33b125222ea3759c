"""Figures out of the samples of processes: rates since the reading before, and how long things took."""

from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

import producers.metrics
import workers.metrics
from deploy.observability.figures import Totals, build_sample, sum_samples
from deploy.observability.health_rules import LedgerSample
from store.ledger.ledger import StageCounts
from store.ledger.stages import Stage

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
COUNTS = {"pending": 3, "running": 1, "done": 0, "skipped": 0, "unknown": 1, "dead": 2}


def collect() -> list[Metric]:
    """Return the samples of the metrics that the service itself counts in."""
    registry = CollectorRegistry(auto_describe=False)
    for one in (
        producers.metrics.TURNS_ADDED,
        producers.metrics.RECALL_SECONDS,
        workers.metrics.STAGE_TOTAL,
        workers.metrics.STAGE_AGE,
    ):
        registry.register(one)
    return list(registry.collect())


def test_what_the_service_counts_becomes_rates_and_durations() -> None:
    before = sum_samples(collect(), 100.0)
    producers.metrics.TURNS_ADDED.labels("ok").inc(20)
    producers.metrics.TURNS_ADDED.labels("conflict").inc(7)
    for took in [0.004] * 90 + [0.06] * 10:
        producers.metrics.RECALL_SECONDS.observe(took)
    workers.metrics.STAGE_TOTAL.labels("embedding", "done").inc(30)
    workers.metrics.STAGE_TOTAL.labels("embedding", "dead").inc(10)
    workers.metrics.STAGE_AGE.labels("embedding").observe_all([0.2] * 100)
    sample = build_sample(
        NOW, LedgerSample({Stage.EMBEDDING: StageCounts(COUNTS, 7.54)}), before, sum_samples(collect(), 110.0)
    )
    assert (sample.turns_per_s, sample.recalls_per_s) == (2.0, 10.0)
    assert sample.done_per_s == {"embedding": 4.0}
    assert sample.recall_p50_ms is not None
    assert sample.recall_p95_ms is not None
    # Within the buckets from 3 to 5 ms, and from 50 to 80 ms.
    assert 2 <= sample.recall_p50_ms <= 5
    assert 50 <= sample.recall_p95_ms <= 80
    assert sample.age_p95_s["embedding"] == pytest.approx(0.24, abs=0.01)
    assert (sample.undone, sample.failed, sample.oldest_s) == ({"embedding": 4}, {"embedding": 3}, {"embedding": 7.5})


def test_the_first_reading_has_no_rates_and_an_idle_time_no_durations() -> None:
    totals = sum_samples(collect(), 100.0)
    first = build_sample(NOW, LedgerSample(), None, totals)
    assert (first.turns_per_s, first.recalls_per_s, first.recall_p95_ms, first.age_p95_s) == (None, None, None, {})
    idle = build_sample(NOW, LedgerSample(), totals, sum_samples(collect(), 105.0))
    assert (idle.turns_per_s, idle.recalls_per_s, idle.recall_p95_ms, idle.done_per_s) == (0.0, 0.0, None, {})


def test_a_ledger_that_was_not_read_has_no_figures_rather_than_none() -> None:
    sample = build_sample(NOW, LedgerSample(), None, Totals(0.0))
    assert (sample.undone, sample.failed, sample.oldest_s) == (None, None, None)


def test_a_total_that_shrank_counts_as_nothing() -> None:
    """A restart whose folder of samples was emptied is no rate below zero."""
    sample = build_sample(
        NOW, LedgerSample(), Totals(0.0, turns=50, recalls={0.1: 9.0}), Totals(5.0, turns=3, recalls={0.1: 1.0})
    )
    assert (sample.turns_per_s, sample.recalls_per_s, sample.recall_p50_ms) == (0.0, 0.0, None)
