"""Measures events per second: appended alone, appended with projections, and replayed."""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any
from uuid import UUID

from deploy.lab.bench.bench_database import BenchDatabase
from deploy.lab.bench.history import History
from deploy.lab.bench.measures import Measure, MeasureTarget
from store.database import Database
from store.log.bulk import append_bulk
from store.replay.shadow import ReplayScope, Shadow


async def measure_bulk_and_replay(ground: BenchDatabase, events: int, rounds: int) -> list[Measure]:
    """Measure the append of a generated history with and without projections, and its replay, alternating."""
    alone, projected, replayed = [], [], []
    database = ground.database(1)
    try:
        for nth in range(rounds):
            alone.append(await _measure_load_rate(ground, database, events, nth, project=False))
            projected.append(await _measure_load_rate(ground, database, events, nth, project=True))
            replayed.append(await _measure_replay_rate(ground))
    finally:
        await database.close()
    return [
        Measure("bulk_append_log_only", "events/s", median(alone), MeasureTarget(">=", 20_000.0)),
        Measure("bulk_append_with_projections", "events/s", median(projected), MeasureTarget(">=", 5_000.0)),
        Measure("replay", "events/s", median(replayed), MeasureTarget(">=", 10_000.0)),
    ]


async def _measure_load_rate(
    ground: BenchDatabase, database: Database, events: int, seed: int, *, project: bool
) -> float:
    host = await ground.new_host(database)
    made = list(History(host, "bulk", seed).events(events))
    return events / await _time_load(database, host, made, project=project)


async def _time_load(database: Database, host: UUID, made: Sequence[dict[str, Any]], *, project: bool) -> float:
    started = time.perf_counter()
    await append_bulk(database, host, made, project=project)
    return time.perf_counter() - started


async def _measure_replay_rate(ground: BenchDatabase) -> float:
    """Replay the newest host's log into shadow tables, and return events per second."""
    shadow = Shadow(ground.owner, ReplayScope(ground.newest_host), ground.name)
    await shadow.prepare(resume=False)
    try:
        started = time.perf_counter()
        done = await shadow.catch_up()
        return done / (time.perf_counter() - started)
    finally:
        await shadow.drop()
