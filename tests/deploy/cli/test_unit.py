"""`afterturn unit`: what it sends, what it shows, how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response
from typer.testing import CliRunner, Result

from deploy.cli.app import build_cli
from tests.client.loopback import Loopback, Seen
from tests.deploy.native_double import NativeDouble, refusal, stand_in

UNIT, SOURCE, LATER, FACT, NEAR = (f"7b1f7c1e-0000-5000-8000-00000000000{n}" for n in range(5))
PATH = f"/api/v1/units/{UNIT}"
SHOWN = {
    "unit_id": UNIT,
    "kind": "world",
    "text": "The user lives in [bold]Porto[/bold]\x1b[31m",
    "origin": "extraction",
    "session_id": "s",
    "turn_id": "t/1",
    "ordinal": None,
    "role": None,
    "name": "Ana",
    "occurred_at": "2026-01-02T03:04:05+00:00",
    "position": 12,
    "metadata": {"confidence": "0.95", "key": "home"},
    "sources": [SOURCE],
    "entities": ["Porto"],
    "valid_from": "2026-01-02T03:04:05+00:00",
    "valid_to": "2026-02-02T03:04:05+00:00",
    "superseded_by": LATER,
    "state": "superseded",
    "state_by": LATER,
    "deletion_proposed_by": [],
    "version": 2,
    "pinned": True,
    "former": [
        {"version": 1, "text": "She lives in Faro", "pinned": False, "recorded_at": "2026-01-01T00:00:00+00:00"}
    ],
    "expires_at": None,
    "facts": [{"unit_id": FACT, "text": "a fact"}],
    "links": [
        {
            "unit_id": NEAR,
            "kind": "semantic",
            "weight": 0.8125,
            "direction": "to",
            "excerpt": "in\nPorto",
        }
    ],
}
DONE = {"ok": True, "unit_id": UNIT, "position": 13, "changed": True, "facts_ended": 1}


def reply(seen: Seen) -> Response | None:
    match seen.method:
        case "PATCH":
            return JSONResponse(DONE)
        case "DELETE":
            return Response(status_code=204)
    return None


@pytest.fixture
def double() -> NativeDouble:
    return NativeDouble(answers={PATH: SHOWN}, before=reply)


@pytest.fixture
def data(server: Loopback, double: NativeDouble, tmp_path: Path) -> Iterator[Path]:
    server.reset()
    lock = stand_in(tmp_path / "data", server, double)
    yield tmp_path / "data"
    lock.release()


def run(data: Path, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(build_cli("unit"), ["unit", *arguments, "--data", str(data)], input=stdin)


def test_a_unit_is_shown_with_all_that_is_known_of_where_it_comes_from(server: Loopback, data: Path) -> None:
    result = run(data, "show", UNIT, "--bank", "b")
    assert result.exit_code == 0, result.stderr
    assert server.seen[0].params == {"bank": "b"}
    for told in (
        "[bold]Porto[/bold]",
        "Ana",
        "s/t/1",
        "0.95",
        SOURCE,
        f"{FACT}  a fact",
        f"superseded by {LATER}",
        "12",
    ):
        assert told in result.stdout
    assert "1, since 2026-01-01T00:00:00+00:00  She lives in Faro" in result.stdout
    assert "pinned  yes" in result.stdout
    assert f"semantic 0.81 to {NEAR}  in Porto" in result.stdout
    assert "\x1b" not in result.stdout


def test_json_is_the_services_answer(data: Path) -> None:
    assert json.loads(run(data, "show", UNIT, "--json").stdout) == SHOWN


@pytest.mark.parametrize("text, stdin", [("We sail", None), ("-", "We sail\n")])
def test_a_correction_is_sent_as_it_was_given(server: Loopback, data: Path, text: str, stdin: str | None) -> None:
    result = run(data, "correct", UNIT, text, "--version", "2", "--json", stdin=stdin)
    assert json.loads(result.stdout) == DONE
    assert (server.seen[0].method, server.seen[0].json) == ("PATCH", {"content": "We sail", "version": 2})
    assert "1 facts of the old text ended" in run(data, "correct", UNIT, "We sail").stdout


def test_a_unit_that_changed_meanwhile_ends_with_one(data: Path, double: NativeDouble) -> None:
    double.before = lambda _seen: JSONResponse(refusal("VERSION_CONFLICT", "another writer wrote that version"), 409)
    result = run(data, "correct", UNIT, "We sail", "--version", "1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "another writer wrote that version" in result.stderr


def test_what_is_not_found_may_be_in_another_bank(data: Path, double: NativeDouble) -> None:
    double.before = lambda _seen: JSONResponse(refusal("NOT_FOUND", "no such unit"), 404)
    for words in (["show", UNIT], ["forget", UNIT, "--yes"], ["correct", UNIT, "x"]):
        result = run(data, *words)
        assert result.exit_code == 1
        assert "no such unit" in result.stderr
        assert "--bank" in result.stderr


def test_nothing_is_forgotten_unless_it_was_said_beforehand(server: Loopback, data: Path) -> None:
    assert run(data, "forget", UNIT).exit_code == 2
    assert server.seen == []
    result = run(data, "forget", UNIT, "--yes", "--keep-facts", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"ok": True, "unit_id": UNIT, "facts_left": 1})
    assert [(seen.method, seen.path) for seen in server.seen] == [("GET", PATH), ("DELETE", PATH)]


def test_forgetting_says_how_many_facts_stay_and_how_they_are_forgotten(
    server: Loopback, data: Path, double: NativeDouble
) -> None:
    result = run(data, "forget", UNIT, "--yes", "--keep-facts")
    assert result.stdout == "forgotten\n"
    assert f"1 facts drawn from it stay: `afterturn unit forget {UNIT}` forgets them" in result.stderr
    told = {"ok": True, "unit_id": UNIT, "position": 9, "facts_forgotten": 1}
    double.before = lambda seen: JSONResponse(told) if seen.params.get("with_facts") == "true" else None
    server.reset()
    server.answer = double.answer
    forgotten = run(data, "forget", UNIT, "--yes", "--json")
    assert json.loads(forgotten.stdout) == {"ok": True, "unit_id": UNIT, "facts_forgotten": 1}
    assert [seen.method for seen in server.seen] == ["DELETE"]
