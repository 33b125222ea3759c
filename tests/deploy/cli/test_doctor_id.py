"""`afterturn doctor --id`: the ids that log lines have for names."""

import json

import pytest
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from store import identity

BANK = identity.bank_id(identity.host_id("acme"), "garden")
SESSION = identity.session_id(BANK, "monday")


@pytest.mark.parametrize(
    "arguments, kind, found",
    [
        (["garden"], "project", BANK),
        (["monday", "--bank", "garden"], "session", SESSION),
        (["7", "--bank", "garden", "--session", "monday"], "turn", identity.turn_id(SESSION, "7")),
    ],
)
def test_a_name_is_found_in_the_log_by_its_id(arguments: list[str], kind: str, found: object) -> None:
    asked = ["doctor", "--id", *arguments, "--host", "acme"]
    said = CliRunner().invoke(build_cli(), asked)
    assert (said.exit_code, said.output.strip()) == (0, str(found))
    assert json.loads(CliRunner().invoke(build_cli(), [*asked, "--json"]).output) == {"id": str(found), "kind": kind}


def test_a_session_is_one_of_a_project() -> None:
    said = CliRunner().invoke(build_cli(), ["doctor", "--id", "7", "--session", "monday"])
    assert said.exit_code == 2
