"""A tool that fails inside the service raises its alert, which ends with the failures: by Prometheus' own engine."""

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY, generate_latest

from producers.service.recall_service import RecallService
from tests.deploy.observability.test_alerts import expected
from tests.deploy.observability.test_observability import DEPLOY
from tests.packages import program
from tests.producers.conftest import Tenant, World
from tests.producers.mcp.test_tools import call, client_of, refusal

ALERT = "AfterturnMcpErrors"
SAMPLE = re.compile(
    r'^mcp_memory_tool_calls_total\{(?=.*code="INTERNAL_ERROR")(?=.*tool="memory_search").*\} ([\d.]+)$', re.MULTILINE
)


def failures() -> tuple[str, float]:
    """Return the series of the failed calls as the service shows it, and its number."""
    found = SAMPLE.search(generate_latest(REGISTRY).decode())
    return (found[0].rpartition(" ")[0], float(found[1])) if found else ("", 0.0)


async def test_the_alert_fires_on_a_planted_internal_error_and_resolves(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, before = failures()
    async with client_of(world, ana) as client:
        assert "results" in await call(client, "memory_search", query="x")

        async def fail(*_: Any) -> None:
            raise RuntimeError

        with monkeypatch.context() as planted:
            planted.setattr(RecallService, "recall", fail)
            for _ in range(3):
                assert (await refusal(client, "memory_search", query="x"))["code"] == "INTERNAL_ERROR"
        assert "results" in await call(client, "memory_search", query="x")
    series, after = failures()
    assert after == before + 3
    # One look a minute: ten as it was, then the failures, and no more of them.
    values = f"{before:g}+0x10 {after:g}+0x30"
    fires = expected(ALERT, {"tool": "memory_search"})
    seen = {"9m": [], "14m": [fires], "30m": []}
    test = {
        "interval": "1m",
        "input_series": [{"series": series, "values": values}],
        "alert_rule_test": [{"eval_time": at, "alertname": ALERT, "exp_alerts": alerts} for at, alerts in seen.items()],
    }
    page = tmp_path / "alert.test.yml"
    files = [str(DEPLOY / "prometheus" / name) for name in ("recording.yml", "alerts.yml")]
    page.write_text(yaml.safe_dump({"rule_files": files, "evaluation_interval": "1m", "tests": [test]}))
    promtool = [str(program("promtool", "prometheus")), "test", "rules", str(page)]
    done = await asyncio.to_thread(subprocess.run, promtool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
