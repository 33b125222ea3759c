"""An error about a key names what the command read it from: an option, a file, a setting or a context."""

from pathlib import Path

import pytest
from starlette.responses import JSONResponse
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from tests.client.loopback import Loopback
from tests.deploy.native_double import refusal

WRONG = "at_" + "w" * 40


@pytest.mark.parametrize("way", ["option", "file", "setting", "context"])
def test_a_wrong_key_is_blamed_on_what_holds_it(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    server.reset()
    server.answer = lambda _seen: JSONResponse(refusal("UNAUTHENTICATED", "no such key"), 401)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("AFTERTURN_DATA", raising=False)
    file = tmp_path / "my-key"
    file.write_text(WRONG)
    if way == "setting":
        monkeypatch.setenv("AFTERTURN_CLIENT__KEY", WRONG)
    if way == "context":
        add = ["context", "add", "home", "--url", server.url, "--key-file", str(file), "--allow-http"]
        added = CliRunner().invoke(build_cli("context"), add)
        assert added.exit_code == 0, added.stderr
    where = {"option": ["--key", WRONG], "file": ["--key-file", str(file)], "setting": [], "context": []}[way]
    place = ["--context", "home"] if way == "context" else ["--url", server.url]
    result = CliRunner().invoke(build_cli("sessions"), [*place, *where, "sessions", "list"])
    named = {"option": "--key", "file": str(file), "setting": "AFTERTURN_CLIENT__KEY", "context": "context home"}[way]
    assert result.exit_code == 2
    assert "does not know the key that" in result.stderr
    assert named in result.stderr.replace("\n", " ")
    assert "api-key" not in result.stderr
    assert WRONG not in result.stderr
