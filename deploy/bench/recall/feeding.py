"""Turns as fast as they are taken, from a process of their own: what making them up costs is never taken for ours.

`python -P -m deploy.bench.recall.feeding URL`, the key on standard input. It goes on until it is ended.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from afterturn_client import Afterturn, Message, NewTurn

from deploy.bench.talk import BANK, Talk
from deploy.embedded.child import tied
from store import turns as stored

#: Turns of one request, as `afterturn ingest` sends them.
TOGETHER = 100


@contextmanager
def fed(url: str, key: str) -> Iterator[None]:
    """Have the service fed while the block runs; the block begins when it has taken the first turns."""
    argv = [sys.executable, "-P", "-m", __name__, url]
    process = subprocess.Popen(
        tied(argv, None, signal.SIGKILL), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        if process.stdin is not None and process.stdout is not None:
            process.stdin.write(f"{key}\n")
            process.stdin.flush()
            process.stdout.readline()
        yield
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Send batch after batch."""
    with Afterturn(sys.argv[1], sys.stdin.readline().strip(), bank=BANK, timeout_s=30.0) as client:
        for nth in count():
            client.add_turns([_told(turn) for turn in Talk(f"fed-{nth}").take(TOGETHER)])
            if not nth:
                print("fed", flush=True)


def _told(turn: stored.NewTurn) -> NewTurn:
    return NewTurn(turn.session_id, [Message(one.role, one.content) for one in turn.messages], turn.turn_id)


if __name__ == "__main__":
    main()
