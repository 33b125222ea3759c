"""Describes a Prometheus that runs beside `afterturn up`, with the rules and alerts of deploy/prometheus."""

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from deploy.local.child import Child
from deploy.local.errors import StartFailed
from deploy.local.http_probe import fetch_answer
from deploy.local.ports import LOOPBACK, find_free_port
from deploy.local.services import Services

RULES = Path(__file__).parents[1] / "prometheus"
#: Alerts without use in a local stack: its supervisor restarts workers, and the API exposes their metrics.
NOT_HERE = frozenset({"AfterturnWorkersDown"})
#: Interval between two scrapes, in seconds.
SCRAPE_S = 5
KEPT = "15d"
ANSWER_S = 2.0


def find_prometheus() -> str:
    """Return the path of the program; raises StartFailed whose text says how to install it."""
    found = shutil.which("prometheus")
    if found is None:
        raise StartFailed("--dashboards needs Prometheus on the PATH (Debian: apt-get install prometheus)")
    return found


def describe_prometheus(services: Services, program: str) -> tuple[Child, str]:
    """Write the configuration of a Prometheus that scrapes this stack; return its child process and its URL."""
    folder = services.settings.data / "prometheus"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "alerts.yml").write_text(yaml.safe_dump(select_alerts()), encoding="utf-8")
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(build_config(f"{services.address}:{services.port}")), encoding="utf-8")
    port = find_free_port()
    options = {
        "config.file": str(config),
        "storage.tsdb.path": str(folder / "data"),
        "storage.tsdb.retention.time": KEPT,
        "web.listen-address": f"{LOOPBACK}:{port}",
    }
    child = Child(
        name="prometheus",
        argv=(program, *(f"--{name}={value}" for name, value in options.items())),
        log=services.log("prometheus"),
        ready=lambda _pid: _is_ready(port),
        for_ever=True,
    )
    return child, f"http://{LOOPBACK}:{port}"


def build_config(target: str) -> dict[str, Any]:
    """Return Prometheus' configuration for one API that exposes the samples of all processes."""
    return {
        "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
        "rule_files": [str(RULES / "recording.yml"), "alerts.yml"],
        "scrape_configs": [{"job_name": "afterturn-api", "static_configs": [{"targets": [target]}]}],
    }


def select_alerts() -> dict[str, Any]:
    """Return the alerts without those that have no use in a local stack."""
    read = yaml.safe_load((RULES / "alerts.yml").read_text(encoding="utf-8"))
    for group in read["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule["alert"] not in NOT_HERE]
    return dict(read)


def find_alerts_page(url: str) -> str:
    """Return the address of the alerts of a running Prometheus; Debian's package has its pages below /classic."""
    port = urlsplit(url).port or 80
    page = "/alerts" if fetch_answer(LOOPBACK, port, "/alerts", ANSWER_S) is not None else "/classic/alerts"
    return url + page


def _is_ready(port: int) -> bool:
    return fetch_answer(LOOPBACK, port, "/-/ready", ANSWER_S) is not None
