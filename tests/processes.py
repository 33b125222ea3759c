"""Child processes of a test: whatever happens in the block that starts one, it is gone after it."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def spawned(argv: Sequence[str | Path], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Run a process for as long as the block lasts; what is left of it then is killed, and its pipes are closed."""
    with subprocess.Popen(argv, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def dumps_no_core(pid: int) -> bool:
    """Say whether a process can neither dump core nor allow itself to."""
    [limits] = re.findall(r"Max core file size +(\w+) +(\w+)", Path(f"/proc/{pid}/limits").read_text())
    return set(limits) == {"0"}
