"""What a test changes of its whole process, it puts back: the tests after it run in the same one, in any order."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import structlog

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
#: Variables that are the process's own: pytest's, of the test that runs, and the one that the first model sets.
OWN = frozenset({"PYTEST_CURRENT_TEST", "HF_HUB_OFFLINE"})


def look_at_process() -> dict[str, object]:
    """Return what belongs to the process and not to a test, by name."""
    mask = os.umask(0o077)
    os.umask(mask)
    return {
        "working directory": Path.cwd(),
        "umask": mask,
        "import path": tuple(sys.path),
        "switch interval": sys.getswitchinterval(),
        "recursion limit": sys.getrecursionlimit(),
        "garbage collector": (gc.isenabled(), gc.get_threshold()),
        "level of logging": (logging.root.level, logging.root.manager.disable),
        "handlers of logging": tuple(logging.root.handlers),
        "configuration of structlog": tuple(map(repr, structlog.get_config().items())),
        "context of structlog": tuple(structlog.contextvars.get_contextvars().items()),
        **{f"handler of {number.name}": signal.getsignal(number) for number in SIGNALS},
        **{f"environment {name}": value for name, value in os.environ.items() if name not in OWN},
    }


def name_changes(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """Return the names of what is not as it was."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
