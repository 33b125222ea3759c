"""`afterturn status --watch`: one look after the other, how fast each stage is, and a clean end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from sqlalchemy.exc import InterfaceError

from deploy.cli.status import WINDOW_S, Speed, Speeds, poll_forever
from store.ledger.ledger import PUBLIC_STATUSES
from store.ledger.stages import Stage
from tests.deploy.operated import SECRET, Busy
from tests.patience import PATIENCE_S
from tests.processes import spawned


def counts(**given: int) -> dict[str, dict[str, int]]:
    return dict.fromkeys(map(str, Stage), dict.fromkeys(PUBLIC_STATUSES, 0) | given)


def test_speed_is_what_ended_since_and_the_rest_at_that_speed() -> None:
    now = 0.0
    speeds = Speeds(lambda: now)
    assert speeds.after(counts(), counts(pending=100))[Stage.EMBEDDING] == Speed(0.0, None)
    now = 10.0
    assert speeds.after(counts(done=45, dead=5), counts(pending=40, running=10))[Stage.EMBEDDING] == Speed(5.0, 10.0)
    now = 20.0
    assert speeds.after(counts(done=100), counts())[Stage.EMBEDDING] == Speed(5.0, 0.0)


def test_what_was_long_ago_does_not_count_for_speed() -> None:
    now = 0.0
    speeds = Speeds(lambda: now)
    for _ in range(10):
        speeds.after(counts(done=1000), counts(pending=1))
        now += WINDOW_S / 2
    assert speeds.after(counts(done=1000), counts(pending=1))[Stage.GATEWAY] == Speed(0.0, None)


async def test_watching_outlives_a_database_that_is_away() -> None:
    said: list[str] = []
    answers: Iterator[int | Exception] = iter([1, InterfaceError("", None, OSError()), OSError(), 2])

    async def look() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    seen = poll_forever(look, timedelta(), said.append)
    assert [await anext(seen), await anext(seen)] == [1, 2]
    await seen.aclose()
    assert len(said) == 1


def watched(
    busy: Busy, *form: str, enough: Callable[[list[str]], bool], begun: threading.Event | None = None
) -> tuple[int, list[str], str]:
    """Watch until enough lines were seen, then press Ctrl-C; `begun` is set when the first was."""
    command = [sys.executable, "-m", "deploy.cli", "status", "--watch", "--every", "0s", "--data", str(busy.folder)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with spawned(
        [*command, *form], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        seen: list[str] = []
        while not enough(seen):
            assert process.stdout is not None
            seen.append(process.stdout.readline())
            assert seen[-1], "it ended"
            if begun:
                begun.set()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, seen, err


def through(seen: list[str]) -> bool:
    """Whether the last look shows nothing left to embed, after two that show it under way."""
    return len(seen) > 2 and json.loads(seen[-1])["eta_s"]["embedding"] == 0.0


@pytest.mark.live
async def test_watching_as_json_is_one_status_a_line_with_speeds(busy: Busy) -> None:
    await busy.append(("monday", "1"), ("monday", "2"))
    begun = threading.Event()
    watching = asyncio.create_task(asyncio.to_thread(watched, busy, "--json", enough=through, begun=begun))
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    await busy.end(Stage.EMBEDDING, "done")
    status, seen, err = await watching
    assert (status, err) == (0, "")
    looks = [json.loads(line) for line in seen]
    plain = await busy.answer("status")
    assert set(looks[0]) == {*plain, "at", "per_s", "eta_s"}
    assert looks[0]["eta_s"]["extraction"] is None
    assert looks[-1]["stages"]["embedding"]["done"] == 2
    assert max(look["per_s"]["embedding"] for look in looks) > 0
    assert looks[-1]["eta_s"]["embedding"] == 0.0


@pytest.mark.live
async def test_watching_in_a_pipe_prints_a_table_a_look_and_ends_cleanly(busy: Busy) -> None:
    await busy.append(("monday", "1"))
    status, seen, err = await asyncio.to_thread(watched, busy, enough=lambda seen: len(seen) == 12)
    assert (status, err) == (0, "")
    text = "".join(seen)
    assert text.count("1 turns;") == 2
    assert "per s" in text
    assert SECRET not in text


def cut_short(busy: Busy) -> str:
    """Read one line of a watch and no more, as `head -1` does; returns what it says about that."""
    command = [sys.executable, "-m", "deploy.cli", "status", "--watch", "--every", "0s", "--data", str(busy.folder)]
    with spawned([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        said: str = process.communicate(timeout=PATIENCE_S)[1]
        return said


@pytest.mark.live
async def test_a_watch_that_nobody_reads_on_blames_no_database_for_that(busy: Busy) -> None:
    assert await asyncio.to_thread(cut_short, busy) == ""
