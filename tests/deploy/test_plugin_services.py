"""The plugin as compose, systemd and the chart run it: the command and settings of each file start one that serves."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from deploy.local.ports import find_free_port
from tests.deploy.observability.test_observability import DEPLOY
from tests.deploy.sites import COMMAND
from tests.deploy.test_helm import CHART, HELM, helm
from tests.packages import program
from tests.patience import PATIENCE_S, wait_until
from tests.processes import spawned
from tests.servers import TestPostgres, TestValkey

TOKEN = f"plugin-{uuid4().hex}"


@dataclass(frozen=True)
class Service:
    """What a deployment file says of the plugin: arguments of `afterturn`, settings, and the probe of its health."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    probe: Sequence[str] = ()

    def rewrite(self, *pairs: tuple[str, str]) -> "Service":
        """Return the service with other places and ports."""

        def change(text: str) -> str:
            for old, new in pairs:
                text = text.replace(old, new)
            return text

        told = {name: change(value) for name, value in self.environment.items()}
        return Service([*map(change, self.arguments)], told, [*map(change, self.probe)])


def read_image() -> dict[str, str]:
    """Return the settings of the image; its entry point is `afterturn`."""
    page = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert 'ENTRYPOINT ["afterturn"]' in page
    [line] = re.findall(r"^ENV (PATH=.*)", page, re.MULTILINE)
    return {name: value for name, _, value in (one.partition("=") for one in line.split()) if "AFTERTURN" in name}


def read_compose() -> Service:
    page = str(DEPLOY / "compose" / "compose.yaml")
    command = [str(program("docker-compose", "docker-compose")), "--file", page, "--profile", "plugin", "config"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    service = yaml.safe_load(done.stdout)["services"]["plugin"]
    kind, python, *probe = service["healthcheck"]["test"]
    assert (kind, python) == ("CMD", "python")
    return Service(service["command"], read_image() | service["environment"], probe)


def read_unit() -> Service:
    page = (DEPLOY / "systemd" / "afterturn-plugin.service").read_text(encoding="utf-8")
    [started] = re.findall(r"^ExecStart=(.*)", page, re.MULTILINE)
    file, *arguments = shlex.split(started)
    assert file == "/opt/afterturn/bin/afterturn"
    told = dict(one.split("=", 1) for one in re.findall(r"^Environment=(.*)", page, re.MULTILINE))
    # What the file of secrets has to hold stands above it.
    [comment] = re.findall(r"((?:^#.*\n)+)EnvironmentFile=", page, re.MULTILINE)
    return Service(arguments, told | dict.fromkeys(re.findall(r"AFTERTURN_[A-Z_]+", comment), ""))


def read_chart() -> Service:
    values = ("--values", str(HELM / "values" / "minimal.yaml"), "--set", "plugin.enabled=true,plugin.tenant=acme")
    done = helm("template", "memory", str(CHART), *values)
    assert done.returncode == 0, done.stderr
    [pod] = [
        one["spec"]["template"]["spec"]
        for one in yaml.safe_load_all(done.stdout)
        if one and one["kind"] == "Deployment" and one["metadata"]["name"].endswith("-plugin")
    ]
    [container] = pod["containers"]
    [secrets] = [one["secret"]["items"] for one in pod["volumes"] if one["name"] == "secrets"]
    told = {one["name"]: one["value"] for one in container["env"]}
    files = {Path(value).name for name, value in told.items() if name.endswith("_FILE")}
    assert files <= {one["path"] for one in secrets}
    python, *probe = container["readinessProbe"]["exec"]["command"]
    assert python == "python"
    return Service(container["args"], read_image() | told, probe)


@pytest.mark.slow
@pytest.mark.parametrize("read", [read_compose, read_unit, read_chart])
def test_the_plugin_of_a_deployment_file_serves_who_has_its_token_and_stops_when_told(
    read: Callable[[], Service], postgres: TestPostgres, valkey: TestValkey, tmp_path: Path
) -> None:
    port = find_free_port()
    secrets, data = tmp_path / "secrets", tmp_path / "data"
    secrets.mkdir()
    service = read().rewrite(
        ("/run/secrets/afterturn/", f"{secrets}/"),
        ("/run/secrets/", f"{secrets}/"),
        ("/var/lib/afterturn", str(data)),
        (":9100", f":{port}"),
    )
    values = {
        "AFTERTURN_DATABASE__URL": postgres.app_url,
        "AFTERTURN_DATABASE__OPERATOR_URL": postgres.operator_url,
        "AFTERTURN_BROKER__URL": valkey.url,
        "AFTERTURN_PLUGIN__TOKEN": TOKEN,
        "AFTERTURN_PLUGIN__TENANT": "acme",
    }
    told = fill_settings(service.environment, values)
    if "--listen" not in service.arguments:
        told["AFTERTURN_PLUGIN__LISTEN"] = f"127.0.0.1:{port}"
    # As shipped: no model has to be made first.
    told |= {"AFTERTURN_BROKER__NAMESPACE": f"plugin-{port}", "AFTERTURN_EMBEDDING__VARIANT": "weights"}
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AFTERTURN_")}
    log = tmp_path / "log"
    with (
        log.open("ab") as output,
        spawned([*COMMAND, *service.arguments], env=plain | told, stdout=output, stderr=output) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as anybody,
    ):

        def is_healthy() -> bool:
            assert process.poll() is None, log.read_text()
            return probe_health(service, anybody)

        wait_until(is_healthy, "the plugin is healthy")
        assert anybody.get("/v1/health").status_code == 401
        anybody.headers["authorization"] = f"Bearer {TOKEN}"
        health = anybody.get("/v1/health").json()
        assert (health["status"], "fts" in health["capabilities"]) == ("ok", True)
        remember_and_find(anybody)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, log.read_text()
    assert TOKEN not in log.read_text()


def fill_settings(named: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a file with their values; files of secrets are made. One without a value fails."""
    told = dict[str, str]()
    for name, value in named.items():
        told[name] = value or values[name]
        if name.endswith("_FILE"):
            Path(value).write_text(values[name.removesuffix("_FILE")], encoding="utf-8")
    return told


def probe_health(service: Service, anybody: httpx.Client) -> bool:
    """Return whether the file's own probe succeeds; where it has none, whether the health answers."""
    if service.probe:
        return subprocess.run([sys.executable, *service.probe], capture_output=True, check=False).returncode == 0
    try:
        return anybody.get("/v1/health", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    except httpx.TransportError:
        return False


def remember_and_find(plugin: httpx.Client) -> None:
    name = f"workspace:{uuid4()}"
    assert plugin.put(f"/v1/namespaces/{name}", json={"kind": "workspace"}).status_code in (200, 201)
    memory = {"content": "The ferry leaves at nine.", "kind": "fact", "source": "agent"}
    assert plugin.post(f"/v1/namespaces/{name}/memories", json=memory).status_code == 201
    asked = {"namespaces": [name], "query": "ferry"}
    found: dict[str, Any] = plugin.post("/v1/search", json=asked).json()
    assert [one["content"] for one in found["memories"]] == [memory["content"]], json.dumps(found)
