"""A test that changes its process for those after it fails, whether it did so itself or by a fixture that stays."""

import gc
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from tests.left_behind import look_at_process, name_changes
from tests.live import ROOT

TESTS = """
import gc
import os
import signal

import pytest
import structlog


@pytest.fixture(scope="session")
def server():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def test_that_leaves_nothing(monkeypatch):
    monkeypatch.setenv("AFTERTURN_LEFT", "1")


def test_that_leaves_a_variable():
    os.environ["AFTERTURN_LEFT"] = "1"


def test_whose_fixture_leaves_a_handler(server):
    pass


def test_that_leaves_no_configuration():
    structlog.configure(cache_logger_on_first_use=True)


def test_that_leaves_a_threshold():
    gc.set_threshold(1234)


def test_after_them(server):
    pass
"""


def test_what_is_left_behind_fails_the_test_that_left_it(tmp_path: Path) -> None:
    (tmp_path / "test_left.py").write_text(TESTS)
    options = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "-n", "0")
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    environment = os.environ | {"COLUMNS": "300"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    told = dict(re.findall(r"^ERROR \S+::(\w+) - .*before this test: (.*)$", done.stdout, re.MULTILINE))
    assert told == {
        "test_that_leaves_a_variable": "environment AFTERTURN_LEFT",
        "test_whose_fixture_leaves_a_handler": "handler of SIGTERM",
        "test_that_leaves_a_threshold": "garbage collector",
    }, done.stdout


@pytest.mark.parametrize(
    "change, name",
    [
        (lambda patch: patch.chdir("/"), "working directory"),
        (lambda patch: patch.syspath_prepend("/nowhere"), "import path"),
        (lambda patch: patch.setenv("PYTEST_CURRENT_TEST", "another"), None),
        (lambda patch: patch.setattr(logging.root, "level", logging.DEBUG), "level of logging"),
        (lambda patch: patch.setattr(logging.root, "handlers", []), "handlers of logging"),
    ],
)
def test_each_change_has_a_name(
    change: Callable[[pytest.MonkeyPatch], None], name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look_at_process()
    change(monkeypatch)
    assert name_changes(before, look_at_process()) == ([name] if name else [])


def test_changes_outside_python_objects_have_names() -> None:
    before, mask, threshold = look_at_process(), os.umask(0o001), gc.get_threshold()
    handler = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    gc.set_threshold(1, 1, 1)
    structlog.contextvars.bind_contextvars(left="1")
    try:
        expected = ["context of structlog", "garbage collector", "handler of SIGUSR1", "umask"]
        assert name_changes(before, look_at_process()) == expected
    finally:
        os.umask(mask)
        signal.signal(signal.SIGUSR1, handler)
        gc.set_threshold(*threshold)
        structlog.contextvars.clear_contextvars()
    assert name_changes(before, look_at_process()) == []
