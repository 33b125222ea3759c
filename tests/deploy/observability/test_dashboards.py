"""`afterturn up --dashboards`: a Prometheus scrapes the stack, and an alert fires on a real fault and resolves."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from afterturn_client import Afterturn, Message
from starlette.responses import JSONResponse
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.local.prometheus import NOT_HERE, build_config, find_alerts_page, select_alerts
from deploy.settings import load_settings
from tests.client.loopback import loopback
from tests.deploy.cli.test_live import up
from tests.deploy.observability.test_observability import rules
from tests.packages import program
from tests.patience import wait_until


def test_without_prometheus_the_option_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(build_cli("up"), ["up", "--dashboards", "--data", str(tmp_path / "data")])
    assert result.exit_code == 1
    assert "apt-get install prometheus" in result.output


def test_its_configuration_is_valid_and_has_every_alert_that_means_something_there(tmp_path: Path) -> None:
    promtool = str(program("promtool", "prometheus"))
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(select_alerts()))
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(build_config("127.0.0.1:8300")))
    done = subprocess.run(
        [promtool, "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kept = {one["alert"] for group in select_alerts()["groups"] for one in group["rules"]}
    assert kept | NOT_HERE == {one["alert"] for one in rules("prometheus/alerts.yml")}


@pytest.mark.nightly
@pytest.mark.slow
def test_an_alert_fires_on_a_fault_and_resolves_when_it_is_mended(tmp_path: Path) -> None:
    program("prometheus", "prometheus")
    with loopback() as gateway:
        # A gateway that refuses a turn for good: it is delivered at most once, so its row is a dead letter.
        gateway.answer = lambda _seen: JSONResponse({"error": "no"}, 400)
        told = {
            "AFTERTURN_GATEWAY__MODE": "url",
            "AFTERTURN_GATEWAY__BASE_URL": gateway.url,
            "AFTERTURN_GATEWAY__USER_ID": "ana",
            "AFTERTURN_GATEWAY__USER_KEY": "a-key",
            "AFTERTURN_WORKER__NICE": "0",
        }
        assert not set(load_settings({**os.environ, **told}).ignored) & set(told)
        with up(tmp_path / "data", "--workers", "1", "--dashboards", **told) as live:
            url = live.stack.prometheus
            assert httpx.get(find_alerts_page(url)).status_code == 200

            def firing() -> set[str]:
                found: list[dict[str, Any]] = httpx.get(f"{url}/api/v1/alerts").json()["data"]["alerts"]
                return {one["labels"]["alertname"] for one in found if one["state"] == "firing"}

            def scraped() -> bool:
                asked = httpx.get(f"{url}/api/v1/query", params={"query": 'afterturn_ledger_rows{stage="gateway"}'})
                return bool(asked.json()["data"]["result"])

            wait_until(scraped, "the stack is scraped", pause_s=0.5)
            assert "AfterturnDeadLetters" not in firing()
            with Afterturn(live.stack.api, live.stack.api_key()) as memory:
                said = [Message("user", "The ferry leaves at nine."), Message("assistant", "Noted.")]
                memory.add_turn("monday", said, turn_id="1")
            wait_until(lambda: "AfterturnDeadLetters" in firing(), "the alert fires", pause_s=0.5)

            gateway.reset()
            [dead] = json.loads(live.run("jobs", "list", "--status", "dead", "--json").stdout)["jobs"]
            assert live.run("jobs", "drop", dead["id"], "--reason", "mended", "--yes").exit_code == 0
            wait_until(lambda: "AfterturnDeadLetters" not in firing(), "the alert resolves", pause_s=0.5)
