"""The remote service that global options name."""

from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple


class RemoteOptions(NamedTuple):
    """The global options `--url` with `--key` or `--key-file`, or `--context`; None: not given."""

    url: str | None = None
    key: str | None = None
    key_file: Path | None = None
    context: str | None = None


#: The global options of this command line, which a command reads when it looks for its service.
NAMED: ContextVar[RemoteOptions | None] = ContextVar("remote_options", default=None)
