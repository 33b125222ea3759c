"""`afterturn bench append`: measures the store's write path, with one measure for each promise about it."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any
from uuid import UUID

from deploy.lab.bench import footprint, growth, turn_costs
from deploy.lab.bench.acknowledgement import AcknowledgementBench
from deploy.lab.bench.bench_database import BenchDatabase, open_bench_database
from deploy.lab.bench.floors import Floors
from deploy.lab.bench.history import History
from deploy.lab.bench.measures import BenchOutcome, Measure, MeasureTarget
from deploy.lab.bench.servers import BenchServers, open_bench_servers
from deploy.notices import Say
from store.database import Database
from store.log.bulk import append_bulk
from store.replay.shadow import ReplayScope, Shadow

CONNECTIONS = 8
#: Opens the servers that `run` takes.
servers = open_bench_servers


@dataclass(frozen=True, slots=True)
class AppendSizes:
    """The size of a run; `rounds` alternate between floor and ours, each with `turns` turns per connection."""

    rounds: int = 10
    turns: int = 25
    cpu_turns: int = 300
    session_turns: int = 5_000
    bulk_events: int = 20_000
    bulk_rounds: int = 3
    memory_from: int = 20_000
    memory_to: int = 100_000
    footprint_banks: int = 4


FULL = AppendSizes(
    rounds=20,
    turns=40,
    cpu_turns=1_000,
    bulk_events=100_000,
    memory_from=100_000,
    memory_to=1_000_000,
    footprint_banks=16,
)


async def run(on: BenchServers, say: Say, sizes: AppendSizes) -> BenchOutcome:
    """Run every measurement, one after the other, and remove all data afterwards."""
    async with open_bench_database(on) as here:
        machine = await here.read_machine()
        # Measured first, because memory that other measurements have freed would hide this one's growth.
        say(f"memory between {sizes.memory_from} and {sizes.memory_to} events")
        measures = [await growth.measure_memory(here, sizes.memory_from, sizes.memory_to)]
        say(f"bytes of a chat turn of one message, {sizes.footprint_banks} banks")
        parts = await footprint.measure_footprint(here, sizes.footprint_banks)
        say("acknowledgement of a turn beside its floors")
        measures += await _measure_acknowledgement(here, sizes)
        say("round trips and processor time of a turn")
        measures += [
            await turn_costs.measure_round_trips(here),
            await turn_costs.measure_own_cpu(here, sizes.cpu_turns),
        ]
        say(f"a session of {sizes.session_turns} turns")
        measures += [await growth.measure_long_session(here, sizes.session_turns, sizes.rounds, sizes.turns)]
        say(f"bulk append and replay of {sizes.bulk_events} events, {sizes.bulk_rounds} times")
        measures += await measure_bulk_and_replay(here, sizes.bulk_events, sizes.bulk_rounds)
    return BenchOutcome(machine, measures, asdict(sizes), parts)


async def _measure_acknowledgement(here: BenchDatabase, sizes: AppendSizes) -> list[Measure]:
    async with _open_floors(here) as (database, floors):
        host = await here.new_host(database)
        single = await AcknowledgementBench(here, database, floors, host, 1).warmed_up()
        ours, floor = (await single.rounds(sizes.rounds, sizes.turns)).p50()
        several = await AcknowledgementBench(here, database, floors, host, CONNECTIONS).warmed_up()
        ours_8, floor_8 = (await several.rounds(sizes.rounds, sizes.turns)).p50()
    return [
        Measure("ack_p50_1_connection_over_same_rows", "ms", ours, MeasureTarget("<=", 1.8), floor),
        Measure("ack_p50_8_connections_over_same_rows", "ms", ours_8, MeasureTarget("<=", 1.8), floor_8),
    ]


@asynccontextmanager
async def _open_floors(here: BenchDatabase) -> AsyncGenerator[tuple[Database, Floors]]:
    database = here.database(CONNECTIONS)
    floors = Floors(here, await here.new_host(database))
    try:
        await floors.prepare(database, CONNECTIONS)
        yield database, floors
    finally:
        await database.close()


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
