"""Every `afterturn` command that a page shows is there, with the options that it shows."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command

from deploy.cli.app import COMMANDS, build_cli
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "producers/client/README.md", "deploy/compose/README.md")
#: A line of code or of a block, to the end of what is code in it.
SHOWN = re.compile(r"(?:`|^)afterturn ([a-z][^`\n#|]*)", re.MULTILINE)
#: What runs another program's own arguments, which are not looked into.
HANDED_ON = {name for name, command in COMMANDS.items() if command.hands_on}


def pages() -> list[str]:
    return [*PAGES, *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").glob("*.md")))]


@pytest.fixture(scope="module")
def cli() -> Any:
    return get_command(build_cli(*COMMANDS))


def find_faults(cli: Any, words: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with a command line: a command or an option that is not there."""
    command, rest = cli, list(words)
    while hasattr(command, "get_command") and rest and not rest[0].startswith("-"):
        found = command.get_command(click.Context(command), rest[0])
        if found is None:
            yield f"no command {rest[0]!r}"
            return
        command = found
        rest.pop(0)
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    for word in rest:
        if word.startswith("--") and (name := word.partition("=")[0]) not in options:
            yield f"no option {name}"


@each_row("page", pages())
def test_commands_and_options_that_a_page_shows_are_there(page: str, cli: Any) -> None:
    faults = {}
    for line in SHOWN.findall((ROOT / page).read_text(encoding="utf-8")):
        words = shlex.split(line.replace("...", ""))
        if words[0] not in HANDED_ON and (found := list(find_faults(cli, words))):
            faults[line] = found
    assert faults == {}


@pytest.mark.parametrize(
    "line, fault",
    [
        ("recal Ann", "no command 'recal'"),
        ("keys lst", "no command 'lst'"),
        ("erase user x --fast", "no option --fast"),
    ],
)
def test_a_command_that_is_not_there_is_found(line: str, fault: str, cli: Any) -> None:
    assert list(find_faults(cli, shlex.split(line))) == [fault]
