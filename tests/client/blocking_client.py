"""Makes the client that blocks of the one that awaits: `python -m tests.client.blocking_client` writes it."""

import subprocess
import sys
from pathlib import Path

import afterturn_client

PACKAGE = Path(afterturn_client.__file__).parent
BLOCKING = PACKAGE / "blocking_client.py"
#: What stands in the one that awaits, and in its place in the other; the order matters.
REPLACED = (
    ('"""The client that awaits. `blocking_client.py`, the one that blocks, is made of this text."""', ""),
    ("        self._traced = transport is None\n", ""),
    ("make_attempts(self._http, steps, traced=self._traced)", "make_attempts_blocking(self._http, steps)"),
    ("import make_attempts\n", "import make_attempts_blocking\n"),
    ("Use it on one event loop, and close it.", "Use it in one thread at a time, and close it."),
    (
        "Every call waits at most `timeout_s` seconds an attempt and is",
        "Each wait on the network ends after `timeout_s`. A call is",
    ),
    ("async def ", "def "),
    ("await ", ""),
    ("aclose", "close"),
    ("AsyncBaseTransport", "BaseTransport"),
    ("Async", ""),
)
HEAD = (
    '"""The client that blocks. Made of `client.py` by `python -m tests.client.blocking_client`: change it there."""\n'
)


def make_blocking_client() -> str:
    """Return the text of the client that blocks, formatted."""
    text = (PACKAGE / "client.py").read_text()
    for awaiting, blocking in REPLACED:
        if awaiting not in text:
            raise ValueError(f"client.py has no {awaiting!r}")
        text = text.replace(awaiting, blocking)
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(BLOCKING), "-"]
    return subprocess.run(command, input=HEAD + text.lstrip(), capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    BLOCKING.write_text(make_blocking_client())
