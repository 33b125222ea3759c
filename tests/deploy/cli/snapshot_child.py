"""`afterturn snapshot` in a process of its own, which stops in a phase and says so, for a test to kill it there."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from deploy.cli import snapshot_transfer
from deploy.cli.app import build_cli
from producers.cutover.lines import write_line
from store.snapshot.importing import Imports


def stop(*_: object, **__: object) -> Any:
    """Say that the phase is reached, and wait to be killed."""
    sys.stdout.write("stopped\n")
    sys.stdout.flush()
    time.sleep(600)


def stop_at(call: int, usual: Callable[..., Any], reached: Callable[..., Any] = stop) -> Callable[..., Any]:
    """Return a function that does as usual until this call of it."""
    calls = 0

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return reached(*arguments, **named) if calls == call else usual(*arguments, **named)

    return counted


def write_half(out: Any, line: Mapping[str, Any]) -> None:
    """Write the beginning of a line, and stop."""
    out.write(str(line).encode()[:20])
    out.flush()
    stop()


def main(phase: str, *arguments: str) -> None:
    """Run the command until the phase: half a line of an export; a batch that was appended and not noted; deriving."""
    if phase == "export":
        vars(snapshot_transfer)["write_line"] = stop_at(6, write_line, write_half)
    elif phase == "import":
        Imports._save = stop_at(2, Imports._save)  # type: ignore[method-assign]
    else:
        Imports._note_banks = stop  # type: ignore[method-assign]
    build_cli("snapshot")(["snapshot", *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
