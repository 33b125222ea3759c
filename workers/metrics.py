"""Metrics of the workers. Labels are stages and statuses, never a tenant, bank or session."""

import collections
from bisect import bisect_left
from collections.abc import Sequence

from prometheus_client import Counter, Gauge, Histogram

from store.ledger.stages import Queue, Stage
from store.text.rules import Tier


class BatchHistogram(Histogram):
    """A histogram that takes many observations in one call and writes each bucket once."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        """Observe each of these amounts."""
        self._sum.inc(sum(amounts))
        for nth, many in collections.Counter(bisect_left(self._upper_bounds, one) for one in amounts).items():
            self._buckets[nth].inc(many)


STAGE_AGE = BatchHistogram(
    "afterturn_stage_age_seconds",
    "From a turn's acceptance to the end of a stage",
    ["stage"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200),
)
STAGE_TOTAL = Counter("afterturn_stage_total", "Rows of the ledger that a stage settled", ["stage", "status"])
STAGE_FAILURES = Counter("afterturn_stage_failures_total", "Attempts that failed, by category", ["stage", "category"])
#: Named as the seed fixes it, like its counterparts in `producers.metrics`.
FACT_WRITE = Counter(
    "mcp_memory_fact_write", "Facts that rules or a model found, by how long they are worth keeping", ["tier"]
)
CONSUMERS_STOPPED = Gauge(
    "afterturn_consumers_stopped",
    "Brokers from which a process's consumers cannot read, since they are away or refuse writes, by what they carry",
    ["of"],
    multiprocess_mode="livesum",
)
LEASES_LOST = Counter("afterturn_stage_leases_lost_total", "Results thrown away because the lease ran out", ["stage"])
GATEWAY_CALLS = Counter("afterturn_gateway_calls_total", "Calls to the Memory Gateway", ["operation", "outcome"])
GATEWAY_SECONDS = Histogram(
    "afterturn_gateway_call_seconds",
    "Duration of calls to the Memory Gateway",
    ["operation"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
GATEWAY_WAITS = Counter(
    "afterturn_gateway_waits_total",
    "Deliveries to the Memory Gateway delayed by its rate limit or by an open circuit breaker",
    ["reason"],
)
MODEL_CALLS = Counter("afterturn_extraction_model_calls_total", "Turns a model was asked to read", ["outcome"])
MODEL_SECONDS = Histogram(
    "afterturn_extraction_model_call_seconds",
    "Duration of calls to the model that reads turns",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60),
)
MODEL_DROPPED = Counter(
    "afterturn_extraction_model_dropped_total",
    "Findings of a model that were dropped because the turn does not support them",
)
MODEL_DELETIONS = Counter(
    "afterturn_extraction_model_deletions_total",
    "Facts that a model named to be deleted, by outcome: proposed, applied, or unmatched by any fact that holds",
    ["outcome"],
)
EMBEDDED_TEXTS = Counter("afterturn_embedded_texts_total", "Texts that got a vector")
PASS_VECTORS = Counter(
    "afterturn_generation_vectors_total", "Vectors of stored texts that passes made for a generation of vectors"
)
MICRO_BATCH = Counter(
    "afterturn_micro_batch_turns_total", "New turns offered to the API itself for embedding, by outcome", ["outcome"]
)
SWEEPS = Counter("afterturn_sweeps_total", "Sweeps of the ledger for work that notifications missed", ["outcome"])
NOTIFICATIONS = Counter("afterturn_sweeper_rings_total", "Notifications that the sweeper sent", ["stage"])
NOTIFICATION_DELAY = Histogram(
    "afterturn_notification_delay_seconds",
    "Seconds from a notification's sending to its arrival at a worker, by the clocks of both machines",
    ["queue"],
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60),
)
RECALL_JOBS = Counter("afterturn_recall_jobs_total", "Recall jobs that were worked on", ["outcome"])
RECALL_COMPARED = Counter(
    "afterturn_recall_compared_total", "Nearest neighbours that an exact search found in large banks", ["filter"]
)
RECALL_FOUND = Counter(
    "afterturn_recall_found_total", "Nearest neighbours of an exact search that recall found, too", ["filter"]
)

MAINTENANCE_RUNS = Counter("afterturn_maintenance_runs_total", "Runs of maintenance", ["task", "outcome"])
MAINTENANCE_REMOVED = Counter("afterturn_maintenance_removed_total", "Rows that maintenance removed", ["task"])
MAINTENANCE_SECONDS = Histogram(
    "afterturn_maintenance_seconds",
    "Duration of a run of maintenance",
    ["task"],
    buckets=(0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 120, 600),
)

# A series that exists only after its first event makes the first one invisible to rate().
for _tier in Tier:
    FACT_WRITE.labels(_tier)
for _queue in Queue:
    NOTIFICATION_DELAY.labels(_queue)
for _stage in Stage:
    STAGE_AGE.labels(_stage)
    LEASES_LOST.labels(_stage)
    for _status in ("done", "skipped", "unknown", "dead", "retried"):
        STAGE_TOTAL.labels(_stage, _status)
for _outcome in ("proposed", "applied", "unmatched"):
    MODEL_DELETIONS.labels(_outcome)
for _filter in ("none", "kinds", "session", "tags"):
    RECALL_COMPARED.labels(_filter)
    RECALL_FOUND.labels(_filter)
for _reason in ("turn", "shut"):
    GATEWAY_WAITS.labels(_reason)
for _outcome in ("ok", "failed"):
    SWEEPS.labels(_outcome)
for _outcome in ("embedded", "taken", "dropped", "failed"):
    MICRO_BATCH.labels(_outcome)
