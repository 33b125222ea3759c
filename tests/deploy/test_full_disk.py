"""A full disk: no process of ours dies of it, and servers come back when there is space."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from deploy.local import Child, EmbeddedPostgres, EmbeddedValkey
from deploy.local.cluster import find_cluster
from deploy.local.errors import FolderUnusable
from deploy.local.local_stack import LocalStack
from deploy.observability.metrics import merge_dead_samples
from deploy.observability.samples import BYTES, clear_samples, share_samples
from deploy.settings import LogFormat, load_settings
from tests.deploy.cli.test_live import up
from tests.deploy.local.test_supervisor import Listener, run
from tests.patience import PATIENCE_S, until

COUNTING = """
import sys
from pathlib import Path
from deploy.observability.samples import share_samples
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


def test_a_new_start_deletes_samples_and_no_other_file_of_their_folder(tmp_path: Path) -> None:
    """`metrics_dir` may be a folder that others use, as /dev/shm."""
    kept = [tmp_path / "letter.txt", tmp_path / "others.db", tmp_path / "api" / "notes.txt", tmp_path / "deep" / "x.db"]
    gone = [tmp_path / "counter_1.db", tmp_path / "api" / "gauge_livemax_2.db", tmp_path / "worker" / "served"]
    for path in (*kept, *gone):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    clear_samples(tmp_path)
    assert [path.exists() for path in (*kept, *gone)] == [True] * len(kept) + [False] * len(gone)


@pytest.mark.parametrize("there", [True, False])
def test_a_start_on_a_full_disk_names_the_data_folder(small_disk: Path, there: bool) -> None:  # noqa: FBT001
    data = small_disk / "data"
    if there:
        data.mkdir()
    fill(small_disk)
    stack = LocalStack(load_settings({}, overrides={"data": data}).settings, worker_count=1, say=print, ready=print)
    with pytest.raises(FolderUnusable, match=f"^{data} has no space left: free some, or choose another --data$"):
        stack.run()


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
        "import structlog, sys; from deploy.observability import logs;"
        "from deploy.settings import LogFormat, load_settings, LogSettings;"
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


def test_both_servers_are_started_again_for_ever(tmp_path: Path) -> None:
    assert EmbeddedPostgres(tmp_path).child().for_ever
    assert EmbeddedValkey(tmp_path).child().for_ever


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


#: Writes are refused below this, in this test.
RESERVE = 64 << 20


@pytest.fixture
def disk_of_a_stack(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 GiB with a data folder; root's database, which lies elsewhere, is bound into it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system can be mounted by root alone, where the kernel lets it")
    data, system = disk / "data", disk / "system"
    data.mkdir(mode=0o700)
    system.mkdir()
    home = find_cluster(data).folder.parent
    subprocess.run(["mount", "--bind", str(system), str(home)], check=True)
    try:
        yield data
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.slow
async def test_on_a_full_disk_reads_go_on_and_writes_say_why_until_there_is_space(disk_of_a_stack: Path) -> None:
    data, ballast = disk_of_a_stack, disk_of_a_stack.parent / "ballast"
    limits = {"AFTERTURN_HEALTH__DISK_RESERVE_BYTES": str(RESERVE), "AFTERTURN_HEALTH__DISK_LOW_BYTES": str(RESERVE)}
    with up(data, "--workers", "1", **limits) as live:
        processes = live.stack.processes
        headers = {"authorization": f"Bearer {live.stack.api_key()}"}
        async with httpx.AsyncClient(base_url=live.stack.api, headers=headers, timeout=PATIENCE_S) as client:
            assert (await add_turn(client, "the zeppelin lands on Tuesday")).is_success
            with ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(data).free - RESERVE // 2)
            refusal = await wait_for_status(client, 503)
            assert "disk" in refusal.json()["error"]["message"]
            fill(ballast.parent)
            found = await client.post("/api/v1/recall", json={"bank": "default", "query": "the zeppelin"})
            assert "zeppelin" in found.text
            ready = (await client.get("/health/ready")).json()
            assert any(reason.startswith("disk: 0 MiB are free, writes are refused") for reason in ready["reasons"])
            assert "afterturn_disk_free_bytes 0.0" in (await client.get("/metrics")).text
            ballast.unlink()
            await wait_for_status(client, 201)
            assert live.stack.processes == processes, "no process died"


async def add_turn(client: httpx.AsyncClient, text: str) -> httpx.Response:
    turn = {
        "bank": "default",
        "session_id": "s",
        "turn_id": str(uuid4()),
        "messages": [{"role": "user", "content": text}],
    }
    return await client.post("/api/v1/turns", json=turn)


async def wait_for_status(client: httpx.AsyncClient, status: int) -> httpx.Response:
    """Hand turns in until one is answered so."""
    answers: list[httpx.Response] = []

    async def answered() -> bool:
        answers.append(await add_turn(client, "is there space?"))
        return answers[-1].status_code == status

    await until(answered, f"a turn is answered with {status}")
    return answers[-1]
