"""Commands that run in the test's own process."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Signals as a command finds them in a process of its own; those of the run come back afterwards."""
    kept = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in {**kept, signal.SIGINT: interrupt}.items():
        signal.signal(number, handler)
