"""Keeps child processes alive: starts them in order, restarts those that die, stops them in reverse.

Each child has a task: prepare, start, wait until ready, wait for its death, back off, repeat. A child that dies
before it was ever ready ends everything at once, because its configuration must be wrong; later, the fifth death of
one child within a minute does. Servers are restarted without limit: PostgreSQL ends itself when it cannot write its
WAL, and a full disk must not end the supervisor.
"""

import asyncio
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from deploy.local.child import Child, describe_failed_start, kill_process_group
from deploy.local.errors import StartFailed
from deploy.notices import Say
from deploy.observability.samples import NO_SPACE

DEATHS_ALLOWED = 5
WINDOW_SECONDS = 60.0
BACKOFF_SECONDS = 0.1
LONGEST_BACKOFF_SECONDS = 5.0
POLL_SECONDS = 0.05
LOG_SECONDS = 60.0
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class RunningChild:
    """The name and process id of a running child."""

    name: str
    pid: int


class Supervisor:
    """Runs children in waves; `say` prints, `on_death` counts deaths, `on_change` gets the running children."""

    def __init__(
        self,
        *,
        say: Say,
        on_death: Callable[[str], None] = lambda _name: None,
        on_change: Callable[[tuple[RunningChild, ...]], None] = lambda _running: None,
    ) -> None:
        self.say = say
        self._on_death = on_death
        self._on_change = on_change
        self._waves: list[list[_ChildSupervisor]] = []
        self._over = asyncio.Event()
        self._hurry = asyncio.Event()
        self._status = 0

    @property
    def running(self) -> tuple[RunningChild, ...]:
        """Return the children that run now, in the order they were started."""
        keepers = (keeper for wave in self._waves for keeper in wave)
        return tuple(RunningChild(keeper.child.name, keeper.pid) for keeper in keepers if keeper.pid is not None)

    async def run(self, begin: Callable[[], Awaitable[None]]) -> int:
        """Run `begin` (which calls `start`), wait for a signal or too many deaths, then stop all children.

        Returns the exit status: 0 after SIGINT, SIGTERM, or SIGHUP that is not ignored, 1 when a child died too often.
        Raises what `begin` raises. A second signal while stopping kills the remaining children.
        """
        loop = asyncio.get_running_loop()
        # Who began it with `nohup` wants it to outlive the terminal.
        ends = [one for one in END_SIGNALS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
        for number in ends:
            loop.add_signal_handler(number, self.end)
        beginning = asyncio.ensure_future(begin())
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({beginning, over}, return_when=asyncio.FIRST_COMPLETED)
            if beginning.done():
                beginning.result()
            await over
            return self._status
        finally:
            beginning.cancel()
            over.cancel()
            await self.stop()
            for number in ends:
                loop.remove_signal_handler(number)

    async def start(self, *children: Child) -> None:
        """Start a wave of children and return when each is ready; raises StartFailed."""
        wave = [_ChildSupervisor(child, self) for child in children]
        self._waves.append(wave)
        await asyncio.gather(*(keeper.first_ready() for keeper in wave))

    def end(self, status: int = 0) -> None:
        """Make `run` stop and return this exit status; a second call kills what is left and keeps the first status."""
        if self._over.is_set():
            self._hurry.set()
            return
        self._status = status
        self._over.set()

    async def stop(self) -> None:
        """Stop all children, the last wave first."""
        for wave in reversed(self._waves):
            await asyncio.gather(*(keeper.stop(self._hurry) for keeper in wave))
        self._waves.clear()

    def changed(self) -> None:
        """Report the changed list of running children to `on_change`."""
        try:
            self._on_change(self.running)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self.say(f"the list of processes cannot be written: {error.strerror}")

    def died(self, child: Child, deaths: int, how: str) -> float | None:
        """Count a death; return the seconds to wait before the restart, or None after too many deaths."""
        name = child.name
        self._on_death(name)
        if deaths >= DEATHS_ALLOWED and not child.for_ever:
            where = f"; what it said is in {child.log}" if child.log else ""
            self.say(f"{name} {how}: {deaths} deaths within a minute, giving up{where}")
            self.end(1)
            return None
        pause = min(BACKOFF_SECONDS * 2.0 ** (deaths - 1), LONGEST_BACKOFF_SECONDS)
        self.say(f"{name} {how}: starting it again in {pause:.1f} s (death {deaths} within a minute)")
        return pause


class _ChildSupervisor:
    """Keeps one child alive."""

    def __init__(self, child: Child, supervisor: Supervisor) -> None:
        self.child = child
        self._supervisor = supervisor
        self._process: asyncio.subprocess.Process | None = None
        self._late = False
        self._deaths: deque[float] = deque(maxlen=DEATHS_ALLOWED)
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep_running())
        self._task.add_done_callback(self._end_all_on_failure)

    @property
    def pid(self) -> int | None:
        if self._process is None or self._process.returncode is not None:
            return None
        return self._process.pid

    async def first_ready(self) -> None:
        """Wait until the child is ready for the first time; raises StartFailed, or the error of its task."""
        await asyncio.wait({self._ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():
            self._task.result()
            raise StartFailed(describe_failed_start(self.child, late=self._late))

    async def stop(self, hurry: asyncio.Event) -> None:
        """End the restarts, then stop the child: by each of its stop signals in turn, finally by SIGKILL."""
        self._task.cancel()
        await asyncio.wait({self._task})
        process = self._process
        if process is None or process.returncode is not None:
            return
        for stop_signal in self.child.stop_signals:
            with suppress(ProcessLookupError):
                process.send_signal(stop_signal)
            if await _wait_for_exit(process, hurry, self.child.stop_seconds):
                break
        else:
            self._supervisor.say(f"{self.child.name} did not stop when asked: killing it")
        kill_process_group(process.pid)
        await process.wait()

    def _end_all_on_failure(self, task: asyncio.Task[None]) -> None:
        """End everything when a child can no longer be kept alive, for example without file descriptors."""
        if self._ready.done() and not task.cancelled() and task.exception() is not None:
            self._supervisor.say(f"{self.child.name} cannot be kept alive: {task.exception()}")
            self._supervisor.end(1)

    async def _keep_running(self) -> None:
        while True:
            try:
                how = await self._run_once()
            except OSError as error:
                if not self._ready.done() or error.errno not in NO_SPACE:
                    raise
                how = f"cannot be started: {error.strerror}"
            self._supervisor.changed()
            if not self._ready.done():
                return
            pause = self._supervisor.died(self.child, self._recent_deaths(), how)
            if pause is None:
                return
            await asyncio.sleep(pause)

    async def _run_once(self) -> str:
        """Start the child and wait for its death; return how it ended, as text."""
        process = await self._spawn()
        self._supervisor.changed()
        self._late = not await self._becomes_ready(process)
        if self._late:
            kill_process_group(process.pid)
        status = await self._end_of(process)
        kill_process_group(process.pid)  # its own children end with it
        return f"(pid {process.pid}) {_describe_exit(status)}"

    async def _spawn(self) -> asyncio.subprocess.Process:
        """Start the process from this thread: the kernel binds a child's death signal to the thread that created it."""
        await asyncio.to_thread(self.child.prepare)
        log = self.child.open_log()
        try:
            arguments = self.child.popen_arguments(log)
            self._process = await asyncio.create_subprocess_exec(*self.child.command(), **arguments)
        finally:
            if log is not None:
                log.close()
        return self._process

    async def _becomes_ready(self, process: asyncio.subprocess.Process) -> bool:
        """Wait until the child is ready; return False on a time-out, True also when it died meanwhile."""
        deadline = time.monotonic() + self.child.ready_seconds
        while process.returncode is None and time.monotonic() < deadline:
            if await asyncio.to_thread(self.child.ready, process.pid):
                self._tell_ready(process.pid)
                return True
            await asyncio.sleep(POLL_SECONDS)
        return process.returncode is not None

    async def _end_of(self, process: asyncio.subprocess.Process) -> int:
        """Wait for the process to end, trimming its log every minute; return its exit status."""
        while True:
            with suppress(TimeoutError):
                return await asyncio.wait_for(process.wait(), LOG_SECONDS)
            self.child.trim_log()

    def _tell_ready(self, pid: int) -> None:
        if self._ready.done():
            self._supervisor.say(f"{self.child.name} is back (pid {pid})")
        else:
            self._ready.set_result(None)

    def _recent_deaths(self) -> int:
        now = time.monotonic()
        self._deaths.append(now)
        return sum(moment > now - WINDOW_SECONDS for moment in self._deaths)


def _describe_exit(status: int) -> str:
    if status < 0:
        return f"was ended by signal {-status} ({signal.strsignal(-status)})"
    return f"ended with status {status}"


async def _wait_for_exit(process: asyncio.subprocess.Process, hurry: asyncio.Event, seconds: float) -> bool:
    """Wait for the process up to `seconds`, or until a second signal; return whether it has ended."""
    waits = {asyncio.ensure_future(process.wait()), asyncio.ensure_future(hurry.wait())}
    await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return process.returncode is not None
