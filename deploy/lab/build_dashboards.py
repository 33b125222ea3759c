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
STAT_WIDTH, STAT_HEIGHT, COLUMNS = 6, 4, 24


#: Deployments, marked on every graph: a version that was not there a minute ago.
DEPLOYMENTS = "count by (version) (afterturn_build_info) unless count by (version) (afterturn_build_info offset 1m)"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: its title, Grafana's unit, the PromQL expression, the legend of a line, and what it tells.

    `kind` is Grafana's type of panel; a stat turns yellow and red from `warn` and `bad` on.
    """

    title: str
    unit: str
    expression: str
    legend: str = ""
    about: str = ""
    kind: str = "timeseries"
    warn: float | None = None
    bad: float | None = None


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


def build_stat(title: str, unit: str, expression: str, about: str, limits: tuple[float, float] | None = None) -> Panel:
    """Return a single figure; `limits`: the values from which on it is yellow and red."""
    return Panel(title, unit, expression, "", about, "stat", *(limits or (None, None)))


OVERVIEW = Dashboard(
    "afterturn-overview",
    "Afterturn: overview",
    (
        build_stat("Turns a second", "ops", "afterturn:turns:rate5m", "turns acknowledged, over five minutes"),
        build_stat(
            "Turns refused with 5xx",
            "percentunit",
            "afterturn:turn_errors:ratio_rate5m",
            "the objective is 0.1 % of a month",
            (0.001, 0.0144),
        ),
        build_stat(
            "Acknowledgement p95", "ms", "afterturn:turn_ms:p95_5m", "from the request to the durable turn", (100, 500)
        ),
        build_stat("Recall p95", "s", "afterturn:recall_seconds:p95_5m", "an alert fires above .5 s", (0.2, 0.5)),
        build_stat(
            "Oldest undone work",
            "s",
            "max(afterturn_ledger_oldest_undone_seconds)",
            "the alert fires above five minutes",
            (60, 300),
        ),
        build_stat(
            "Quarantined or unknown",
            "short",
            'sum(max by (stage, status) (afterturn_ledger_rows{status=~"dead|unknown"}))',
            "rows that wait for an operator: `afterturn jobs list --status dead`",
            (1, 1),
        ),
        build_stat(
            "Dead letters of turn queues",
            "short",
            "max(afterturn_queue_dead_letters)",
            "messages that were rejected for good: `afterturn queue list`",
            (1, 1),
        ),
        build_stat(
            "Connections of PostgreSQL in use",
            "percentunit",
            "max(afterturn_database_connections) / max(afterturn_database_connections_max)",
            "the alert fires above nine tenths",
            (0.75, 0.9),
        ),
        Panel(
            "Alerts that fire",
            "short",
            'sum by (alertname, severity) (ALERTS{alertname=~"Afterturn.*", alertstate="firing"})',
            "{{alertname}} {{severity}}",
            "each has a section in the runbook, which the link at the top opens",
            "table",
        ),
        Panel(
            "Work that waits, by stage and status",
            "short",
            "max by (stage, status) (afterturn_ledger_rows) > 0",
            "{{stage}} {{status}}",
            "undone and failed rows of the ledger",
            "table",
        ),
        Panel(
            "Workers by stage",
            "short",
            "max by (stage) (afterturn_stage_workers)",
            "{{stage}}",
            "living processes that work on each stage; with none, the stage's work waits",
        ),
        Panel(
            "Versions",
            "short",
            "count by (version) (afterturn_build_info)",
            "{{version}}",
            "processes by version",
        ),
        Panel(
            "Processor time",
            "percentunit",
            "sum by (process) (rate(afterturn_process_cpu_seconds_total[5m]))",
            "{{process}}",
            "processors in use by API and worker processes; 100 % is one processor",
        ),
        Panel(
            "Resident memory",
            "bytes",
            "sum by (process) (afterturn_process_resident_bytes)",
            "{{process}}",
            "resident memory of API and worker processes",
        ),
        Panel(
            "Restarts in an hour",
            "short",
            "sum by (process) (changes(afterturn_process_start_time_seconds[1h]))"
            " + sum by (process) (increase(afterturn_process_deaths_total[1h]))",
            "{{process}}",
            "processes that ended unasked under a supervisor of ours",
        ),
        Panel(
            "Size of the database",
            "bytes",
            "max(afterturn_database_size_bytes)",
            about="PostgreSQL's files with indexes, without the WAL",
        ),
        Panel(
            "Memory of the broker's data",
            "bytes",
            "max(afterturn_broker_used_bytes)",
            about="Redis or Valkey: notifications and turn queues",
        ),
        Panel(
            "Messages of turn queues",
            "ops",
            query_rate("afterturn_queue_messages_total", "outcome"),
            "{{outcome}}",
            "accepted, rejected for good, or retried",
        ),
        Panel(
            "Calls over MCP that were refused or failed",
            "ops",
            'sum by (tool, code) (rate(mcp_memory_tool_calls_total{code!="OK"}[5m]))',
            "{{tool}} {{code}}",
            "INTERNAL_ERROR is a failure of the service; over HTTP all of these are 200",
        ),
    ),
)
PIPELINE = Dashboard(
    "afterturn-pipeline",
    "Afterturn: pipeline",
    (
        Panel(
            "Turns acknowledged a second",
            "ops",
            "afterturn:turns:rate5m",
            about="turns that are durable, over five minutes, at every interface",
        ),
        Panel("Turns refused with 5xx", "percentunit", "afterturn:turn_errors:ratio_rate5m", about="objective: 0.1 %"),
        Panel(
            "Acknowledgement p95",
            "ms",
            "afterturn:turn_ms:p95_5m",
            about="milliseconds from the request to the durable turn",
        ),
        Panel(
            "Requests by status",
            "ops",
            query_rate("afterturn_http_requests_total", "status"),
            "{{status}}",
            about="HTTP answers a second by status; 429 is load shedding, 5xx a failure",
        ),
        Panel(
            "Rows undone",
            "short",
            'max by (stage, status) (afterturn_ledger_rows{status=~"pending|running"})',
            "{{stage}} {{status}}",
            about="work that waits or is being done, by stage; it should return to zero",
        ),
        Panel(
            "Oldest undone row",
            "s",
            "max by (stage) (afterturn_ledger_oldest_undone_seconds)",
            "{{stage}}",
            about="age of the oldest work; an alert fires above five minutes",
        ),
        Panel(
            "Rows settled a second",
            "ops",
            query_rate("afterturn_stage_total", "stage, status"),
            "{{stage}} {{status}}",
            about="work that ended, by stage and outcome",
        ),
        Panel(
            "Age of a row when it is settled, p95",
            "s",
            "afterturn:stage_age_seconds:p95_5m",
            "{{stage}}",
            about="seconds from the acknowledgement of a turn to the end of its work in a stage",
        ),
        Panel(
            "Dead letters, unknown outcomes",
            "short",
            'max by (stage, status) (afterturn_ledger_rows{status=~"dead|unknown"})',
            "{{stage}} {{status}}",
            about="quarantined rows and deliveries that may have arrived; an operator settles them",
        ),
        Panel(
            "Attempts that failed",
            "ops",
            query_rate("afterturn_stage_failures_total", "stage, category"),
            "{{stage}} {{category}}",
            about="failed attempts by stage and category; most are repeated with a back-off",
        ),
        Panel(
            "Overdue claims",
            "s",
            "max by (stage) (afterturn_claim_overdue_seconds)",
            "{{stage}}",
            about="seconds since a lease ran out without another worker taking the work",
        ),
        Panel(
            "Gateway calls",
            "ops",
            query_rate("afterturn_gateway_calls_total", "operation, outcome"),
            "{{operation}} {{outcome}}",
            about="calls of Memory Gateways, by operation and outcome",
        ),
        Panel(
            "Refused for load or fairness",
            "ops",
            query_rate("afterturn_shed_total", "what"),
            "{{what}}",
            about="requests that got 429 with Retry-After, by what was refused",
        ),
        Panel(
            "Wait for a fair share, p95",
            "s",
            query_quantile(0.95, "afterturn_fair_wait_seconds"),
            about="seconds that calls waited for other tenants' calls in an API process",
        ),
        Panel(
            "Event loop lag, p99",
            "s",
            "afterturn:event_loop_lag_seconds:p99_5m",
            "{{process}}",
            about="seconds by which the event loop is late; work on the loop is too long above .25 s",
        ),
        Panel(
            "Maintenance runs",
            "ops",
            query_rate("afterturn_maintenance_runs_total", "task, outcome"),
            "{{task}} {{outcome}}",
            about="runs of pruning and other periodic tasks, by outcome",
        ),
    ),
)
RECALL = Dashboard(
    "afterturn-recall",
    "Afterturn: recall",
    (
        Panel(
            "Recalls a second",
            "ops",
            query_rate("afterturn_recalls_total", "status"),
            "{{status}}",
            about="recalls at every interface, by outcome",
        ),
        Panel(
            "Recalls failed with 5xx", "percentunit", "afterturn:recall_errors:ratio_rate5m", about="objective: 0.1 %"
        ),
        Panel(
            "Recall p95",
            "s",
            "afterturn:recall_seconds:p95_5m",
            about="seconds of a recall in the service; an alert fires above .5 s",
        ),
        Panel(
            "Recall p50",
            "s",
            query_quantile(0.5, "afterturn_recall_seconds"),
            about="seconds of a recall in the service, median",
        ),
        Panel(
            "Recalls without a part",
            "ops",
            query_rate("afterturn_recall_degraded_total", "part"),
            "{{part}}",
            about="recalls that were answered without a part that failed or was late (`degraded` in the answer)",
        ),
        Panel(
            "Found of what an exact search finds, a day",
            "percentunit",
            "sum by (filter) (increase(afterturn_recall_found_total[1d]))"
            " / sum by (filter) (increase(afterturn_recall_compared_total[1d]))",
            "{{filter}}",
            "vector indexes are approximate; below 95 % an alert says so",
        ),
        Panel(
            "Recall jobs",
            "ops",
            query_rate("afterturn_recall_jobs_total", "outcome"),
            "{{outcome}}",
            about="recalls that workers answered, by outcome",
        ),
        Panel(
            "Texts embedded a second",
            "ops",
            query_rate("afterturn_embedded_texts_total"),
            about="texts that got a vector, in workers and in the API",
        ),
        Panel(
            "Generations of vectors, built",
            "percentunit",
            "max by (generation, state) (afterturn_generation_built_ratio)",
            "{{generation}} {{state}}",
            about="share of all texts that the pass of each generation has gone through; a build that stands still has "
            "no worker with its model: afterturn embeddings status",
        ),
        Panel(
            "Embedded by the API at once",
            "ops",
            query_rate("afterturn_micro_batch_turns_total", "outcome"),
            "{{outcome}}",
            about="new turns that the API embeds itself while it has little else to do, by outcome",
        ),
    ),
)
TURN_TOOLS = Dashboard(
    "afterturn-turn-tools",
    "Afterturn: turn tools",
    (
        Panel(
            "Turns begun",
            "ops",
            query_rate("mcp_memory_before_turn_total", "status"),
            "{{status}}",
            about="calls of before_turn at every interface, by outcome",
        ),
        Panel(
            "Turns ended",
            "ops",
            query_rate("mcp_memory_after_turn_total", "status"),
            "{{status}}",
            about="turns handed in at every interface, by outcome",
        ),
        Panel(
            "Beginning of a turn, p95",
            "ms",
            query_quantile(0.95, "mcp_memory_before_turn_duration_ms"),
            about="milliseconds of before_turn without the time that it was asked to wait",
        ),
        Panel(
            "End of a turn, p95",
            "ms",
            query_quantile(0.95, "mcp_memory_after_turn_duration_ms"),
            about="milliseconds of after_turn",
        ),
        Panel(
            "Turns known with another body",
            "ops",
            query_rate("mcp_memory_idempotency_conflicts_total"),
            about="refused turns whose id is known with another body (409)",
        ),
        Panel(
            "Histories cut to the budget",
            "ops",
            query_rate("mcp_memory_compaction_total"),
            about="prepared turns whose history did not fit into the token budget",
        ),
        Panel(
            "Facts written",
            "ops",
            query_rate("mcp_memory_fact_write_total", "tier"),
            "{{tier}}",
            about="facts of rules and models, by how long they are worth keeping",
        ),
        Panel(
            "Maintenance of sessions",
            "ops",
            query_rate("mcp_memory_maintenance_total", "status"),
            "{{status}}",
            about="calls of memory_run_maintenance, by outcome",
        ),
        Panel(
            "Calls over MCP that fail",
            "percentunit",
            "afterturn:mcp_errors:ratio_rate5m",
            about="share of INTERNAL_ERROR; objective: 0.1 %",
        ),
        Panel(
            "Plugin calls failed with 5xx",
            "percentunit",
            "afterturn:plugin_errors:ratio_rate5m",
            about="calls of the memory plugin; an alert fires above 1 %",
        ),
        Panel(
            "Plugin calls, p95",
            "s",
            "afterturn:plugin_seconds:p95_5m",
            about="seconds of a call of the memory plugin; an alert fires above .5 s",
        ),
        Panel(
            "Calls without a valid key",
            "ops",
            query_rate("afterturn_unauthenticated_calls_total", "door"),
            "{{door}}",
            about="calls that were refused before a tenant was known, by interface",
        ),
        Panel(
            "Calls noted in the audit",
            "ops",
            query_rate("afterturn_calls_audited_total", "outcome"),
            "{{outcome}}",
            about="calls written to the audit, or dropped under overload",
        ),
    ),
)
SERVERS = Dashboard(
    "afterturn-servers",
    "Afterturn: PostgreSQL and Valkey",
    (
        Panel(
            "Connections",
            "short",
            "max(afterturn_database_connections)",
            about="client connections of the PostgreSQL server, of all its users",
        ),
        Panel(
            "Connections in use",
            "percentunit",
            "max(afterturn_database_connections) / max(afterturn_database_connections_max)",
            about="share of max_connections; an alert fires above nine tenths",
        ),
        Panel(
            "Oldest transaction that writes",
            "s",
            "max(afterturn_database_xmin_age_seconds)",
            about="seconds that a writing transaction has been open; readers of the log wait for it",
        ),
        Panel(
            "Replica lag",
            "s",
            "max by (replica) (afterturn_database_replication_lag_seconds)",
            "{{replica}}",
            about="seconds until a replica shows a commit",
        ),
        Panel(
            "Recalls of the replica",
            "ops",
            query_rate("afterturn_replica_recalls_total", "outcome"),
            "{{outcome}}",
            about="recalls that a replica answered, or that went to the primary",
        ),
        Panel(
            "Wait for a connection, p95",
            "s",
            "afterturn:pool_wait_seconds:p95_5m",
            about="seconds that calls waited for a connection of their own process's pool",
        ),
        Panel(
            "Calls without a connection in time",
            "ops",
            query_rate("afterturn_pool_timeouts_total"),
            about="calls that got no connection of the pool in time",
        ),
        Panel(
            "Free space of the data folder",
            "bytes",
            "min(afterturn_disk_free_bytes)",
            about="bytes that are free; an alert fires below 1 GiB",
        ),
        Panel(
            "Rows pruned",
            "ops",
            query_rate("afterturn_maintenance_removed_total", "task"),
            "{{task}}",
            about="rows that maintenance removed, by task",
        ),
        Panel(
            "Notifications",
            "ops",
            query_rate("afterturn_rings_total", "outcome"),
            "{{outcome}}",
            about="wake-ups of workers over Redis: sent, coalesced or failed",
        ),
        Panel(
            "Notification delay, p95",
            "s",
            "afterturn:notification_delay_seconds:p95_5m",
            "{{queue}}",
            about="seconds from a notification to the worker that got it",
        ),
        Panel(
            "Sweeps",
            "ops",
            query_rate("afterturn_sweeps_total", "outcome"),
            "{{outcome}}",
            about="looks of workers at the ledger for work whose notification was lost",
        ),
        Panel(
            "Found by sweeps, unnotified",
            "ops",
            query_rate("afterturn_sweeper_rings_total", "stage"),
            "{{stage}}",
            about="work that a sweep found, by stage; much of it means that notifications are lost",
        ),
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
        Panel(
            "Oldest work of these",
            "s",
            "max by (tenant) (afterturn_tenant_oldest_undone_seconds)",
            "{{tenant}}",
            about="age of the oldest work of the tenants with the largest backlogs",
        ),
        Panel("Most that is shed for any tenant", "short", "max(afterturn_pressure)", about="0 nothing to 3 batches"),
        Panel(
            "Refused",
            "ops",
            query_rate("afterturn_shed_total", "what"),
            "{{what}}",
            about="requests that got 429 with Retry-After, by what was refused",
        ),
        Panel(
            "Waits for a fair share",
            "ops",
            query_rate("afterturn_fair_wait_seconds_count"),
            about="calls a second that waited for other tenants' calls",
        ),
    ),
)
DASHBOARDS = (OVERVIEW, PIPELINE, RECALL, TURN_TOOLS, SERVERS, TENANTS)


def build_dashboard(dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard in Grafana's import format, with the Prometheus data source as an input."""
    runbook = {"name": "runbook", "type": "textbox", "label": "Runbook", "query": "docs/runbook.md"}
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "title": dashboard.title,
        "uid": dashboard.uid,
        "tags": ["afterturn"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "annotations": {
            "list": [
                {
                    "name": "Deployments",
                    "enable": True,
                    "iconColor": "blue",
                    "datasource": SOURCE,
                    "expr": DEPLOYMENTS,
                    "titleFormat": "version {{version}}",
                }
            ]
        },
        "links": [
            {"type": "dashboards", "tags": ["afterturn"], "title": "Afterturn", "asDropdown": True},
            {"type": "link", "title": "Runbook", "url": "${runbook}", "targetBlank": True},
        ],
        "templating": {"list": [source, runbook]},
        "panels": list(_build_panels(dashboard.panels)),
    }


def _build_panels(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    column, row = 0, 0
    for nth, panel in enumerate(panels):
        width, height = (STAT_WIDTH, STAT_HEIGHT) if panel.kind == "stat" else (WIDTH, HEIGHT)
        if column + width > COLUMNS or (column and panels[nth - 1].kind == "stat" != panel.kind):
            column, row = 0, row + (STAT_HEIGHT if panels[nth - 1].kind == "stat" else HEIGHT)
        yield _build_panel(panel, nth + 1, {"h": height, "w": width, "x": column, "y": row})
        column += width


def _build_panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    target: dict[str, Any] = {"refId": "A", "expr": panel.expression}
    if panel.kind == "table":
        target |= {"format": "table", "instant": True}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "stat":
        limits = ((None, "green"), (panel.warn, "yellow"), (panel.bad, "red"))
        steps = [
            {"value": value, "color": colour} for value, colour in limits if value is not None or colour == "green"
        ]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "gridPos": place,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
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
