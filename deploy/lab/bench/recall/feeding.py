"""Sends turns as fast as the service accepts them, from a process of its own, whose cost is not counted as ours.

`python -P -m deploy.lab.bench.recall.feeding URL BANK`, with the key on standard input. It runs until it is killed,
and prints a line for each accepted batch.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from afterturn_client import Afterturn, Message, NewTurn

from deploy.lab.bench.talk import TurnGenerator
from deploy.local.child import wrap_command
from store.memory import turns as stored

#: Turns of one request, as `afterturn ingest` sends them.
BATCH_TURNS = 100


class LoadStopped(Exception):
    """The feeding process stopped, so the figures are not those of a service under ingestion."""


@dataclass(slots=True)
class LoadTotals:
    """The rate of accepted turns, set when the block has ended."""

    turns_per_s: float = 0.0


@contextmanager
def run_background_load(url: str, key: str, bank: str) -> Iterator[LoadTotals]:
    """Feed a bank while the block runs, which starts when the first turns are accepted. Raises LoadStopped."""
    argv = [sys.executable, "-P", "-m", __name__, url, bank]
    process = subprocess.Popen(
        wrap_command(argv, None, signal.SIGKILL), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    taken = LoadTotals()
    try:
        _take_first(process, key)
        started = time.monotonic()
        yield taken
        if process.poll() is not None:
            raise LoadStopped("the service was not fed to the end")
    finally:
        process.kill()
        rest, _ = process.communicate()
    taken.turns_per_s = rest.count("\n") * BATCH_TURNS / (time.monotonic() - started)


def _take_first(process: "subprocess.Popen[str]", key: str) -> None:
    if process.stdin is not None and process.stdout is not None:
        process.stdin.write(f"{key}\n")
        process.stdin.flush()
        if process.stdout.readline():
            return
    raise LoadStopped("the service took no turns")


def main() -> None:
    """Send batches of turns endlessly."""
    _, url, bank = sys.argv
    with Afterturn(url, sys.stdin.readline().strip(), bank=bank, timeout_s=30.0, allow_http=True) as client:
        for nth in count():
            client.add_turns([_convert_turn(turn) for turn in TurnGenerator(f"fed-{nth}").take(BATCH_TURNS)])
            print("taken", flush=True)


def _convert_turn(turn: stored.NewTurn) -> NewTurn:
    return NewTurn(turn.session_name, [Message(one.role, one.content) for one in turn.messages], turn.turn_name)


if __name__ == "__main__":
    main()
