"""Measures round trips and processor time of a turn."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID

from sqlalchemy import make_url

from deploy.lab.bench.acknowledgement import append_new_turns, derive_turn_ids
from deploy.lab.bench.bench_database import BenchDatabase
from deploy.lab.bench.measures import Measure, MeasureTarget
from deploy.lab.bench.talk import TurnGenerator
from deploy.lab.bench.timing import MILLISECONDS, run_lanes
from store.clock import read_machine_time
from store.memory.turns import NewTurn, TurnStore

CHUNK = 65536

MANY_MESSAGES = 64
WARM_UP_TURNS = 12
#: Number of counts, of which the least is taken: every few seconds a turn also reads its host's bank languages.
TRIES = 3


class CountingRelay:
    """Relays bytes between a client and a server, and counts how often the client sends after the server has sent."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.trips = 0

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one client's connection until either side closes it."""
        server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        turn = _LastSpeaker()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, server_writer, turn, from_client=True))
                both.create_task(self._pump(server_reader, writer, turn, from_client=False))
        finally:
            writer.close()
            server_writer.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, turn: "_LastSpeaker", *, from_client: bool
    ) -> None:
        while data := await source.read(CHUNK):
            if from_client and not turn.is_clients:
                self.trips += 1
            turn.is_clients = from_client
            sink.write(data)
            await sink.drain()
        sink.close()


class _LastSpeaker:
    """The side that sent last on a connection."""

    def __init__(self) -> None:
        self.is_clients = False


@asynccontextmanager
async def count_round_trips(host: str, port: int) -> AsyncGenerator[tuple[CountingRelay, int]]:
    """Yield a relay in front of a server, and the local port it listens on."""
    relay = CountingRelay(host, port)
    server = await asyncio.start_server(relay.relay, "127.0.0.1", 0)
    try:
        yield relay, server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def measure_round_trips(ground: BenchDatabase) -> Measure:
    """Measure the round trips of turns with one and with 64 messages, on a warm connection."""
    url = make_url(ground.servers.app_url.get_secret_value())
    async with count_round_trips(url.host or "127.0.0.1", url.port or 5432) as (relay, port):
        through = url.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
        database = ground.database(1, through)
        try:
            host, store = await ground.new_host(database), TurnStore(database, read_machine_time)
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
        host, store, talk = (
            await ground.new_host(database),
            TurnStore(database, read_machine_time),
            TurnGenerator("cpu"),
        )
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
