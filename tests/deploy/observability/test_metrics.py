"""One exposition for all processes: nothing lost when one dies, nothing counted twice, gauges of the ledger once."""

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
from prometheus_client.metrics import MetricWrapperBase
from pydantic import SecretStr
from structlog.testing import capture_logs

import producers.metrics
import workers.metrics
from deploy.observability.metrics import Exposition, LedgerCounts, merge_dead_samples
from deploy.observability.process_metrics import ProcessGauges
from deploy.settings import HealthSettings
from store.database import Database
from store.ledger.ledger import Ledger, StageCounts
from store.ledger.stages import Stage
from store.settings import DatabaseSettings
from tests.patience import PATIENCE_S
from tests.servers import TestPostgres

USUAL = HealthSettings()
COUNTING = """
from prometheus_client import Counter, Gauge, Histogram
import os, sys, time
Counter("told", "help", ["how"]).labels("ok").inc(2)
Histogram("took", "help", buckets=(1, 2)).observe(1.5)
Gauge("alive", "help", multiprocess_mode="livesum").set(1)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def counting(folder: Path) -> "subprocess.Popen[str]":
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(folder)}
    arguments = [sys.executable, "-c", COUNTING]
    return subprocess.Popen(
        arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    )


class _Counted(Ledger):
    """Answers without a database, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def gauges(self) -> Mapping[Stage, StageCounts]:  # type: ignore[override]  # a plain mapping will do
        self.asked += 1
        counts = {"pending": 3, "running": 1, "done": 0, "skipped": 0, "unknown": 0, "dead": 2}
        return {Stage.EMBEDDING: StageCounts(counts, 7.5)}


def exposition_of(folder: Path, ledger: Ledger, newly_failed: int = 0, settings: HealthSettings = USUAL) -> Exposition:
    async def newly() -> int:
        return newly_failed

    return Exposition(folder, LedgerCounts(ledger, newly), settings, folder)


def shown(folder: Path, newly_failed: int = 0, settings: HealthSettings = USUAL) -> dict[str, float]:
    text = asyncio.run(exposition_of(folder, _Counted(), newly_failed, settings)()).decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_processes_are_summed_and_the_dead_are_not_forgotten(tmp_path: Path) -> None:
    for deaths in range(1, 4):
        with counting(tmp_path) as first, counting(tmp_path) as second:
            for process in (first, second):
                assert process.stdout is not None
                process.stdout.readline()
            seen = shown(tmp_path)
            assert seen["alive"] == 2.0
            assert seen['told_total{how="ok"}'] == 4.0 * deaths
            first.kill()
            second.kill()
    seen = shown(tmp_path)
    assert seen['told_total{how="ok"}'] == 12.0
    assert (seen["took_count"], seen['took_bucket{le="2.0"}'], seen['took_bucket{le="1.0"}']) == (6.0, 6.0, 0.0)
    assert "alive" not in seen
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["counter_merged.db", "histogram_merged.db"]


@pytest.mark.parametrize("metrics", [producers.metrics, workers.metrics], ids=["producers", "workers"])
def test_every_metric_is_counted_by_a_module(metrics: ModuleType) -> None:
    names = {name for name, value in vars(metrics).items() if isinstance(value, MetricWrapperBase)}
    assert names
    package = Path(str(metrics.__file__)).parent
    code = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py") if path.name != "metrics.py")
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", code)) == []


def test_a_living_process_is_left_alone(tmp_path: Path) -> None:
    with counting(tmp_path) as process:
        assert process.stdout is not None
        pid = process.stdout.readline().strip()
        merge_dead_samples(tmp_path)
        assert (tmp_path / f"counter_{pid}.db").exists()
        process.kill()


def test_two_who_merge_at_once_count_once(tmp_path: Path) -> None:
    for _ in range(6):
        with counting(tmp_path) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()
    together = [threading.Thread(target=merge_dead_samples, args=(tmp_path,)) for _ in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert shown(tmp_path)['told_total{how="ok"}'] == 12.0


def test_the_ledgers_gauges_are_those_of_what_is_undone_or_failed(tmp_path: Path) -> None:
    seen = shown(tmp_path)
    assert seen['afterturn_ledger_rows{stage="embedding",status="pending"}'] == 3.0
    assert seen['afterturn_ledger_rows{stage="embedding",status="dead"}'] == 2.0
    assert seen['afterturn_ledger_oldest_undone_seconds{stage="embedding"}'] == 7.5
    assert not [name for name in seen if 'status="done"' in name]


def test_gauges_say_what_the_health_check_says_and_nothing_of_whose_it_is(tmp_path: Path) -> None:
    seen = shown(tmp_path)
    assert seen["afterturn_quarantine_new_rows"] == 0.0
    assert [seen[f'afterturn_degraded{{reason="{why}"}}'] for why in ("backlog", "quarantine")] == [0.0, 0.0]
    seen = shown(tmp_path, newly_failed=2, settings=HealthSettings(oldest_undone_seconds=7))
    assert seen["afterturn_quarantine_new_rows"] == 2.0
    assert [seen[f'afterturn_degraded{{reason="{why}"}}'] for why in ("backlog", "quarantine")] == [1.0, 1.0]
    ours = [name for name in seen if name.startswith("afterturn_")]
    assert not [name for name in ours if any(word in name for word in ("host", "bank", "session"))]


async def test_however_many_ask_the_ledger_is_read_once_in_five_seconds(tmp_path: Path) -> None:
    ledger = _Counted()
    exposition = exposition_of(tmp_path, ledger)
    await asyncio.gather(*(exposition() for _ in range(10)))
    assert ledger.asked == 1


async def test_a_database_that_is_away_leaves_the_other_samples_standing(tmp_path: Path) -> None:
    class Away(_Counted):
        async def gauges(self) -> Mapping[Stage, StageCounts]:  # type: ignore[override]  # a plain mapping will do
            raise ConnectionRefusedError

    text = await exposition_of(tmp_path, Away())()
    assert b"afterturn_ledger_rows" in text
    assert b"afterturn_degraded{" not in text, "nobody knows"


@pytest.mark.parametrize("database", ["nothing_here", "postgres"])
async def test_a_database_that_is_missing_or_without_schema_leaves_the_other_samples_standing(
    postgres: TestPostgres, tmp_path: Path, database: str
) -> None:
    url = SecretStr(postgres.named(database).operator_url)
    wrong = Database(DatabaseSettings(url=url, operator_url=url))
    with capture_logs() as said:
        text = await exposition_of(tmp_path, Ledger(wrong))()
    await wrong.close()
    assert b"afterturn_disk_free_bytes" in text
    assert b"afterturn_ledger_rows{" not in text
    assert [(one["event"], sorted(one)) for one in said] == [
        ("ledger_unreadable", ["error", "event", "log_level"]),
    ]


async def test_a_database_that_hangs_leaves_the_other_samples_standing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = asyncio.Event()

    class Hanging(_Counted):
        async def gauges(self) -> Mapping[Stage, StageCounts]:  # type: ignore[override]  # a plain mapping will do
            await answers.wait()
            return await super().gauges()

    monkeypatch.setattr("deploy.observability.metrics.READ_S", 0.05)
    exposition = exposition_of(tmp_path, Hanging())
    text = await asyncio.wait_for(exposition(), PATIENCE_S)
    assert b"afterturn_disk_free_bytes" in text
    assert b"afterturn_ledger_rows{" not in text
    answers.set()
    monkeypatch.setattr("deploy.observability.metrics.READ_S", PATIENCE_S)
    assert b"afterturn_ledger_rows{" in await exposition()


@pytest.mark.parametrize("name", ["counter_x.db", "nonsense.db", "histogram_.db"])
def test_foreign_files_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    merge_dead_samples(tmp_path)
    assert (tmp_path / name).exists()


def test_no_command_loads_a_library_of_metrics_before_its_folder_of_samples_is_known() -> None:
    commands = ["api", "worker", "plugin"]
    program = (
        "import sys\n"
        "from deploy.cli.app import build_cli\n"
        "for command in sys.argv[1:]:\n"
        "    build_cli(command)\n"
        "    print(command, 'prometheus_client' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program, *commands], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [f"{command} False" for command in commands]


def test_each_living_process_tells_its_processor_time_memory_and_start(tmp_path: Path) -> None:
    for name in (f"counter_{os.getpid()}", f"gauge_livemax_{os.getpid()}", "counter_merged", "counter_999999999"):
        (tmp_path / f"{name}.db").touch()
    found = {metric.name: metric.samples for metric in ProcessGauges({"api": tmp_path}).collect()}
    mine = {"process": "api", "pid": str(os.getpid())}
    for name in ("afterturn_process_cpu_seconds", "afterturn_process_resident_bytes"):
        [sample] = found[name]
        assert sample.labels == mine
        assert sample.value > 0
    [started] = found["afterturn_process_start_time_seconds"]
    assert 0 < started.value <= time.time()
    [build] = found["afterturn_build_info"]
    assert build.labels == {"version": version("afterturn")}
