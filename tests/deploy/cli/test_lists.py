"""`afterturn banks|sessions|turns|users`: lists over HTTP, with the cursor of the next page."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from starlette.responses import JSONResponse
from typer.testing import CliRunner, Result

from deploy.cli.app import build_cli
from tests.client.loopback import Loopback
from tests.deploy.native_double import NativeDouble, stand_in

AT = "2026-01-02T03:04:05+00:00"
SESSION = {"session_id": "monday", "turns": 1, "messages": 2, "last_position": 7, "updated_at": AT}


def page(name: str, *rows: dict[str, Any], cursor: str | None = None) -> JSONResponse:
    return JSONResponse({name: list(rows), "cursor": cursor, "has_more": cursor is not None})


@pytest.fixture
def data(server: Loopback, tmp_path: Path) -> Iterator[Path]:
    server.reset()
    lock = stand_in(tmp_path / "data", server, NativeDouble())
    yield tmp_path / "data"
    lock.release()


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(build_cli(arguments[0]), [*arguments, "--data", str(data)])


def test_a_list_prints_its_page_and_how_to_go_on(server: Loopback, data: Path) -> None:
    server.answers(page("sessions", SESSION, cursor="next"))
    result = run(data, "sessions", "list", "--bank", "b", "--limit", "1", "--cursor", "before", "--json")
    assert json.loads(result.stdout) == {"sessions": [SESSION], "cursor": "next", "has_more": True}
    assert server.seen[-1].params == {"bank": "b", "limit": "1", "cursor": "before"}
    shown = run(data, "sessions", "list")
    assert "monday" in shown.stdout
    assert "--cursor next" in shown.stderr


def test_show_looks_through_all_pages_and_says_when_nothing_is_called_so(server: Loopback, data: Path) -> None:
    server.answers(page("sessions", {**SESSION, "session_id": "sunday"}, cursor="next"), page("sessions", SESSION))
    assert json.loads(run(data, "sessions", "show", "monday", "--json").stdout) == SESSION
    assert server.seen[-1].params["cursor"] == "next"
    server.answers(page("users"))
    missing = run(data, "users", "show", "ana")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "'ana'" in missing.stderr


def test_a_turn_is_shown_with_its_stages_and_what_was_said(server: Loopback, data: Path) -> None:
    message = {"unit_id": ID, "ordinal": 0, "role": "user", "name": None, "content": "hello", "occurred_at": AT}
    message |= {"parts": [], "cut": False}
    stage = {"status": "done", "attempts": 1, "updated_at": AT, "error": None}
    turn = {"id": ID, "position": 7, "accepted_at": AT, "stages": {"extraction": stage}, "messages": [message]}
    server.answers(JSONResponse(turn))
    told = json.loads(run(data, "turns", "show", "monday", "1", "--json").stdout)
    assert (told["messages"], told["stages"]["extraction"]["status"]) == ([message], "done")
    assert "hello" in run(data, "turns", "show", "monday", "1").stdout


ID = "0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e20"
OWNER = {"user": None, "agent": None}
BANK = {"bank": "household", "scope": "host", **OWNER, "language": "en", "settled": True, "expires_at": None}
UNIT = {"unit_id": ID, "kind": "experience", "text": "We fly on Friday", "cut": False, "origin": "message"}
UNIT |= {
    "session_id": "s",
    "turn_id": "t",
    "ordinal": 0,
    "role": "user",
    "name": None,
    "occurred_at": AT,
    "position": 1,
}


def test_units_are_listed_as_the_service_has_them(server: Loopback, data: Path) -> None:
    server.answers(page("units", UNIT, cursor="next"))
    assert json.loads(run(data, "units", "list", "--bank", "b", "--json").stdout)["units"] == [UNIT]
    assert server.seen[-1].params == {"bank": "b", "limit": "200"}
    assert "We fly on Friday" in run(data, "units", "list").stdout


def test_units_of_a_user_are_listed_by_name_or_by_the_listed_id(server: Loopback, data: Path) -> None:
    server.answers(page("units", UNIT))
    assert run(data, "units", "list", "--user", "ann").exit_code == 0
    assert server.seen[-1].params["user_id"] == "ann"
    listed = {"user": str(UUID(int=7)), "name": "ann"}
    server.answers(page("users", listed), page("units", UNIT))
    assert run(data, "units", "list", "--user", listed["user"]).exit_code == 0
    assert server.seen[-1].params["user_id"] == "ann"


@pytest.mark.parametrize("arguments", [("sessions", "list"), ("units", "list"), ("turns", "list", "monday")])
def test_an_unknown_bank_is_named_with_those_that_are_there(
    server: Loopback, data: Path, arguments: tuple[str, ...]
) -> None:
    server.answers(page(arguments[0]), page("banks", BANK))
    missing = run(data, *arguments, "--bank", "houshold")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "'houshold'" in missing.stderr
    assert "household" in missing.stderr


def test_an_empty_bank_and_an_unknown_session_say_so(server: Loopback, data: Path) -> None:
    own = {**BANK, "bank": "~ana/household"}
    server.answers(page("units"), page("banks", own))
    empty = run(data, "units", "list", "--bank", "household")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "there are no units" in empty.stderr
    server.answers(page("turns"), page("banks", BANK))
    missing = run(data, "turns", "list", "monday", "--bank", "household")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "'monday'" in missing.stderr
