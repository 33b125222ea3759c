"""`afterturn profile`: what it asks, what it shows, how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse
from typer.testing import CliRunner, Result

from deploy.cli.app import build_cli
from tests.client.loopback import Loopback
from tests.client.twins import FACT
from tests.deploy.native_double import NativeDouble, stand_in

NOW = {**FACT, "deletion_proposed_by": []}
BEFORE = {**NOW, "value": "Porto", "text": "Ana lives in [b]Porto\x1b[31m.", "until": "2026-02-01T00:00:00+00:00"}
TOLD: dict[str, Any] = {
    "names": ["Ana Lima"],
    "facts": [{**NOW, "history": [BEFORE]}],
    "beside": [{"name": "Bo", "kind": "person", "units": 4}],
    "whole": False,
    "ended": [],
    "cursor": "next",
    "has_more": True,
}


@pytest.fixture
def data(server: Loopback, tmp_path: Path) -> Iterator[Path]:
    server.reset()
    lock = stand_in(tmp_path / "data", server, NativeDouble(answers={"/api/v1/profile": TOLD}))
    yield tmp_path / "data"
    lock.release()


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(build_cli("profile"), ["profile", *arguments, "--data", str(data)])


def test_a_profile_says_since_when_and_from_where(server: Loopback, data: Path) -> None:
    result = run(data, "--name", "Ana", "--history")
    assert result.exit_code == 0, result.stderr
    assert server.seen[0].params == {"name": "Ana", "history": "true", "limit": "200"}
    for told in ("Ana Lima", "Ana lives in Lisbon.", "stated in 2 turns", "default/s/t", "[b]Porto", "Bo (person, 4)"):
        assert told in result.stdout
    assert "1 fact; more: --cursor next" in result.stdout
    assert "\x1b" not in result.stdout


def test_proposals_to_delete_and_facts_that_ended_are_told(server: Loopback, data: Path) -> None:
    message = "7b1f7c1e-0000-5000-8000-000000000007"
    ended = [
        {"state": "deleted", "why": "source_forgotten", "facts": 2},
        {"state": "expired", "why": "tier", "facts": 1},
    ]
    facts = [{**FACT, "deletion_proposed_by": [message]}]
    server.answers(JSONResponse({**TOLD, "facts": facts, "ended": ended}))
    shown = run(data, "--name", "Ana", "--history").stdout
    assert f"a model proposes to delete it, because of message {message}" in shown
    assert "2 facts deleted: source forgotten\n1 fact expired: tier\n" in shown


def test_json_is_the_services_answer(server: Loopback, data: Path) -> None:
    assert json.loads(run(data, "--user", "ana", "--bank", "b", "--json").stdout) == TOLD
    assert server.seen[0].params == {"user_id": "ana", "bank": "b", "history": "false", "limit": "200"}


def test_a_user_may_be_given_by_the_id_that_is_listed(server: Loopback, data: Path) -> None:
    user, other = "6d3c5f0e-8a41-5c5b-9a55-0d5f6f2d9c11", "6d3c5f0e-8a41-5c5b-9a55-0d5f6f2d9c12"
    first = {"users": [{"user": other, "name": "bo"}], "cursor": "next", "has_more": True}
    second = {"users": [{"user": user, "name": "ana"}], "cursor": None, "has_more": False}
    for listed, named in ((user, "ana"), (other, "bo"), (UNKNOWN, UNKNOWN)):
        pages = [first] if listed == other else [first, second]
        server.answers(*map(JSONResponse, [*pages, TOLD]))
        assert json.loads(run(data, "--user", listed, "--json").stdout) == TOLD
        assert server.seen[-1].params["user_id"] == named


NOTHING: dict[str, Any] = {"names": [], "facts": [], "beside": [], "whole": False, "cursor": None, "has_more": False}


def test_an_unknown_user_or_bank_is_said(server: Loopback, data: Path) -> None:
    users = {"users": [{"user": UNKNOWN, "name": "ana"}], "cursor": None, "has_more": False}
    home = {
        "bank": "home",
        "scope": "host",
        "user": None,
        "agent": None,
        "language": "auto",
        "settled": True,
        "expires_at": None,
    }
    banks = {"banks": [home], "cursor": None, "has_more": False}
    server.answers(*map(JSONResponse, (NOTHING, users)))
    nobody = run(data, "--user", "nobody")
    assert (nobody.exit_code, "no user 'nobody'" in nobody.stderr) == (0, True)
    server.answers(*map(JSONResponse, (NOTHING, users)))
    assert run(data, "--user", "ana").stderr == ""
    server.answers(*map(JSONResponse, (NOTHING, banks)))
    nowhere = run(data, "--user", "ana", "--bank", "nope")
    assert (nowhere.exit_code, "no bank 'nope'" in nowhere.stderr) == (1, True)
    assert nowhere.stdout == ""


UNKNOWN = "6d3c5f0e-8a41-5c5b-9a55-0d5f6f2d9c99"


def test_nobody_is_wrong_usage(server: Loopback, data: Path) -> None:
    assert run(data).exit_code == 2
    assert server.seen == []
