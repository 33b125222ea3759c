"""The overview of the command line imports no framework, and says what the commands say."""

import json
import os
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from deploy.cli.app import COMMANDS, WITH_VALUE, build_cli, build_requested_cli
from tests.patience import PATIENCE_S
from tests.tables import each_row

HEAVY = {
    "alembic", "asyncpg", "cryptography", "dramatiq", "fastapi", "fastembed", "granian", "httpx", "numpy",
    "onnxruntime", "opentelemetry", "pydantic", "redis", "sqlalchemy", "starlette", "tokenizers", "uvloop", "yaml",
}  # fmt: skip
OURS = {"store", "workers", "producers", "embeddings"}
SCRIPT = """
import json, sys
sys.argv[0] = "afterturn"
from deploy.cli import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_the_overview_imports_no_framework(arguments: tuple[str, ...]) -> None:
    loaded = set(json.loads(run(*arguments).stderr.splitlines()[-1]))
    assert "typer" in loaded
    assert loaded & (HEAVY | OURS) == set()


def test_the_overview_shows_what_each_command_says_of_itself() -> None:
    real = typer.main.get_command(build_cli())
    overview = typer.main.get_command(build_requested_cli([]))
    assert isinstance(real, typer.core.TyperGroup)
    assert isinstance(overview, typer.core.TyperGroup)
    own = {name: (command.help or "").split("\n")[0] for name, command in real.commands.items()}
    assert own == {name: command.help for name, command in COMMANDS.items()}
    assert {name: command.help for name, command in overview.commands.items()} == own


@pytest.mark.parametrize("typed, meant", [("ingst", "ingest"), ("statsu", "status"), ("recal", "recall")])
def test_a_mistyped_command_is_told_which_one_was_meant(typed: str, meant: str) -> None:
    result = CliRunner().invoke(build_requested_cli([typed]), [typed])
    assert result.exit_code == 2
    assert f"'{meant}'" in result.output


@each_row(
    "options", [["--context", "api"], ["--key-file", "up"], ["--url", "bench", "--key", "recall"], ["--key=status"]]
)
def test_a_global_options_value_may_have_the_name_of_a_command(options: list[str]) -> None:
    built = typer.main.get_command(build_requested_cli([*options, "banks", "list"]))
    assert isinstance(built, typer.core.TyperGroup)
    assert list(built.commands) == ["banks"]
    valued = {name for one in built.params if not getattr(one, "is_flag", False) for name in one.opts}
    assert valued - {"--install-completion", "--show-completion"} == WITH_VALUE


def test_a_mistyped_command_before_the_name_of_another_is_told_which_one_was_meant() -> None:
    result = CliRunner().invoke(build_requested_cli(["bnk", "up"]), ["bnk", "up"])
    assert "'bank'" in result.output


def test_a_mistyped_option_is_told_which_one_was_meant() -> None:
    result = CliRunner().invoke(build_requested_cli(["status", "--wach"]), ["status", "--wach"])
    assert result.exit_code == 2
    assert "--watch" in result.output


@pytest.mark.parametrize("line, offered", [("afterturn sta", "status"), ("afterturn status --wa", "--watch")])
def test_a_shell_completes_commands_and_their_options(line: str, offered: str) -> None:
    told = run(_AFTERTURN_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)
    assert offered in told.stdout
