"""`afterturn bank language`: what it sends, what it says, how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response
from typer.testing import CliRunner, Result

from deploy.cli.app import build_cli
from tests.client.loopback import Loopback, Seen
from tests.deploy.native_double import NativeDouble, refusal, stand_in

TOLD = {"ok": True, "bank": "a/b", "language": "de", "settled": False}


def reply(seen: Seen) -> Response | None:
    if seen.json == {"language": "de"}:
        return JSONResponse({**TOLD, "scope": "host", "user": None, "agent": None, "expires_at": None})
    return JSONResponse(refusal("INVALID_ARGUMENT", "language: must be one of auto"), 422)


@pytest.fixture
def data(server: Loopback, tmp_path: Path) -> Iterator[Path]:
    server.reset()
    lock = stand_in(tmp_path / "data", server, NativeDouble(before=reply))
    yield tmp_path / "data"
    lock.release()


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(build_cli("bank"), ["bank", "language", *arguments, "--data", str(data)])


def test_a_language_is_sent_to_the_bank_and_what_follows_is_said(server: Loopback, data: Path) -> None:
    result = run(data, "a/b", "de")
    assert (result.exit_code, result.stdout) == (0, "a/b: de; older words follow\n"), result.stderr
    assert (server.seen[0].method, server.seen[0].path) == ("PATCH", "/api/v1/banks/a/b")
    assert json.loads(run(data, "a/b", "de", "--json").stdout) == TOLD


def test_what_is_no_language_is_wrong_usage(data: Path) -> None:
    result = run(data, "a/b", "tlh")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "must be one of auto" in result.stderr
