"""The process of a hook: it always ends with exit code 0, within a deadline from its start.

An agent reads exit code 2 as "stop the prompt", and anything on standard output as an answer. So the work is done in a
thread, imports included, and the first thread does nothing but wait for it and end the process.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from afterturn_client.errors import InvalidRequestError, UnreachableError

#: Seconds from the start of the process until it has ended; AFTERTURN_HOOK_SECONDS may say others.
DEADLINE_S = 1.8
#: Bytes of an event.
LONGEST_EVENT = 33_554_432
_CHUNK, _LONGEST_SPACE = 65_536, 64
_LATE = "the memory service took too long; the agent goes on without it"
_SILENT = "no whole event came on standard input; the agent goes on without memory"
#: Set when the event has been read.
_EVENT_READ = threading.Event()

#: What answers an event with the text for standard output.
Work = Callable[[], str]


def run_hook(work: Work) -> NoReturn:
    """Do the work, write what it returns, and end the process: exit code 0, in time, never a traceback."""
    answers: list[str] = []
    try:
        worker = threading.Thread(target=_do_work, args=(work, answers), daemon=True)
        worker.start()
        worker.join(max(0.0, read_deadline() - read_process_age()))
        if worker.is_alive():
            say(_LATE if _EVENT_READ.is_set() else _SILENT)
        elif answers:
            _write_bytes(sys.stdout, answers[0].encode("utf-8", "replace"))
    finally:
        # Neither threads that still wait nor buffers that cannot be written may hold up the end or change its code.
        os._exit(0)


def read_event() -> Mapping[str, Any]:
    """Return the JSON object on standard input, as soon as it is whole: an agent may never close its end.

    Raises InvalidRequestError where there is none.
    """
    told = bytearray()
    while sys.stdin is not None and len(told) < LONGEST_EVENT:
        chunk = os.read(sys.stdin.fileno(), _CHUNK)
        told += chunk
        if not chunk or told[-_LONGEST_SPACE:].rstrip(b" \t\r\n\0").endswith(b"}"):
            try:
                # An agent may write a byte order mark, or UTF-16 (PowerShell does).
                event = json.loads(told.decode(json.detect_encoding(told), "replace"))
            except (ValueError, RecursionError):
                if chunk:
                    continue
                break
            if isinstance(event, dict):
                _EVENT_READ.set()
                return event
            break
    raise InvalidRequestError(f"standard input holds no event: a JSON object of at most {LONGEST_EVENT >> 20} MiB")


def say(told: str) -> None:
    """Write a line to standard error, if there is one."""
    _write_bytes(sys.stderr, f"afterturn-client: {told}\n".encode("ascii", "backslashreplace"))


def read_deadline() -> float:
    """Return after how many seconds from its start a hook ends."""
    try:
        return min(max(0.0, float(os.environ["AFTERTURN_HOOK_SECONDS"])), threading.TIMEOUT_MAX)
    except (KeyError, ValueError):
        return DEADLINE_S


def read_process_age() -> float:
    """Return for how many seconds this process has run; 0 where the system does not tell."""
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - pathlib is imported later, in the thread
            begun = int(file.read().rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - begun)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def _do_work(work: Work, answers: list[str]) -> None:
    try:
        answers.append(work())
    except SystemExit:
        pass  # a usage error: the parser has said what was wrong
    except (InvalidRequestError, UnreachableError) as error:
        say(f"no memory this time: {error}")
    except BaseException as error:  # noqa: BLE001 - fails open, and no text of the agent's reaches a log
        say(f"no memory this time ({type(error).__name__})")


def _write_bytes(stream: Any, told: bytes) -> None:
    """Write to a stream's file in any encoding. Nothing is written to a closed one."""
    try:
        while stream is not None and told:
            told = told[os.write(stream.fileno(), told) :]
    except (OSError, ValueError):
        pass
