"""Metrics of the interfaces. Labels are results and route templates, never a tenant, bank or session.

Names with `mcp_memory_` are the seed's (MCP-native memory tools, section 13), counted for every interface alike.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Counter, Gauge, Histogram

STATUSES = ("ok", "duplicate", "conflict", "busy", "error")

RECALLS = Counter("afterturn_recalls", "Recalls asked for at any interface, by how they ended", ["status"])
BEFORE_TURN = Counter("mcp_memory_before_turn", "Turns prepared (before_turn), by how they ended", ["status"])
TOOL_CALLS = Counter(
    "mcp_memory_tool_calls",
    "Calls over MCP, by tool (or method) and code: OK, or the contract's code of a refusal",
    ["tool", "code"],
)
TURNS_ADDED = Counter("mcp_memory_after_turn", "Turns handed in at any interface, by how they ended", ["status"])
AFTER_TURN_MS = Histogram(
    "mcp_memory_after_turn_duration_ms",
    "Milliseconds from a turn's arrival at the facade to its answer, counted per call",
    buckets=(1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 500, 1000, 5000),
)
BEFORE_TURN_MS = Histogram(
    "mcp_memory_before_turn_duration_ms",
    "Milliseconds from a turn's beginning at the facade to its answer, waits asked for left out",
    buckets=(2, 5, 10, 20, 30, 50, 80, 120, 200, 300, 500, 1000, 5000),
)
MAINTENANCE = Counter(
    "mcp_memory_maintenance", "Sessions that maintenance was asked for: done, going on when it answered, or an error",
    ["status"],
)  # fmt: skip
PLUGIN_SECONDS = Histogram(
    "afterturn_plugin_seconds",
    "Seconds from a request to the memory plugin until its answer, by route",
    ["route"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.5, 1, 5),
)
COMPACTION = Counter("mcp_memory_compaction", "Prepared turns whose stored history was cut to fit the token budget")
SUMMARIES = Counter("afterturn_session_summaries", "Summaries written of the older messages of long sessions")
CONFLICTS = Counter("mcp_memory_idempotency_conflicts", "Turns refused because their id is known with another body")

RECALL_SECONDS = Histogram(
    "afterturn_recall_seconds",
    "Seconds a recall took, waiting for a position left out",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.5, 1, 5),
)
RECALL_DEGRADED = Counter(
    "afterturn_recall_degraded", "Recalls answered without a part that failed or was late", ["part"]
)
REPLICA_RECALLS = Counter(
    "afterturn_replica_recalls",
    "Recalls meant for the read replica: answered by it, or by the primary since it was behind or failed",
    ["outcome"],
)
REQUESTS = Counter("afterturn_http_requests", "HTTP requests answered", ["method", "route", "status"])
CALLS_AUDITED = Counter(
    "afterturn_calls_audited", "Calls noted in the call audit, or dropped under overload", ["outcome"]
)
UNAUTHENTICATED = Counter(
    "afterturn_unauthenticated_calls", "Calls without a valid key, by interface and answer", ["door", "status"]
)
FAIR_WAIT_SECONDS = Histogram(
    "afterturn_fair_wait_seconds",
    "Seconds a call waited in its tenant's queue; calls that began at once are not counted",
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
NOTIFICATIONS = Counter(
    "afterturn_rings", "Notifications of workers: sent, coalesced with one that waits, or failed", ["outcome"]
)
QUEUE_MESSAGES = Counter(
    "afterturn_queue_messages", "Messages of turn queues: accepted, rejected for good, or retried", ["outcome"]
)
SHED = Counter("afterturn_shed", "Requests shed under overload", ["what"])
PRESSURE = Gauge(
    "afterturn_pressure",
    "The most that is shed for any tenant: 0 nothing, 1 embedding at once, 2 recall jobs too, 3 batches too",
    multiprocess_mode="livemax",
)

# A series that exists only after its first event makes the first one invisible to rate(). Those of a recall's parts are
# made in service/recall_coordinator.py.
for _status in STATUSES:
    TURNS_ADDED.labels(_status)
for _status in ("ok", "error"):
    RECALLS.labels(_status)
    BEFORE_TURN.labels(_status)
for _status in ("ok", "going_on", "error"):
    MAINTENANCE.labels(_status)
for _outcome in ("sent", "coalesced", "failed"):
    NOTIFICATIONS.labels(_outcome)
for _outcome in ("accepted", "rejected", "retried"):
    QUEUE_MESSAGES.labels(_outcome)
for _outcome in ("written", "dropped"):
    CALLS_AUDITED.labels(_outcome)
for _outcome in ("answered", "behind", "failed"):
    REPLICA_RECALLS.labels(_outcome)
for _what in ("recall_jobs", "batches", "address", "fairness"):
    SHED.labels(_what)


@contextmanager
def count_outcome(counter: Counter) -> Iterator[None]:
    """Count in a counter with the label `status` whether the block ends with an error."""
    try:
        yield
    except Exception:
        counter.labels("error").inc()
        raise
    counter.labels("ok").inc()
