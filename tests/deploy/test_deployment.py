"""A service on servers of one's own, set up by the commands of docs/operations.md alone, without `up`."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url
from typer.testing import CliRunner

from deploy.cli.app import build_cli, build_requested_cli
from deploy.cli.scram import make_verifier
from deploy.local import EmbeddedPostgres, child
from deploy.local.ports import find_free_port
from store import migrations
from tests.deploy.sites import PASSWORD, Site, answers
from tests.patience import wait_until
from tests.servers import TestValkey

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
ADMINISTRATOR = (
    f"create role afterturn_owner login createrole password '{PASSWORD}'",
    "create database afterturn owner afterturn_owner",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, valkey: TestValkey) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    server = EmbeddedPostgres(folder / "server", durable=False)
    server.create()
    process = child.start_child(server.child())
    superuser = make_url(server.endpoint.superuser_url)
    urls = {
        name: superuser.set(username=name, password=PASSWORD, database="afterturn").render_as_string(
            hide_password=False
        )
        for name in ("afterturn_owner", "afterturn_app", "afterturn_operator")
    }
    (folder / "owner-url").write_text(urls["afterturn_owner"] + "\n")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AFTERTURN_")}
    environment = plain | {
        "AFTERTURN_DATA": str(folder / "data"),
        "AFTERTURN_DATABASE__URL": urls["afterturn_app"],
        "AFTERTURN_DATABASE__OPERATOR_URL": urls["afterturn_operator"],
        "AFTERTURN_DATABASE__OWNER_URL_FILE": str(folder / "owner-url"),
        "AFTERTURN_BROKER__URL": valkey.url,
        "AFTERTURN_BROKER__NAMESPACE": "site",
        "AFTERTURN_API__PORT": str(find_free_port()),
        "AFTERTURN_WORKER__SWEEP_SECONDS": "0.5",
        "AFTERTURN_EMBEDDING__VARIANT": "weights",
    }
    made = Site(superuser.render_as_string(hide_password=False), environment)
    made.administer(*ADMINISTRATOR, database="postgres")
    yield made
    child.stop_child(server.child(), process)
    server.cluster.remove()


@pytest.mark.slow
def test_a_service_is_set_up_and_used_by_its_documentation(site: Site, tmp_path: Path) -> None:
    early = site.run("worker")
    assert early.returncode == 2
    assert "run `afterturn db init`" in early.stderr

    asked = site.run("db", "init")
    if asked.returncode:
        assert asked.stdout == "create extension vector;\n"
        site.administer("create extension vector")
    for _ in range(2):
        made = site.run("db", "init")
        assert made.returncode == 0, made.stderr
    status = json.loads(site.run("db", "status", "--json").stdout)
    assert status["ready"] is True, status
    assert status["newest_revision"] == migrations.newest_revision()

    key = json.loads(site.run("keys", "create", "--label", "my agents", "--json").stdout)["key"]
    site.environment["AFTERTURN_CLIENT__KEY"] = key
    with ExitStack() as processes:
        port = str(find_free_port())
        for nth, command in enumerate(
            (
                ("api", "--processes", "2"),
                ("worker", "--stages", "embedding", "--processes", "2"),
                ("worker", "--stages", "gateway,extraction,enrichment,projection,recall"),
            )
        ):
            assert " ".join(("afterturn", *command)) in PAGE
            # One of them serves the samples of all workers of this machine.
            site.environment["AFTERTURN_WORKER__METRICS_PORT"] = port if "extraction" in command[-1] else "0"
            processes.enter_context(site.running(tmp_path / f"{nth}.log", *command))
        api = f"http://127.0.0.1:{site.environment['AFTERTURN_API__PORT']}"
        wait_until(lambda: answers(f"{api}/health/ready"), "the API is ready")
        said = tmp_path / "talk.txt"
        said.write_text("Ann: The ferry to Split leaves at nine.\nBob: I packed the blue tent.\n")
        ingested = site.run("ingest", str(said))
        assert ingested.returncode == 0, ingested.stderr
        wait_until(lambda: json.loads(site.run("status", "--json").stdout)["undone"] == 0, "all stages are done")
        found = json.loads(site.run("recall", "When does the ferry leave?", "--json").stdout)
        assert "leaves at nine" in json.dumps(found)
        probes = f"http://127.0.0.1:{site.environment['AFTERTURN_WORKER__METRICS_PORT']}"
        assert answers(f"{probes}/health/live")
        assert answers(f"{probes}/health/ready")
        counted = 'afterturn_stage_total{stage="extraction",status="done"}'
        wait_until(lambda: counted in httpx.get(f"{probes}/metrics").text, "the worker has counted what it did")
        told = httpx.get(f"{api}/metrics").text
        assert 'afterturn_ledger_rows{stage="extraction",status="pending"} 0.0' in told
        assert "afterturn_database_connections_max " in told
        # The workers of this machine tell of themselves: nothing is counted twice.
        assert not re.search(r"^afterturn_stage_total.stage=.extraction.* [1-9]", told, re.MULTILINE)
        assert httpx.get(f"{probes}/").status_code == 404
        listed = site.run("keys", "list", "--json")
        assert "my agents" in listed.stdout
        assert site.run("doctor").returncode == 0
        assert site.run("replay", "--verify", "--json").returncode == 0


@pytest.mark.slow
def test_a_schema_of_another_version_is_refused_and_not_touched(site: Site) -> None:
    site.administer("create extension if not exists vector")
    assert site.run("db", "init").returncode == 0
    site.administer("update public.afterturn_version set version_num = '0999_unheard_of'")
    refused = site.run("db", "migrate")
    assert refused.returncode == 1
    assert "0999_unheard_of" in refused.stderr
    assert json.loads(site.run("db", "status", "--json").stdout)["ready"] is False
    site.administer(f"update public.afterturn_version set version_num = '{migrations.newest_revision()}'")
    assert site.run("db", "migrate").returncode == 0


@pytest.mark.parametrize("command", [("api",), ("worker",), ("keys", "list"), ("db", "init"), ("db", "migrate")])
def test_a_setting_that_is_missing_is_named(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AFTERTURN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AFTERTURN_DATA", str(tmp_path))
    result = CliRunner().invoke(build_cli(command[0]), command)
    assert result.exit_code == 2
    assert "AFTERTURN_DATABASE__" in result.output


def test_a_verifier_is_what_the_server_makes_of_a_password() -> None:
    kind, _, rest = make_verifier("pencil").partition("$")
    rounds, _, salt = rest.partition("$")[0].partition(":")
    assert (kind, rounds, len(salt)) == ("SCRAM-SHA-256", "4096", 24)
    assert make_verifier("pencil") != make_verifier("pencil")


def test_every_command_of_the_page_is_there() -> None:
    lines = [line.split("#")[0].split() for line in PAGE.splitlines() if "afterturn " in line and line[:1] not in "|#"]
    named = {line[line.index("afterturn") + 1] for line in lines if line[:1] == ["afterturn"]}
    assert {"db", "keys", "ingest", "recall", "status", "worker"} <= named
    for name in named:
        assert build_requested_cli([name]).registered_commands or build_requested_cli([name]).registered_groups
