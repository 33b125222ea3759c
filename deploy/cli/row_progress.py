"""Progress of work on many rows: a bar in a terminal, else a line every few seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deploy.notices import print_notice

#: Between two lines of progress, in seconds.
TELL_EVERY_S = 10.0


@contextmanager
def show_progress(of: str = "rows") -> Iterator[Callable[[int, int], None]]:
    """Show progress and the remaining time: a bar in a terminal, else a line every few seconds."""
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    columns = (TextColumn(of), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(of, total=None)
        yield partial(_advance_progress, progress, task, _Pace(of))


class _Pace:
    """Decides when a line of progress is due."""

    def __init__(self, of: str) -> None:
        self._of = of
        self.began = self.printed = time.monotonic()

    def line(self, done: int, total: int) -> str | None:
        """Return a progress line when one is due, else None."""
        now = time.monotonic()
        if now - self.printed < TELL_EVERY_S:
            return None
        self.printed = now
        left_s = (now - self.began) / max(done, 1) * (total - done)
        return f"{done:,} of {total:,} {self._of}, about {timedelta(seconds=round(left_s))} left"


def _advance_progress(progress: Progress, task: Any, pace: _Pace, done: int, total: int) -> None:
    progress.update(task, completed=done, total=total)
    if progress.disable and (line := pace.line(done, total)):
        print_notice(line)
