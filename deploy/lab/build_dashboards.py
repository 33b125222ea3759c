"""Builds Grafana's dashboards: `python -m deploy.lab.build_dashboards` writes deploy/grafana."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "grafana"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: Width and height of a panel in Grafana's units, of which a row has 24.
WIDTH, HEIGHT = 12, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph: its title, Grafana's unit, the PromQL expression, and the legend of a line."""

    title: str
    unit: str
    expression: str
    legend: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; `uid` is also the name of its file."""

    uid: str
    title: str
    panels: Sequence[Panel]


def query_rate(name: str, by: str = "") -> str:
    """Return the PromQL expression of a counter's rate per second, by a label."""
    return f"sum by ({by}) (rate({name}[5m]))" if by else f"sum(rate({name}[5m]))"


def query_quantile(share: float, name: str) -> str:
    """Return the PromQL expression of a histogram's quantile over five minutes."""
    return f"histogram_quantile({share}, sum by (le) (rate({name}_bucket[5m])))"


PIPELINE = Dashboard(
    "afterturn-pipeline",
    "Afterturn: pipeline",
    (
        Panel("Turns acknowledged a second", "ops", "afterturn:turns:rate5m"),
        Panel("Turns refused with 5xx", "percentunit", "afterturn:turn_errors:ratio_rate5m", about="objective: 0.1 %"),
        Panel("Acknowledgement p95", "ms", "afterturn:turn_ms:p95_5m"),
        Panel("Requests by status", "ops", query_rate("afterturn_http_requests_total", "status"), "{{status}}"),
        Panel(
            "Rows undone",
            "short",
            'max by (stage, status) (afterturn_ledger_rows{status=~"pending|running"})',
            "{{stage}} {{status}}",
        ),
        Panel("Oldest undone row", "s", "max by (stage) (afterturn_ledger_oldest_undone_seconds)", "{{stage}}"),
        Panel(
            "Rows settled a second", "ops", query_rate("afterturn_stage_total", "stage, status"), "{{stage}} {{status}}"
        ),
        Panel("Age of a row when it is settled, p95", "s", "afterturn:stage_age_seconds:p95_5m", "{{stage}}"),
        Panel(
            "Dead letters, unknown outcomes",
            "short",
            'max by (stage, status) (afterturn_ledger_rows{status=~"dead|unknown"})',
            "{{stage}} {{status}}",
        ),
        Panel(
            "Attempts that failed",
            "ops",
            query_rate("afterturn_stage_failures_total", "stage, category"),
            "{{stage}} {{category}}",
        ),
        Panel("Overdue claims", "s", "max by (stage) (afterturn_claim_overdue_seconds)", "{{stage}}"),
        Panel(
            "Gateway calls",
            "ops",
            query_rate("afterturn_gateway_calls_total", "operation, outcome"),
            "{{operation}} {{outcome}}",
        ),
        Panel("Refused for load or fairness", "ops", query_rate("afterturn_shed_total", "what"), "{{what}}"),
        Panel("Wait for a fair share, p95", "s", query_quantile(0.95, "afterturn_fair_wait_seconds")),
        Panel("Event loop lag, p99", "s", "afterturn:event_loop_lag_seconds:p99_5m", "{{process}}"),
        Panel(
            "Maintenance runs",
            "ops",
            query_rate("afterturn_maintenance_runs_total", "task, outcome"),
            "{{task}} {{outcome}}",
        ),
    ),
)
RECALL = Dashboard(
    "afterturn-recall",
    "Afterturn: recall",
    (
        Panel("Recalls a second", "ops", query_rate("mcp_memory_before_turn_total", "status"), "{{status}}"),
        Panel(
            "Recalls failed with 5xx", "percentunit", "afterturn:recall_errors:ratio_rate5m", about="objective: 0.1 %"
        ),
        Panel("Recall p95", "s", "afterturn:recall_seconds:p95_5m"),
        Panel("Recall p50", "s", query_quantile(0.5, "afterturn_recall_seconds")),
        Panel("Recalls without a part", "ops", query_rate("afterturn_recall_degraded_total", "part"), "{{part}}"),
        Panel(
            "Found of what an exact search finds, a day",
            "percentunit",
            "sum by (filter) (increase(afterturn_recall_found_total[1d]))"
            " / sum by (filter) (increase(afterturn_recall_compared_total[1d]))",
            "{{filter}}",
            "vector indexes are approximate; below 95 % an alert says so",
        ),
        Panel("Recall jobs", "ops", query_rate("afterturn_recall_jobs_total", "outcome"), "{{outcome}}"),
        Panel("Texts embedded a second", "ops", query_rate("afterturn_embedded_texts_total")),
        Panel(
            "Embedded by the API at once",
            "ops",
            query_rate("afterturn_micro_batch_turns_total", "outcome"),
            "{{outcome}}",
        ),
    ),
)
TURN_TOOLS = Dashboard(
    "afterturn-turn-tools",
    "Afterturn: turn tools",
    (
        Panel("Turns begun", "ops", query_rate("mcp_memory_before_turn_total", "status"), "{{status}}"),
        Panel("Turns ended", "ops", query_rate("mcp_memory_after_turn_total", "status"), "{{status}}"),
        Panel("Beginning of a turn, p95", "ms", query_quantile(0.95, "mcp_memory_before_turn_duration_ms")),
        Panel("End of a turn, p95", "ms", query_quantile(0.95, "mcp_memory_after_turn_duration_ms")),
        Panel("Turns known with another body", "ops", query_rate("mcp_memory_idempotency_conflicts_total")),
        Panel("Histories cut to the budget", "ops", query_rate("mcp_memory_compaction_total")),
        Panel("Facts written", "ops", query_rate("mcp_memory_fact_write_total", "tier"), "{{tier}}"),
        Panel("Maintenance of sessions", "ops", query_rate("mcp_memory_maintenance_total", "status"), "{{status}}"),
        Panel(
            "Calls without a valid key", "ops", query_rate("afterturn_unauthenticated_calls_total", "door"), "{{door}}"
        ),
        Panel("Calls noted in the audit", "ops", query_rate("afterturn_calls_audited_total", "outcome"), "{{outcome}}"),
    ),
)
SERVERS = Dashboard(
    "afterturn-servers",
    "Afterturn: PostgreSQL and Valkey",
    (
        Panel("Connections", "short", "max(afterturn_database_connections)"),
        Panel(
            "Connections in use",
            "percentunit",
            "max(afterturn_database_connections) / max(afterturn_database_connections_max)",
        ),
        Panel("Oldest transaction that writes", "s", "max(afterturn_database_xmin_age_seconds)"),
        Panel("Replica lag", "s", "max by (replica) (afterturn_database_replication_lag_seconds)", "{{replica}}"),
        Panel("Recalls of the replica", "ops", query_rate("afterturn_replica_recalls_total", "outcome"), "{{outcome}}"),
        Panel("Wait for a connection, p95", "s", "afterturn:pool_wait_seconds:p95_5m"),
        Panel("Calls without a connection in time", "ops", query_rate("afterturn_pool_timeouts_total")),
        Panel("Free space of the data folder", "bytes", "min(afterturn_disk_free_bytes)"),
        Panel("Rows pruned", "ops", query_rate("afterturn_maintenance_removed_total", "task"), "{{task}}"),
        Panel("Notifications", "ops", query_rate("afterturn_rings_total", "outcome"), "{{outcome}}"),
        Panel("Notification delay, p95", "s", "afterturn:notification_delay_seconds:p95_5m", "{{queue}}"),
        Panel("Sweeps", "ops", query_rate("afterturn_sweeps_total", "outcome"), "{{outcome}}"),
        Panel("Found by sweeps, unnotified", "ops", query_rate("afterturn_sweeper_rings_total", "stage"), "{{stage}}"),
    ),
)
TENANTS = Dashboard(
    "afterturn-tenants",
    "Afterturn: tenants",
    (
        Panel(
            "Largest backlogs",
            "short",
            "max by (tenant) (afterturn_tenant_undone_rows)",
            "{{tenant}}",
            "ids of tenants, only where metrics.top_tenants asks for them",
        ),
        Panel("Oldest work of these", "s", "max by (tenant) (afterturn_tenant_oldest_undone_seconds)", "{{tenant}}"),
        Panel("Most that is shed for any tenant", "short", "max(afterturn_pressure)", about="0 nothing to 3 batches"),
        Panel("Refused", "ops", query_rate("afterturn_shed_total", "what"), "{{what}}"),
        Panel("Waits for a fair share", "ops", query_rate("afterturn_fair_wait_seconds_count")),
    ),
)
DASHBOARDS = (PIPELINE, RECALL, TURN_TOOLS, SERVERS, TENANTS)


def build_dashboard(dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard in Grafana's import format, with the Prometheus data source as an input."""
    return {
        "title": dashboard.title,
        "uid": dashboard.uid,
        "tags": ["afterturn"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [{"type": "dashboards", "tags": ["afterturn"], "title": "Afterturn", "asDropdown": True}],
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]
        },
        "panels": list(_build_panels(dashboard.panels)),
    }


def _build_panels(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    for nth, panel in enumerate(panels):
        target = {"refId": "A", "expr": panel.expression}
        yield {
            "id": nth + 1,
            "type": "timeseries",
            "title": panel.title,
            "description": panel.about,
            "gridPos": {"h": HEIGHT, "w": WIDTH, "x": WIDTH * (nth % 2), "y": HEIGHT * (nth // 2)},
            "datasource": SOURCE,
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [target | ({"legendFormat": panel.legend} if panel.legend else {})],
        }


def render_dashboard(dashboard: Dashboard) -> str:
    """Return the text of a dashboard's file."""
    return json.dumps(build_dashboard(dashboard), indent=2) + "\n"


def main() -> None:
    """Write every dashboard."""
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.uid}.json").write_text(render_dashboard(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
