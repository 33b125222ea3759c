"""Each alert fires on what it is for and on nothing while all is well, by Prometheus' own engine (promtool)."""

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.observability.test_observability import DEPLOY, rules
from tests.packages import program

#: One sample a minute; what is seen after this many minutes.
MINUTES = 120
TURNS = 'afterturn_http_requests_total{method="POST",route="/api/v1/turns",status="%s"}'
RECALLS = 'afterturn_http_requests_total{method="POST",route="/api/v1/recall",status="%s"}'
PLUGIN = 'afterturn_http_requests_total{method="POST",route="/v1/namespaces/{namespace}/search",status="%s"}'
#: The objectives of prepared and acknowledged turns, in milliseconds.
SLOW = (("before", 300), ("after", 500))
#: What a healthy service shows: name and value at the start, growth a minute.
WELL: dict[str, tuple[float, float]] = {
    'up{job="afterturn-api"}': (1, 0),
    'up{job="afterturn-worker"}': (1, 0),
    TURNS % 201: (0, 600),
    TURNS % 503: (0, 0),
    RECALLS % 200: (0, 600),
    RECALLS % 503: (0, 0),
    'afterturn_recall_seconds_bucket{le="0.5"}': (0, 600),
    'afterturn_recall_seconds_bucket{le="1.0"}': (0, 600),
    'afterturn_recall_seconds_bucket{le="+Inf"}': (0, 600),
    'afterturn_recall_degraded_total{part="dense"}': (3, 0),
    'afterturn_ledger_oldest_undone_seconds{stage="embedding"}': (4, 0),
    'afterturn_ledger_rows{stage="embedding",status="pending"}': (0, 0),
    'afterturn_ledger_rows{stage="gateway",status="dead"}': (0, 0),
    'afterturn_stage_workers{stage="gateway"}': (2, 0),
    "afterturn_queue_dead_letters": (0, 0),
    'afterturn_consumers_stopped{of="turn queues"}': (0, 0),
    'mcp_memory_tool_calls_total{tool="memory_search",code="OK"}': (0, 60),
    'mcp_memory_tool_calls_total{tool="memory_search",code="INVALID_ARGUMENT"}': (0, 6),
    'mcp_memory_tool_calls_total{tool="memory_search",code="INTERNAL_ERROR"}': (1, 0),
    PLUGIN % 200: (0, 600),
    PLUGIN % 503: (0, 0),
    **{f'mcp_memory_{name}_turn_duration_ms_bucket{{le="{limit}.0"}}': (0, 600) for name, limit in SLOW},
    **{
        f'mcp_memory_{name}_turn_duration_ms_bucket{{le="{rest}"}}': (0, 600)
        for name, _ in SLOW
        for rest in ("1000.0", "+Inf")
    },
    **{
        f'afterturn_plugin_seconds_bucket{{route="/v1/search",le="{limit}"}}': (0, 600)
        for limit in ("0.5", "1.0", "+Inf")
    },
    'afterturn_shed_total{what="batches"}': (7, 0),
    "afterturn_disk_free_bytes": (5e10, 0),
    'afterturn_stage_leases_lost_total{stage="extraction"}': (2, 0),
    "afterturn_gateway_breaker_open": (0, 0),
    'afterturn_sweeps_total{outcome="failed"}': (1, 0),
    'afterturn_process_deaths_total{process="api"}': (1, 0),
    'afterturn_recall_compared_total{filter="none"}': (0, 100),
    'afterturn_recall_found_total{filter="none"}': (0, 99),
    "afterturn_database_xmin_age_seconds": (1, 0),
    'afterturn_pool_wait_seconds_bucket{le="0.5"}': (0, 5),
    'afterturn_pool_wait_seconds_bucket{le="2.0"}': (0, 5),
    'afterturn_pool_wait_seconds_bucket{le="+Inf"}': (0, 5),
    "afterturn_pool_timeouts_total": (0, 0),
    "afterturn_database_connections": (40, 0),
    "afterturn_database_connections_max": (100, 0),
    'afterturn_database_replication_lag_seconds{replica="standby"}': (0.1, 0),
    'afterturn_event_loop_lag_seconds_bucket{process="api",le="0.25"}': (0, 120),
    'afterturn_event_loop_lag_seconds_bucket{process="api",le="1.0"}': (0, 120),
    'afterturn_event_loop_lag_seconds_bucket{process="api",le="+Inf"}': (0, 120),
    'afterturn_rings_total{outcome="failed"}': (1, 0),
    'afterturn_notification_delay_seconds_bucket{queue="stages",le="5.0"}': (0, 30),
    'afterturn_notification_delay_seconds_bucket{queue="stages",le="60.0"}': (0, 30),
    'afterturn_notification_delay_seconds_bucket{queue="stages",le="+Inf"}': (0, 30),
}
#: For each alert, what is otherwise (None: there are no samples), and the labels of the alert.
FAULTS: dict[str, tuple[dict[str, tuple[float, float] | None], dict[str, str]]] = {
    "AfterturnApiDown": ({'up{job="afterturn-api"}': (0, 0)}, {}),
    "AfterturnApiPartlyDown": ({'up{job="afterturn-api",instance="api-2"}': (0, 0)}, {}),
    "AfterturnStageWithoutWorker": ({'afterturn_stage_workers{stage="gateway"}': (0, 0)}, {"stage": "gateway"}),
    "AfterturnWorkersDown": ({'up{job="afterturn-worker"}': (0, 0)}, {}),
    "AfterturnDatabaseAway": (
        {
            'afterturn_ledger_rows{stage="embedding",status="pending"}': None,
            'afterturn_ledger_rows{stage="gateway",status="dead"}': None,
        },
        {},
    ),
    "AfterturnTurnErrorsFast": ({TURNS % 503: (0, 12)}, {}),
    "AfterturnTurnErrorsSlow": ({TURNS % 503: (0, 5)}, {}),
    "AfterturnRecallErrorsFast": ({RECALLS % 503: (0, 12)}, {}),
    "AfterturnRecallErrorsSlow": ({RECALLS % 503: (0, 5)}, {}),
    "AfterturnRecallSlow": ({'afterturn_recall_seconds_bucket{le="0.5"}': (0, 300)}, {}),
    "AfterturnRecallDegraded": ({'afterturn_recall_degraded_total{part="dense"}': (0, 1)}, {"part": "dense"}),
    "AfterturnBacklogOld": (
        {'afterturn_ledger_oldest_undone_seconds{stage="embedding"}': (0, 60)},
        {"stage": "embedding"},
    ),
    "AfterturnDeadLetters": (
        {'afterturn_ledger_rows{stage="gateway",status="dead"}': (1, 0)},
        {"stage": "gateway"},
    ),
    "AfterturnQueueDeadLetters": ({"afterturn_queue_dead_letters": (2, 0)}, {}),
    "AfterturnMcpErrors": (
        {'mcp_memory_tool_calls_total{tool="memory_search",code="INTERNAL_ERROR"}': (0, 1)},
        {"tool": "memory_search"},
    ),
    "AfterturnPluginErrors": ({PLUGIN % 503: (0, 12)}, {}),
    "AfterturnBeforeTurnSlow": ({'mcp_memory_before_turn_duration_ms_bucket{le="300.0"}': (0, 500)}, {}),
    "AfterturnAfterTurnSlow": ({'mcp_memory_after_turn_duration_ms_bucket{le="500.0"}': (0, 500)}, {}),
    "AfterturnPluginSlow": ({'afterturn_plugin_seconds_bucket{route="/v1/search",le="0.5"}': (0, 500)}, {}),
    "AfterturnSheddingLoad": ({'afterturn_shed_total{what="batches"}': (0, 1)}, {"what": "batches"}),
    "AfterturnDiskLow": ({"afterturn_disk_free_bytes": (1e9, 0)}, {}),
    "AfterturnLeasesLost": (
        {'afterturn_stage_leases_lost_total{stage="extraction"}': (0, 1)},
        {"stage": "extraction"},
    ),
    "AfterturnGatewayShutOff": ({"afterturn_gateway_breaker_open": (1, 0)}, {}),
    "AfterturnSweepsFail": ({'afterturn_sweeps_total{outcome="failed"}': (0, 1)}, {}),
    "AfterturnProcessDies": ({'afterturn_process_deaths_total{process="api"}': (0, 1)}, {"process": "api"}),
    "AfterturnRecallShortfall": ({'afterturn_recall_found_total{filter="none"}': (0, 90)}, {}),
    "AfterturnOldTransaction": ({"afterturn_database_xmin_age_seconds": (61, 60)}, {}),
    "AfterturnPoolWaits": ({'afterturn_pool_wait_seconds_bucket{le="0.5"}': (0, 1)}, {}),
    "AfterturnConnectionsLow": ({"afterturn_database_connections": (95, 0)}, {}),
    "AfterturnReplicaLags": (
        {'afterturn_database_replication_lag_seconds{replica="standby"}': (31, 0)},
        {"replica": "standby"},
    ),
    "AfterturnLoopLags": (
        {'afterturn_event_loop_lag_seconds_bucket{process="api",le="0.25"}': (0, 100)},
        {"process": "api"},
    ),
    "AfterturnClaimsOverdue": ({'afterturn_claim_overdue_seconds{stage="gateway"}': (121, 0)}, {"stage": "gateway"}),
    "AfterturnConsumersStopped": (
        {'afterturn_consumers_stopped{of="turn queues"}': (1, 0)},
        {"of": "turn queues"},
    ),
    "AfterturnNotificationsFail": ({'afterturn_rings_total{outcome="failed"}': (0, 1)}, {}),
}
#: What a fast burn of the error budget is, too.
TOO = {"AfterturnTurnErrorsFast": "AfterturnTurnErrorsSlow", "AfterturnRecallErrorsFast": "AfterturnRecallErrorsSlow"}


def expected(name: str, labels: dict[str, str]) -> dict[str, Any]:
    [rule] = [one for one in rules("prometheus/alerts.yml") if one["alert"] == name]
    said = dict(rule["annotations"])
    said["summary"] = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], said["summary"])
    return {"exp_labels": rule["labels"] | labels, "exp_annotations": said}


def case(fault: str | None) -> dict[str, Any]:
    """One test of promtool: the series, and for every alert whether it fires."""
    shown = {**WELL, **(FAULTS[fault][0] if fault else {})}
    fires = {fault, TOO.get(str(fault))} - {None}
    series = [
        {"series": name, "values": f"_x{MINUTES}" if value is None else f"{value[0]}+{value[1]}x{MINUTES}"}
        for name, value in shown.items()
    ]
    checked = [
        {"eval_time": f"{MINUTES}m", "alertname": name, "exp_alerts": [expected(name, labels)] if name in fires else []}
        for name, (_, labels) in FAULTS.items()
    ]
    return {"name": fault or "all is well", "interval": "1m", "input_series": series, "alert_rule_test": checked}


def test_every_alert_has_a_fault_that_it_is_for() -> None:
    assert sorted(FAULTS) == sorted(one["alert"] for one in rules("prometheus/alerts.yml"))


def test_each_alert_fires_on_its_fault_and_on_no_other(tmp_path: Path) -> None:
    promtool = str(program("promtool", "prometheus"))
    page = tmp_path / "alerts.test.yml"
    files = [str(DEPLOY / "prometheus" / name) for name in ("recording.yml", "alerts.yml")]
    tests = [case(fault) for fault in (None, *FAULTS)]
    page.write_text(yaml.safe_dump({"rule_files": files, "evaluation_interval": "4m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(page)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_that_does_not_fire_is_seen(tmp_path: Path) -> None:
    promtool = str(program("promtool", "prometheus"))
    page = tmp_path / "alerts.test.yml"
    files = [str(DEPLOY / "prometheus" / name) for name in ("recording.yml", "alerts.yml")]
    quiet = case("AfterturnDiskLow") | {"input_series": case(None)["input_series"]}
    page.write_text(yaml.safe_dump({"rule_files": files, "evaluation_interval": "4m", "tests": [quiet]}))
    done = subprocess.run([promtool, "test", "rules", str(page)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "AfterturnDiskLow" in done.stdout + done.stderr
