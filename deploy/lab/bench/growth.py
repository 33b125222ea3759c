"""Measures whether append time grows with the session, and memory with the number of events."""

import gc
from uuid import UUID

import psutil

from deploy.lab.bench.acknowledgement import append_new_turns, derive_turn_ids, time_new_turns
from deploy.lab.bench.bench_database import BenchDatabase
from deploy.lab.bench.history import History
from deploy.lab.bench.measures import Measure, MeasureTarget
from deploy.lab.bench.talk import TurnGenerator
from deploy.lab.bench.timing import compute_p50_ms
from store.clock import read_machine_time
from store.log.bulk import append_bulk
from store.memory.turns import TurnStore

#: Turns per call while the long session is filled.
BATCH = 100
FRESH_TURNS = 10
MEGABYTE = 1_000_000


async def measure_long_session(ground: BenchDatabase, length: int, rounds: int, turns: int) -> Measure:
    """Compare the time of an append to a long session with that to new sessions, alternating in the same bank."""
    database = ground.database(1)
    try:
        host, store, talk = (
            await ground.new_host(database),
            TurnStore(database, read_machine_time),
            TurnGenerator("long"),
        )
        await _extend_session(ground, store, host, talk, max(length - rounds * turns, 0))
        long, fresh = [], []
        for n in range(rounds):
            new = TurnGenerator(f"fresh-{n}")
            await time_new_turns(ground, store, host, new.take(FRESH_TURNS))
            fresh += await time_new_turns(ground, store, host, new.take(turns))
            long += await time_new_turns(ground, store, host, talk.take(turns))
    finally:
        await database.close()
    return Measure(
        f"session_of_{length}_turns_end_over_start",
        "ms",
        compute_p50_ms(long),
        MeasureTarget("<=", 1.2),
        compute_p50_ms(fresh),
    )


async def _extend_session(
    ground: BenchDatabase, store: TurnStore, host: UUID, talk: TurnGenerator, length: int
) -> None:
    for start in range(0, length, BATCH):
        turns = talk.take(min(BATCH, length - start))
        session, ids = derive_turn_ids(host, turns)
        async with ground.kept_from_workers(host, [session], ids):
            await append_new_turns(store, host, *turns)


async def measure_memory(ground: BenchDatabase, first: int, last: int) -> Measure:
    """Append a generated history, and compare this process's memory after `first` and after `last` events."""
    database = ground.database(1)
    try:
        host = await ground.new_host(database)
        history = History(host, "memory", seed=7)
        await append_bulk(database, host, history.events(first))
        early = _measure_resident_bytes()
        await append_bulk(database, host, history.events(last - first))
        late = _measure_resident_bytes()
    finally:
        await database.close()
    return Measure(
        f"memory_growth_{first}_to_{last}_events", "MB", abs(late - early) / MEGABYTE, MeasureTarget("<=", 50.0)
    )


def _measure_resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)
