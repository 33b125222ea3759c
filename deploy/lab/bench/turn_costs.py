"""Measures round trips and processor time of a turn."""

import time
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from sqlalchemy import make_url

from deploy.lab.bench.acknowledgement import append_new_turns, derive_turn_ids, read_clock
from deploy.lab.bench.bench_database import BenchDatabase
from deploy.lab.bench.measures import Measure, MeasureTarget
from deploy.lab.bench.round_trips import CountingRelay, count_round_trips
from deploy.lab.bench.talk import TurnGenerator
from deploy.lab.bench.timing import MILLISECONDS, run_lanes
from store.memory.turns import NewTurn, TurnStore

MANY_MESSAGES = 64
WARM_UP_TURNS = 12
#: Number of counts, of which the least is taken: every few seconds a turn also reads its host's bank languages.
TRIES = 3


async def measure_round_trips(ground: BenchDatabase) -> Measure:
    """Measure the round trips of turns with one and with 64 messages, on a warm connection."""
    url = make_url(ground.servers.app_url.get_secret_value())
    async with count_round_trips(url.host or "127.0.0.1", url.port or 5432) as (relay, port):
        through = url.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
        database = ground.database(1, through)
        try:
            host, store = await ground.new_host(database), TurnStore(database, read_clock)
            counts = [
                await _count_fewest_trips(ground, relay, store, host, messages) for messages in (1, MANY_MESSAGES)
            ]
        finally:
            await database.close()
    few, many = counts
    return Measure(f"round_trips_{MANY_MESSAGES}_messages_over_1", "round trips", many, MeasureTarget("<=", 1.0), few)


async def _count_fewest_trips(
    ground: BenchDatabase, relay: CountingRelay, store: TurnStore, host: UUID, messages: int
) -> int:
    talk = TurnGenerator(f"trips-{messages}", messages)
    await _time_appends(ground, store, host, talk.take(WARM_UP_TURNS))
    return min([await _count_trips(ground, relay, store, host, talk) for _ in range(TRIES)])


async def _count_trips(
    ground: BenchDatabase, relay: CountingRelay, store: TurnStore, host: UUID, talk: TurnGenerator
) -> int:
    before = relay.trips
    await _time_appends(ground, store, host, talk.take(1))
    return relay.trips - before


async def measure_own_cpu(ground: BenchDatabase, turns: int) -> Measure:
    """Measure this process's processor time for a turn: analysis, events, the call and its answer."""
    database = ground.database(1)
    try:
        host, store, talk = await ground.new_host(database), TurnStore(database, read_clock), TurnGenerator("cpu")
        await _time_appends(ground, store, host, talk.take(WARM_UP_TURNS))
        offered = talk.take(turns)
        spent = await _time_appends(ground, store, host, offered)
    finally:
        await database.close()
    return Measure("own_cpu_per_turn", "ms", spent / turns * MILLISECONDS, MeasureTarget("<=", 3.0))


async def _time_appends(ground: BenchDatabase, store: TurnStore, host: UUID, turns: Sequence[NewTurn]) -> float:
    """Append turns one by one; return the processor time in seconds."""
    session, ids = derive_turn_ids(host, turns)
    async with ground.kept_from_workers(host, [session], ids):
        before = time.process_time()
        await run_lanes([[partial(append_new_turns, store, host, turn) for turn in turns]])
        return time.process_time() - before
