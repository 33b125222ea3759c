"""Rules, alerts, dashboard and deployment files name what this version has: metrics, labels, settings, commands."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

import producers.metrics
import store.database
import workers.metrics
from deploy.cli.app import COMMANDS
from deploy.lab.build_dashboards import DASHBOARDS, render_dashboard
from deploy.local.local_stack import METRIC as DEATHS
from deploy.observability import loop_lag
from deploy.observability.health_rules import LedgerSample
from deploy.observability.metrics import DatabaseGauges, ReplicaLag, XminAge, _BrokerGauge, _DiskGauge, _LedgerGauges
from deploy.observability.process_metrics import ProcessGauges
from deploy.settings import HealthSettings, load_settings
from deploy.worker import turn_queues
from store.database_gauges import DatabaseSample, GenerationShare, TenantBacklog
from store.ledger.ledger import PUBLIC_STATUSES, StageCounts
from store.ledger.stages import Stage
from store.settings import DatabaseSettings
from tests.packages import program
from tests.tables import each_row

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
#: What Prometheus itself adds.
OURS_BY_PROMETHEUS = {"up": {"job"}, "ALERTS": {"alertname", "alertstate", "severity"}}
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def read(path: str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text(encoding="utf-8"))


def rules(path: str) -> list[dict[str, Any]]:
    return [rule for group in read(path)["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every sample's name and its labels."""
    assert all((loop_lag, producers.metrics, store.database, turn_queues, workers.metrics))
    found = dict(OURS_BY_PROMETHEUS) | {f"{DEATHS}_total": {"process"}}
    for made in set(REGISTRY._names_to_collectors.values()):
        if isinstance(made, MetricWrapperBase):
            for suffix in SUFFIXES[str(made._type)]:
                found[made._name + suffix] = {*made._labelnames, *(("le",) if suffix == "_bucket" else ())}
    registry = CollectorRegistry()
    sample = LedgerSample({stage: StageCounts(dict.fromkeys(PUBLIC_STATUSES, 0), 0.0) for stage in Stage})
    registry.register(_LedgerGauges(sample, HealthSettings()))
    tenants = (TenantBacklog(UUID(int=1), 1, 1.0),)
    database = DatabaseSample(
        1, 1, 1, {"standby": 1}, {"embedding": 1.0}, tenants, generations=[GenerationShare(1, "live", 1.0)]
    )
    registry.register(DatabaseGauges(database, XminAge(), ReplicaLag()))
    registry.register(_DiskGauge(tmp_path_factory.mktemp("disk")))
    registry.register(_BrokerGauge(1))
    samples = tmp_path_factory.mktemp("samples")
    (samples / f"counter_{os.getpid()}.db").touch()
    registry.register(ProcessGauges({"api": samples}))
    for family in registry.collect():
        for one in family.samples:
            found.setdefault(one.name, set()).update(one.labels)
    for rule in rules("prometheus/recording.yml"):
        found[rule["record"]] = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", rule["expr"])))) - {"le"}
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for path in ("prometheus/recording.yml", "prometheus/alerts.yml"):
        for rule in rules(path):
            yield rule.get("record") or rule["alert"], rule["expr"]
    for page in sorted((DEPLOY / "grafana").glob("*.json")):
        for panel in json.loads(page.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                yield f"{page.stem}: {panel['title']}", target["expr"]


@each_row("name, expression", list(expressions()))
def test_an_expression_is_over_samples_and_labels_that_exist(
    name: str, expression: str, exposed: dict[str, set[str]]
) -> None:
    named = set(
        re.findall(r"\b(?:(?:afterturn|mcp_memory)[a-z0-9_:]*|up|ALERTS)\b", re.sub(r'"[^"]*"', '""', expression))
    )
    assert named, name
    assert named - set(exposed) == set()
    labels = set().union(*(exposed[one] for one in named))
    used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", expression))
    used |= set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", expression))))
    assert used - labels == set()


def test_dashboards_are_those_of_the_code_and_legends_name_labels_of_their_lines() -> None:
    assert sorted(path.stem for path in (DEPLOY / "grafana").glob("*.json")) == sorted(one.uid for one in DASHBOARDS)
    for dashboard in DASHBOARDS:
        written = (DEPLOY / "grafana" / f"{dashboard.uid}.json").read_text(encoding="utf-8")
        assert written == render_dashboard(dashboard), "run: python -m deploy.lab.build_dashboards"
        for panel in dashboard.panels:
            assert panel.about, panel.title
            if panel.kind == "stat":
                continue
            shown = set(re.findall(r"\{\{(\w+)\}\}", panel.legend))
            kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", panel.expression)))) - {"le"}
            recorded = next(
                (one["expr"] for one in rules("prometheus/recording.yml") if one["record"] == panel.expression), ""
            )
            kept |= set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", recorded)))) - {"le"}
            assert shown == kept, panel.title


def test_every_alert_says_what_it_means_and_has_a_section_in_the_runbook() -> None:
    page = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    alerts = rules("prometheus/alerts.yml")
    assert sections == [one["alert"] for one in alerts]
    for one in alerts:
        assert one["annotations"]["summary"]
        assert one["annotations"]["runbook_url"] == f"docs/runbook.md#{one['alert'].lower()}"
        assert one["labels"]["severity"] in {"page", "ticket"}
    commands = set(re.findall(r"`afterturn (\w[\w-]*)", page))
    assert commands <= set(COMMANDS)


def test_promtool_finds_nothing_wrong() -> None:
    done = subprocess.run(
        [str(program("promtool", "prometheus")), "check", "config", "prometheus.yml"],
        cwd=DEPLOY / "prometheus",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def files_with_settings() -> list[Path]:
    return [DEPLOY / "Dockerfile", DEPLOY / "compose" / "compose.yaml", *sorted((DEPLOY / "systemd").iterdir())]


@pytest.mark.parametrize("path", files_with_settings(), ids=lambda path: path.name)
def test_every_variable_of_a_deployment_file_is_a_setting(path: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("postgresql+asyncpg://a:b@localhost/c", encoding="utf-8")
    named = set(re.findall(r"AFTERTURN_[A-Z_]+[A-Z]", path.read_text(encoding="utf-8")))
    assert named
    broker = tmp_path / "broker"
    broker.write_text("redis://:x@localhost", encoding="utf-8")
    plain = {"AFTERTURN_DATA": str(tmp_path), "AFTERTURN_BROKER__URL": "redis://localhost"}
    for name in named - set(plain):
        number, file = name.endswith("PORT"), broker if "BROKER" in name else secret
        value = str(file) if name.endswith("_FILE") else "1" if number else secret.read_text(encoding="utf-8")
        assert load_settings({name: value}).ignored == ()


def test_every_command_of_a_deployment_file_exists() -> None:
    services = read("compose/compose.yaml")["services"]
    of_ours = {name: one["command"] for name, one in services.items() if one["image"] == "afterturn"}
    assert set(of_ours) == {"migrate", "api", "plugin", "worker", "worker-embedding"}
    stages = [one for command in of_ours.values() if "--stages" in command for one in command[-1].split(",")]
    assert sorted(stages) == sorted([*Stage, "recall"])
    assert {command[0] for command in of_ours.values()} <= set(COMMANDS)
    for unit in (DEPLOY / "systemd").iterdir():
        [line] = re.findall(r"^ExecStart=\S+/afterturn (\w+)", unit.read_text(encoding="utf-8"), re.MULTILINE)
        assert line in COMMANDS
    targets = [one for job in read("prometheus/prometheus.yml")["scrape_configs"] for one in job["static_configs"]]
    assert {host.split(":")[0] for one in targets for host in one["targets"]} <= set(services)


def test_docker_compose_takes_the_file_and_sees_every_service() -> None:
    compose = str(program("docker-compose", "docker-compose"))
    done = subprocess.run(
        [compose, "--file", str(DEPLOY / "compose" / "compose.yaml"), "--profile", "*", "config"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = yaml.safe_load(done.stdout)
    assert set(seen["services"]) == set(read("compose/compose.yaml")["services"])
    services = seen["services"]
    assert services["worker"]["environment"]["AFTERTURN_BROKER__URL_FILE"] == "/run/secrets/broker_url"
    assert all(
        "healthcheck" in services[name]
        for name in ("postgres", "valkey", "api", "plugin", "worker", "worker-embedding")
    )
    owner = "AFTERTURN_DATABASE__OWNER_URL_FILE"
    assert {name for name, one in services.items() if owner in (one.get("environment") or {})} == {"migrate", "worker"}


def test_no_server_of_compose_is_without_a_password_and_each_reads_only_what_it_needs() -> None:
    services = read("compose/compose.yaml")["services"]
    assert services["valkey"]["command"][1] == "/run/secrets/valkey_conf"
    assert services["grafana"]["environment"] == {"GF_SECURITY_ADMIN_PASSWORD__FILE": "/run/secrets/grafana_password"}
    assert services["valkey"]["secrets"] == ["valkey_conf"]
    assert "owner_url" not in services["api"]["secrets"] + services["worker-embedding"]["secrets"]
    page = (DEPLOY / "compose" / "README.md").read_text(encoding="utf-8")
    made = {*re.findall(r">secrets/(\w+)", page), "owner_url", "app_url", "operator_url"}
    assert made == set(read("compose/compose.yaml")["secrets"])
    assert "umask 077" in page


def test_the_connections_of_compose_fit_into_its_server() -> None:
    services = read("compose/compose.yaml")["services"]
    size = DatabaseSettings.model_fields["pool_size"].default
    # docs/operations.md, "Connections"; operators and migrations have 20 more.
    cost = {"api": 3 * size + 6, "plugin": 3 * size + 6, "worker": 3 * size}
    most = 20
    for one in services.values():
        command = one.get("command") or []
        if one["image"] == "afterturn" and command[0] in cost:
            processes = int(command[command.index("--processes") + 1]) if "--processes" in command else 1
            most += processes * cost[command[0]]
    [limit] = re.findall(r"max_connections=(\d+)", " ".join(services["postgres"]["command"]))
    assert most <= int(limit)
    page = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    assert f"| API | 2p + 2 | p + 4 | {cost['api']} |" in page
    assert f"| worker | 2p | p | {cost['worker']} |" in page


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    analyze = str(program("systemd-analyze", "systemd"))
    for unit in (DEPLOY / "systemd").iterdir():
        text = unit.read_text(encoding="utf-8").replace("/opt/afterturn/bin/afterturn", sys.executable)
        (tmp_path / unit.name.replace("@.", "@embedding.")).write_text(text, encoding="utf-8")
    for unit in tmp_path.iterdir():
        done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
        assert unit.name not in done.stderr, done.stderr
