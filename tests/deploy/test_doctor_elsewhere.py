"""`afterturn doctor` on servers that somebody else runs: what it advises fits what was configured."""

import json
from pathlib import Path

import pytest
from afterturn_client.contract.installation import Finding
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.cli.orphaned_databases import ORPHANED
from deploy.components import doctor_checks, doctor_rules
from deploy.components.database_checks import judge_revision
from deploy.components.doctor_checks import DoctorTarget
from deploy.components.doctor_rules import CheckVerdict, report_ok
from tests.client.loopback import closed_port
from tests.deploy.operated import Operated
from tests.servers import TestValkey

PORT = closed_port().rpartition(":")[2]
DATABASE = f"postgresql+asyncpg://app:hunter2@127.0.0.1:{PORT}/x"
SERVERS = {
    "AFTERTURN_DATABASE__URL": DATABASE,
    "AFTERTURN_DATABASE__OPERATOR_URL": DATABASE,
    "AFTERTURN_BROKER__URL": f"redis://:hunter2@127.0.0.1:{PORT}/0",
}
CLIENT = {"AFTERTURN_CLIENT__URL": closed_port(), "AFTERTURN_CLIENT__KEY": "at_hunter2"}
#: A configuration, then each finding that is not well, with words of what to do about it.
TABLE: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "servers that are away": (
        SERVERS,
        {"PostgreSQL": "the server of database.url", "Redis": "the server of broker.url"},
    ),
    "a database alone": (
        {"AFTERTURN_DATABASE__URL": DATABASE},
        {"settings": "docs/operations.md", "PostgreSQL": "the server of database.url"},
    ),
    "a broker alone": (
        {"AFTERTURN_BROKER__URL": SERVERS["AFTERTURN_BROKER__URL"]},
        {"settings": "docs/operations.md", "Redis": "the server of broker.url"},
    ),
    "servers and an API that is away": (
        SERVERS | CLIENT,
        {"PostgreSQL": "database.url", "Redis": "broker.url", "API": "`afterturn api`"},
    ),
    "an API alone": (CLIENT, {"API": "`afterturn api`"}),
    "an operator's key": (CLIENT | {"AFTERTURN_CLIENT__KEY": "op_hunter2"}, {"API": "`afterturn api`"}),
    "an API without a key": ({"AFTERTURN_CLIENT__URL": closed_port()}, {"API": "client.key (AFTERTURN_CLIENT__KEY)"}),
    "an API over plain http": (
        {"AFTERTURN_CLIENT__URL": "http://memory.example", "AFTERTURN_CLIENT__KEY": "at_hunter2"},
        {"API": "https"},
    ),
    "nothing": ({}, {"stack": "`afterturn up`"}),
}


async def pass_model(_target: DoctorTarget) -> Finding:
    """Stand for the look at the model, which is the same everywhere and takes its time."""
    return report_ok("sentence model", "not looked at")


def examine(folder: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return what the doctor of a machine without a stack finds, by subject."""
    monkeypatch.setattr(doctor_checks, "check_model", pass_model)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.delenv("AFTERTURN_DATA", raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(build_cli("doctor"), ["doctor", "--json"])
    assert "hunter2" not in done.stdout + done.stderr
    # Folders that other commands of this machine left behind are this machine's business.
    found = [one for one in json.loads(done.stdout)["findings"] if one["subject"] not in {ORPHANED, "disk"}]
    assert done.exit_code == int(any(one["verdict"] == "fail" for one in found)), done.stderr
    return {one["subject"]: one for one in found}


@pytest.mark.parametrize("name", TABLE)
def test_advice_fits_what_was_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    settings, expected = TABLE[name]
    found = examine(tmp_path, monkeypatch, settings)
    unwell = {subject: one["remedy"] for subject, one in found.items() if one["verdict"] != "ok"}
    assert set(unwell) == set(expected)
    for subject, words in expected.items():
        assert words in unwell[subject]
    if settings:
        assert "afterturn up" not in str(found)


def test_servers_that_answer_are_looked_at_and_nothing_is_missed(
    operated: Operated, valkey: TestValkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "AFTERTURN_DATABASE__URL": operated.postgres.app_url,
        "AFTERTURN_DATABASE__OPERATOR_URL": operated.postgres.operator_url,
        "AFTERTURN_DATABASE__OWNER_URL": operated.postgres.owner_url,
        "AFTERTURN_BROKER__URL": valkey.url,
    }
    found = examine(tmp_path, monkeypatch, settings)
    for subject in ("settings", "PostgreSQL version", "pgvector", "tenant isolation", "migrations", "log", "Redis"):
        assert found[subject]["verdict"] == "ok", found[subject]
    assert not {"stack", "embedded PostgreSQL", "embedded Valkey", "API"} & set(found)


@pytest.mark.parametrize(
    "finding, words",
    [
        (doctor_rules.judge_schema_revision(None, "0002", judge_revision(None, None)), "`afterturn up`"),
        (doctor_rules.judge_log_stamp(at_home=False, foreign=True), "database.owner_url"),
        (doctor_rules.judge_pgvector_version(None), "install pgvector"),
    ],
)
def test_each_failure_is_followed_by_what_to_do(finding: Finding, words: str) -> None:
    assert finding.verdict is CheckVerdict.FAIL
    assert words in finding.remedy


def test_a_foreign_schema_is_migrated_by_a_command() -> None:
    finding = doctor_rules.judge_schema_revision(None, "0002", judge_revision(None, None), foreign=True)
    assert finding.verdict is CheckVerdict.FAIL
    assert "`afterturn db migrate`" in finding.remedy
    assert "afterturn up" not in finding.remedy
