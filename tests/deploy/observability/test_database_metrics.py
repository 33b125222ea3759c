"""Gauges of the database and lags: said only where they were seen, and by one process alone."""

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

from prometheus_client import REGISTRY

from deploy.observability.loop_lag import PAUSE_S, measure_loop_lag
from deploy.observability.metrics import DatabaseGauges, ReplicaLag, SampleFiles, XminAge, is_served_elsewhere
from deploy.observability.samples import SERVED
from store.database_gauges import DatabaseSample, GenerationShare, TenantBacklog
from tests.deploy.observability.test_metrics import counting
from tests.patience import until
from workers.broker import DelayMeter

QUIET = DatabaseSample(oldest_writer=None, connections=5, most_connections=100)


def writing(oldest: int) -> DatabaseSample:
    return DatabaseSample(oldest_writer=oldest, connections=5, most_connections=100)


def test_the_age_of_the_oldest_writer_begins_anew_with_another_one() -> None:
    now = [100.0]
    age = XminAge(lambda: now[0])
    seen = list[float]()
    for moment, sample in (
        (100, writing(10)),
        (130, writing(10)),
        (140, writing(12)),
        (150, writing(12)),
        (160, QUIET),
    ):
        now[0] = moment
        seen.append(age.observe(sample))
    assert seen == [0, 30, 0, 10, 0]


def test_a_replica_that_stands_still_is_seen_to_be_late_and_one_that_follows_is_not() -> None:
    now, lag, seen = [0.0], ReplicaLag(lambda: now[0]), list[float]()
    for moment, written, shown in ((0, 100, 100), (5, 200, 100), (10, 300, 100), (40, 300, 200), (45, 400, 400)):
        now[0] = moment
        sample = DatabaseSample(None, 5, 100, {"standby": shown}, written=written)
        seen.append(lag.observe(sample)["standby"])
    assert seen == [0, 0, 5, 30, 0]


def test_nothing_is_said_of_a_database_that_does_not_answer() -> None:
    assert list(DatabaseGauges(None, XminAge(), ReplicaLag()).collect()) == []


def test_tenants_are_named_by_id_and_only_on_request() -> None:
    tenants = (TenantBacklog(UUID(int=7), 3, 9.0),)
    asked = DatabaseSample(1, 3, 4, {"standby": 1}, {"embedding": 12.0}, tenants)
    samples = [one for metric in DatabaseGauges(asked, XminAge(), ReplicaLag()).collect() for one in metric.samples]
    assert {(one.labels["tenant"], one.value) for one in samples if one.name == "afterturn_tenant_undone_rows"} == {
        (str(UUID(int=7)), 3)
    }
    plain = [one for metric in DatabaseGauges(QUIET, XminAge(), ReplicaLag()).collect() for one in metric.samples]
    assert not [one for one in plain if "tenant" in one.labels]


def test_a_build_of_vectors_shows_how_far_it_is() -> None:
    building = replace(QUIET, generations=(GenerationShare(1, "live", 1.0), GenerationShare(9, "building", 0.25)))
    samples = [one for metric in DatabaseGauges(building, XminAge(), ReplicaLag()).collect() for one in metric.samples]
    told = [(one.labels, one.value) for one in samples if one.name == "afterturn_generation_built_ratio"]
    assert told == [({"generation": "1", "state": "live"}, 1.0), ({"generation": "9", "state": "building"}, 0.25)]


def test_samples_of_workers_with_a_port_of_their_own_are_left_to_it_while_it_lives(tmp_path: Path) -> None:
    assert not is_served_elsewhere(tmp_path)
    with counting(tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (tmp_path / SERVED).write_text(str(os.getpid()))
        assert is_served_elsewhere(tmp_path)
        (tmp_path / SERVED).write_text(str(process.pid))
        process.kill()
        process.wait()
    assert not is_served_elsewhere(tmp_path)
    [told] = [metric for metric in SampleFiles([tmp_path, tmp_path / "none"]).collect() if metric.name == "told"]
    assert told.samples[0].value == 2.0


async def test_a_loop_that_is_blocked_is_seen_to_be_late() -> None:
    def late() -> float:
        labels = {"process": "api"}
        count = REGISTRY.get_sample_value("afterturn_event_loop_lag_seconds_count", labels) or 0.0
        return count - (
            REGISTRY.get_sample_value("afterturn_event_loop_lag_seconds_bucket", labels | {"le": "0.1"}) or 0
        )

    before = late()
    async with measure_loop_lag("api"):
        await asyncio.sleep(0)
        time.sleep(PAUSE_S + 0.2)  # noqa: ASYNC251 - the loop is to be late
        await until(lambda: late() > before, "the lag is observed")


def test_a_notification_of_a_clock_that_is_ahead_took_no_time() -> None:
    labels = {"queue": "tests"}
    for timestamp_ms in (0, 1 << 60):
        message = SimpleNamespace(message_timestamp=timestamp_ms, queue_name="tests")
        DelayMeter().before_process_message(None, message)  # type: ignore[arg-type] # all that it looks at
    name = "afterturn_notification_delay_seconds"
    assert REGISTRY.get_sample_value(f"{name}_bucket", {**labels, "le": "0.01"}) == 1.0
    assert REGISTRY.get_sample_value(f"{name}_count", labels) == 2.0
