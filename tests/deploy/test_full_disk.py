"""A full disk: no process of ours dies of it, and servers come back when there is space."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local import Child
from deploy.metrics import merge_dead_samples
from deploy.samples import BYTES, share_samples
from deploy.settings import LogFormat
from tests.deploy.local.test_supervisor import Listener, run
from tests.patience import PATIENCE_S, until

COUNTING = """
import sys
from pathlib import Path
from deploy.samples import share_samples
assert share_samples(Path(sys.argv[1]))
from prometheus_client import Counter, Gauge, Histogram
counted = Counter("told", "help", ["how"])
Gauge("strain", "help", multiprocess_mode="livemax").set(1)
print(flush=True)
sys.stdin.readline()
for nth in range(500):
    counted.labels(f"way-{nth}").inc()
Histogram("took", "help").observe(1)
print("alive", flush=True)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system can be mounted by root alone, where the kernel lets it")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with pytest.raises(OSError, match="No space") as full, (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    assert full.value.errno == errno.ENOSPC


def test_a_process_goes_on_counting_on_a_full_disk(small_disk: Path) -> None:
    command = [sys.executable, "-P", "-c", COUNTING, str(small_disk)]
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        fill(small_disk)
        said, _ = process.communicate("\n", PATIENCE_S)
    assert (process.returncode, said.strip()) == (0, "alive")


def test_a_process_that_starts_on_a_full_disk_keeps_its_samples(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(small_disk))
    fill(small_disk)
    assert not share_samples(small_disk)
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ
    assert not list(small_disk.glob("*.db"))


def test_what_the_dead_counted_waits_for_space(small_disk: Path) -> None:
    command = [sys.executable, "-P", "-c", COUNTING, str(small_disk)]
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    subprocess.run(command, input="\n", text=True, env=environment, capture_output=True, check=True)
    left = sorted(small_disk.glob("*.db"))
    assert {path.stat().st_size for path in left} == {BYTES}
    fill(small_disk)
    merge_dead_samples(small_disk)
    assert any(path.name.startswith("counter") for path in small_disk.glob("*.db"))
    (small_disk / "filler").unlink()
    merge_dead_samples(small_disk)
    assert {path.name for path in small_disk.glob("*.db")} == {"counter_merged.db", "histogram_merged.db"}


def test_a_log_line_that_cannot_be_written_fails_no_call() -> None:
    script = (
        "import structlog, sys; from deploy import logs; from deploy.settings import LogFormat, LogSettings;"
        "logs.configure_logging(LogSettings(format=LogFormat(sys.argv[1])));"
        "structlog.get_logger().error('x'); print('alive')"
    )
    for form in LogFormat:
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [sys.executable, "-c", script, form], stdout=subprocess.PIPE, stderr=full, check=False, text=True
            )
        assert done.stdout.strip() == "alive"


async def test_a_server_is_started_again_however_often_it_ends() -> None:
    listener = Listener()

    async def body() -> None:
        await listener.supervisor.start(Child(name="brief", argv=("sleep", "0.05"), for_ever=True))
        await until(lambda: len(listener.deaths) > 5, "it is started again for the sixth time")

    assert await run(listener, body) == 0
    assert not any("giving up" in line for line in listener.said)


async def test_a_child_that_finds_no_space_at_its_start_is_started_later() -> None:
    listener, full = Listener(), True

    def prepare() -> None:
        if full and listener.deaths:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def body() -> None:
        nonlocal full
        await listener.supervisor.start(
            Child(name="server", argv=("sleep", "0.2"), prepare=prepare, for_ever=True),
        )
        await until(lambda: len(listener.deaths) > 1, "it cannot be started")
        full = False
        await until(lambda: any("is back" in line for line in listener.said), "it is back")

    assert await run(listener, body) == 0
    assert any("cannot be started: No space left on device" in line for line in listener.said)
