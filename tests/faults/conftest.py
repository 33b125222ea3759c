"""A real stack of one test alone, and the means to hurt it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.test_cli_live import COMMAND, Live
from tests.deploy.upper import remove


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Live]:
    """The product as `afterturn up --gateway self` runs it, with two workers."""
    data = tmp_path / "data"
    command = [*COMMAND, "up", "--data", str(data), "--port", "0", "--workers", "2", "--gateway", "self"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("READY ")
    yield Live(data)
    process.terminate()
    process.communicate(timeout=60)
    remove(data)
    assert process.returncode == 0
