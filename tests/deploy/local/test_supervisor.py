"""The supervisor, on real processes."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from deploy.local import Child
from deploy.local.errors import StartFailed
from deploy.local.supervisor import RunningChild, Supervisor
from deploy.local.survivors import is_running, wait_for_exits
from tests.patience import PATIENCE_S, until
from tests.processes import spawned

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


class Listener:
    """Keeps what a supervisor says, counts and shows."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.deaths: list[str] = []
        self.shown: list[tuple[RunningChild, ...]] = []
        self.supervisor = Supervisor(say=self.said.append, on_death=self.deaths.append, on_change=self.shown.append)

    def pid(self, name: str) -> int:
        return next(running.pid for running in self.supervisor.running if running.name == name)


def sleeper(name: str) -> Child:
    return Child(name=name, argv=("sleep", "60"))


async def run(listener: Listener, body: Callable[[], Awaitable[None]]) -> int:
    """Run a supervisor whose begin is the whole test, and end it."""

    async def begin() -> None:
        await body()
        listener.supervisor.end()

    return await listener.supervisor.run(begin)


async def test_a_killed_child_is_started_again_and_told_counted_and_shown() -> None:
    listener = Listener()

    async def body() -> None:
        await listener.supervisor.start(sleeper("one"))
        first = listener.pid("one")
        os.kill(first, signal.SIGKILL)
        await until(lambda: any("is back" in line for line in listener.said), "a killed child is started again")
        assert listener.pid("one") != first

    assert await run(listener, body) == 0
    assert listener.deaths == ["one"]
    assert "one (pid" in listener.said[0]
    assert "signal 9" in listener.said[0]
    assert [running.name for running in listener.shown[-1]] == ["one"]


async def test_the_fifth_death_of_a_child_within_a_minute_ends_it_with_status_1() -> None:
    listener = Listener()

    async def begin() -> None:
        await listener.supervisor.start(Child(name="brief", argv=("sleep", "0.1")), sleeper("steady"))

    assert await listener.supervisor.run(begin) == 1
    assert listener.deaths == ["brief"] * 5
    assert listener.supervisor.running == ()


async def test_each_death_is_followed_by_a_longer_pause() -> None:
    listener = Listener()
    moments = []

    async def begin() -> None:
        argv = ("sleep", "0.01")
        await listener.supervisor.start(
            Child(name="brief", argv=argv, prepare=lambda: moments.append(time.monotonic()))
        )

    await listener.supervisor.run(begin)
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    assert [pause > floor for pause, floor in zip(pauses, (0.1, 0.2, 0.4, 0.8), strict=True)] == [True] * 4


async def test_a_child_that_dies_before_it_was_ever_ready_is_an_error_with_its_last_words(
    tmp_path: Path,
) -> None:
    listener = Listener()
    child = Child(
        name="broken",
        argv=("sh", "-c", "echo the port is taken >&2; exit 3"),
        ready=lambda _pid: False,
        log=tmp_path / "broken.log",
    )
    told = rf"^broken ended before it was ready; its log is {tmp_path}/broken\.log\nthe port is taken$"
    with pytest.raises(StartFailed, match=told):
        await run(listener, lambda: listener.supervisor.start(child))
    assert listener.deaths == []


async def test_a_child_that_is_not_ready_in_time_is_an_error_and_is_gone() -> None:
    listener = Listener()
    asked = set[int]()

    def never(pid: int) -> bool:
        asked.add(pid)
        return False

    late = Child(name="slow", argv=("sleep", "60"), ready=never, ready_seconds=0.5)
    with pytest.raises(StartFailed, match=r"^slow was not ready within 0\.5 s$"):
        await run(listener, lambda: listener.supervisor.start(late))
    [pid] = asked
    assert not psutil.pid_exists(pid)


async def test_the_last_wave_stops_first(tmp_path: Path) -> None:
    listener = Listener()
    script = (
        "trap 'echo {name} >> {tmp_path}/order; exit 0' TERM; touch {tmp_path}/{name}; while :; do sleep 0.05; done"
    )
    children = [
        Child(
            name=name,
            argv=("sh", "-c", script.format(name=name, tmp_path=tmp_path)),
            ready=lambda _pid, name=name: (tmp_path / name).exists(),  # type: ignore[misc]  # a default binds it
        )
        for name in ("database", "service")
    ]

    async def body() -> None:
        for child in children:
            await listener.supervisor.start(child)

    await run(listener, body)
    assert (tmp_path / "order").read_text().split() == ["service", "database"]


async def test_a_child_deaf_to_sigterm_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    listener = Listener()
    log = tmp_path / "deaf.log"
    child = Child(
        name="deaf",
        argv=(sys.executable, "-c", DEAF),
        ready=lambda _pid: log.exists() and log.read_text() != "",
        stop_seconds=0.3,
        log=log,
    )
    pids = []

    async def body() -> None:
        await listener.supervisor.start(child)
        pids.append(listener.pid("deaf"))

    assert await run(listener, body) == 0
    assert not psutil.pid_exists(pids[0])
    assert listener.said == ["deaf did not stop when asked: killing it"]


async def test_what_a_child_started_itself_goes_with_it(tmp_path: Path) -> None:
    listener = Listener()
    pid_file = tmp_path / "grandchild"
    child = Child(
        name="parent",
        argv=("sh", "-c", f"sleep 600 & echo $! > {pid_file}; wait"),
        ready=lambda _pid: pid_file.exists() and pid_file.read_text() != "",
    )
    await run(listener, lambda: listener.supervisor.start(child))
    await until(lambda: not is_running(int(pid_file.read_text()), "sleep"), "the grandchild ends")


def supervising(tmp_path: Path, hangup: str = "SIG_DFL") -> AbstractContextManager["subprocess.Popen[str]"]:
    """Run a supervisor of two sleepers in a process of its own; it prints their process ids when they run."""
    program = textwrap.dedent(f"""
        import asyncio, signal, sys
        signal.signal(signal.SIGHUP, signal.{hangup})
        from deploy.local import Child
        from deploy.local.supervisor import Supervisor
        supervisor = Supervisor(say=lambda line: print(line, file=sys.stderr))
        async def begin():
            await supervisor.start(Child(name="a", argv=("sleep", "60")), Child(name="b", argv=("sleep", "60")))
            print(*(running.pid for running in supervisor.running), flush=True)
        sys.exit(asyncio.run(supervisor.run(begin)))
    """)
    return spawned([sys.executable, "-P", "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_it_with_status_0_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with supervising(tmp_path) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_what_was_begun_with_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    with supervising(tmp_path, "SIG_IGN") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_children_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with supervising(tmp_path) as process:
        assert process.stdout is not None
        children = [psutil.Process(int(word)) for word in process.stdout.readline().split()]
        process.kill()
    assert len(children) == 2
    assert wait_for_exits(children, PATIENCE_S) == []
