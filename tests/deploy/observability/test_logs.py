"""The log of a process: structured, on standard error, and blind to what libraries want to tell of errors."""

import subprocess
import sys
from functools import cache

import orjson
import pytest

SAYING = """
import asyncio, logging, structlog
from deploy.observability import logs
from deploy.settings import LogSettings
logs.configure_logging(LogSettings(format={form!r}, level={level!r}))
structlog.get_logger("ours").info("request", route="/x")
structlog.get_logger("ours").debug("detail")
logging.getLogger("driver").warning("statement %s failed", "zq81 content")
try:
    raise ValueError("zq81 content")
except ValueError:
    logging.getLogger("driver").exception("it broke\\nzq81 content")

async def forgotten():
    async def breaks():
        raise RuntimeError("zq81 content")
    task = asyncio.create_task(breaks())
    await asyncio.sleep(0.01)
    del task

asyncio.run(forgotten())
"""


@cache
def said(form: str, level: str = "info") -> str:
    script = SAYING.format(form=form, level=level)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr


@pytest.mark.law("L7")
@pytest.mark.parametrize("form", ["json", "text"])
def test_what_a_library_says_of_an_error_is_cut_to_its_kind(form: str) -> None:
    log = said(form)
    assert "zq81" not in log
    assert "Traceback" not in log
    for kept in ("statement %s failed", "it broke", "ValueError", "Task exception was never retrieved", "RuntimeError"):
        assert kept in log


def test_json_lines_are_objects_with_time_and_level() -> None:
    lines = [orjson.loads(line) for line in said("json").splitlines()]
    assert all({"timestamp", "level", "event"} <= set(line) for line in lines)
    assert (lines[0]["event"], lines[0]["route"], lines[0]["level"]) == ("request", "/x", "info")


def test_only_lines_of_the_level_and_above_are_written() -> None:
    assert "detail" in said("json", "debug")
    assert "detail" not in said("json")
    assert "request" not in said("json", "error")
