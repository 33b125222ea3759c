"""`afterturn plugin perimeter` as a process: it tells where it listens, serves by key, and ends politely."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.local.ports import find_free_port
from producers.contract_kit.flat_plugin import FlatStore
from tests.patience import PATIENCE_S
from tests.processes import spawned
from tests.producers.contract_kit.judging import served

KEY = "uk-0123456789abcdef"


def files(folder: Path, *, keys: tuple[str, ...] = (KEY,)) -> list[str]:
    listed = [{"sha256": hashlib.sha256(key.encode()).hexdigest(), "workspace": "self"} for key in keys]
    (folder / "keys.json").write_text(json.dumps({"keys": listed}))
    (folder / "tree.yaml").write_text("workspaces: [{id: root, name: Acme}, {id: self, parent: root}]")
    named = {"keys": "keys.json", "workspaces": "tree.yaml", "audit": "audit.jsonl"}
    return [argument for name, file in named.items() for argument in (f"--{name}", str(folder / file))]


def test_it_serves_each_workspace_by_its_key_until_it_is_told_to_stop(tmp_path: Path) -> None:
    store = FlatStore()
    for name, content in (("workspace:self", "mine"), ("workspace:root", "not mine"), ("org:root", "everyone's")):
        store.upsert_namespace(name, {"kind": name.partition(":")[0]})
        store.write(name, {"content": content, "kind": "fact", "source": "agent"})
    argv = [
        sys.executable,
        "-P",
        "-m",
        "deploy.cli",
        "plugin",
        "perimeter",
        "--listen",
        f"127.0.0.1:{find_free_port()}",
    ]
    with served(store=store) as plugin_url:
        environment = os.environ | {"MEMORY_PLUGIN_URL": plugin_url, "DATABASE_URL": ""}
        with (
            (tmp_path / "log").open("w") as log,
            spawned(
                [*argv, *files(tmp_path)], env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["perimeter"]
            headers = {"authorization": f"Bearer {KEY}"}
            with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE_S) as client:
                names = client.get("/workspaces/self/v2/namespaces").json()
                assert [one["name"] for one in names["writable"]] == ["workspace:self", "team:root"]
                found = client.get("/workspaces/self/v2/memories").json()["memories"]
                assert {one["namespace"]: one["content"].rpartition("]: ")[2] for one in found} == {
                    "workspace:self": "mine",
                    "org:root": "everyone's",
                }
                assert client.get("/workspaces/root/v2/memories").status_code == 404
                (mine,) = (one["id"] for one in found if one["namespace"] == "workspace:self")
                assert client.delete(f"/workspaces/self/v2/memories/{mine}").json() == {"forgotten": True}
                files(tmp_path, keys=())
                assert client.get("/workspaces/self/v2/namespaces").status_code == 401
            process.send_signal(signal.SIGTERM)
            status = process.wait(PATIENCE_S)
            assert status == 0, (tmp_path / "log").read_text()
    assert not any(secret in (tmp_path / "log").read_text() for secret in (KEY, "mine", "everyone"))


@pytest.mark.parametrize(
    "listen, said", [("9101", "an address and a port"), ("host:1", "an address"), ("127.0.0.1:70000", "an address")]
)
def test_an_address_that_is_none_ends_with_status_2(tmp_path: Path, listen: str, said: str) -> None:
    result = run(["--listen", listen, *files(tmp_path)])
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_a_tree_that_is_none_or_a_plugin_url_that_names_none_ends_with_status_2(tmp_path: Path) -> None:
    arguments = ["--listen", f"127.0.0.1:{find_free_port()}", *files(tmp_path)]
    assert run(arguments, MEMORY_PLUGIN_URL="ftp://x").exit_code == 2
    (tmp_path / "tree.yaml").write_text("table: {}")
    assert "DATABASE_URL is required" in run(arguments).stderr
    (tmp_path / "tree.yaml").write_text("[]")
    assert "`workspaces` or `table`" in run(arguments).stderr


def run(arguments: list[str], **named: str) -> Any:
    environment = {"MEMORY_PLUGIN_URL": "", "DATABASE_URL": ""} | named
    return CliRunner().invoke(build_cli("plugin"), ["plugin", "perimeter", *arguments], env=environment)
