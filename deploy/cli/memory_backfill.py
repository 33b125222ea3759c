"""`memory-backfill`: `afterturn plugin backfill` under its console-script name, with Go-style flags."""

import re
import sys
from collections.abc import Iterable, Iterator

from deploy.cli.entry_point import main as run_command_line

_GO_FLAG = re.compile(r"--?([a-z][a-z-]+)(?:=(.*))?", re.DOTALL)
SWITCHES = frozenset({"dry-run", "apply", "verify", "reverse", "strict", "restart"})
_TRUE, _FALSE = (
    frozenset({"1", "t", "T", "true", "TRUE", "True"}),
    frozenset({"0", "f", "F", "false", "FALSE", "False"}),
)


def main() -> None:
    """Run the command with the flags of `sys.argv`."""
    sys.argv[1:] = ["plugin", "backfill", *translate_flags(sys.argv[1:])]
    run_command_line()


def translate_flags(arguments: Iterable[str]) -> Iterator[str]:
    """Yield flags as Go programs take them (`-dry-run`, `-apply=true`, `-verify-sample=200`) in their long form."""
    for argument in arguments:
        found = _GO_FLAG.fullmatch(argument)
        if found is None:
            yield argument
            continue
        name, value = found.groups()
        if name in SWITCHES and value in _FALSE:
            continue
        yield f"--{name}" if value is None or (name in SWITCHES and value in _TRUE) else f"--{name}={value}"
