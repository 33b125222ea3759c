"""How a process of the service starts: what it imports is not walked over for garbage."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.components.process_setup import importing


def test_no_walk_for_garbage_comes_while_a_process_imports_nor_meets_what_was_imported() -> None:
    before = gc.get_freeze_count()
    with importing():
        assert not gc.isenabled()
        imported = [[number] for number in range(10_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(imported)


URL = "postgresql+asyncpg://somebody@127.0.0.1:1/nothing"


@pytest.mark.parametrize(
    "program,arguments",
    [("deploy.api", ["deploy.api"]), ("deploy.worker", ["deploy.worker"]), ("deploy.worker", ["deploy.cli", "worker"])],
)
def test_a_folder_of_samples_that_cannot_be_made_is_named_and_ends_with_two(
    tmp_path: Path, program: str, arguments: list[str]
) -> None:
    """As where a service runs as another user than the one whose `data` it is given."""
    (tmp_path / "data").touch()
    told = {
        "AFTERTURN_DATA": str(tmp_path / "data"),
        "AFTERTURN_DATABASE__URL": URL,
        "AFTERTURN_DATABASE__OPERATOR_URL": URL,
        "AFTERTURN_BROKER__URL": "redis://127.0.0.1:1/0",
        "AFTERTURN_API__PORT": "0",
        "AFTERTURN_WORKER__METRICS_PORT": "9464",
    }
    command = [sys.executable, "-P", "-m", *arguments]
    ended = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    folder = tmp_path / "data" / "metrics" / program.removeprefix("deploy.")
    remedy = "set metrics_dir, or data, to a folder of this user"
    assert ended.stderr == f"{program}: {folder} cannot be written (Not a directory): {remedy}\n"
    assert ended.returncode == 2
