"""The remote service that global options name."""

from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple


class Elsewhere(NamedTuple):
    """`--url` with `--key` or `--key-file`, or the name of a context; all None: nothing is named."""

    url: str | None = None
    key: str | None = None
    key_file: Path | None = None
    context: str | None = None


#: What this command line names; the command reads it where it looks for its service.
NAMED: ContextVar[Elsewhere | None] = ContextVar("elsewhere", default=None)
