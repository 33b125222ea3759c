"""`afterturn bench turns`: measures before_turn and after_turn beside the bare calls they need."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle, islice
from math import inf
from uuid import UUID, uuid4

import redis
from dramatiq.brokers.redis import RedisBroker

from deploy.components.facade import build_dependencies
from deploy.lab.bench.as_service import run_as_service
from deploy.lab.bench.bench_database import BenchDatabase, open_bench_database
from deploy.lab.bench.floors import Floors
from deploy.lab.bench.long_session import LongSession
from deploy.lab.bench.measures import BenchOutcome, Measure, MeasureTarget
from deploy.lab.bench.recall import speed
from deploy.lab.bench.recall.asking import BenchQuestion, RecallProbe
from deploy.lab.bench.recall.filling import BankFiller, Phrases, name_person
from deploy.lab.bench.talk import TurnGenerator, build_completed_turn
from deploy.lab.bench.timing import compute_p50_ms, compute_p95_ms, run_lanes
from deploy.lab.demo.data import load_demo
from deploy.notices import Say
from embeddings.protocol import Embedder
from embeddings.registry import create_embedder
from producers.notifications import Notifier
from producers.service.memory import MemoryFacade
from producers.service.recall_coordinator import RecallCoordinator
from producers.settings import ApiSettings
from store import identity
from store.clock import DatabaseClock
from store.database import Database
from store.derived.unit_vectors import UnitsToEmbed, insert_vectors, read_missing
from store.derived.vector_indexes import VectorIndexes
from store.ledger.freshness import Waiter
from store.memory.session_history import SessionHistory
from store.recall.recaller import Recaller
from store.tenancy.keys import Grant

BANK = speed.LARGE
#: The project that users share, and messages in it.
PEOPLE_BANK, PEOPLE_UNITS = "people", 1_000
CLIENTS = 8
#: Database connections: enough for all clients, and for the parallel reads of a call.
CONNECTIONS = 24
#: Turns of two messages in each session: as many items as a prepared turn shows.
HISTORY_TURNS = 15
PER_SECOND = 20
REDIS_S = 0.5

#: Opens the servers that `run` takes.
servers = speed.servers
Lane = list[Callable[[], Awaitable[object]]]


@dataclass(frozen=True, slots=True)
class TurnSizes:
    """The size of a run: a bank of `units` units; `rounds` of ours and floor, each with `turns` turns per client.

    `seconds` is the duration of the measurement at a fixed rate. `users` share a project with `facts` facts. `session`
    is the number of messages of one session.
    """

    units: int = 100_000
    rounds: int = 5
    turns: int = 30
    seconds: int = 15
    users: int = 300
    facts: int = 10_000
    session: int = 100_000


FULL = TurnSizes(rounds=10, turns=60, seconds=60)
#: Targets of the p95 of before_turn and after_turn, in ms: with one client; with 8 clients or 20 calls a second.
ALONE_MS, UNDER_LOAD_MS = (60.0, 20.0), (300.0, 100.0)


async def run(on: speed.RecallServers, say: Say, sizes: TurnSizes) -> BenchOutcome:
    """Run every measurement, one after the other, and remove all data afterwards."""
    embedder = create_embedder(on.embedding, on.data)
    async with open_bench_database(on.servers) as here:
        database = here.database(CONNECTIONS)
        try:
            await embedder.load()
            host = await here.new_host(database)
            floors = Floors(here, await here.new_host(database))
            await floors.prepare(database, CONNECTIONS)
            say(f"a bank of {sizes.units} units with sessions and facts")
            filler = BankFiller(here.owner, host, await Phrases.read(embedder))
            await filler.fill(PEOPLE_BANK, min(sizes.units, PEOPLE_UNITS))
            await filler.fill_people(PEOPLE_BANK, _list_users(sizes.users), sizes.facts)
            await _fill_bank(on, here, filler, sizes.units)
            notifier = Notifier(_create_broker(on.redis_url.get_secret_value()))
            try:
                bench = await TurnBench.open(
                    on, here, database, embedder=embedder, floors=floors, host=host, notifier=notifier
                )
                with run_as_service():
                    return await bench.run(say, sizes)
            finally:
                await notifier.close()
        finally:
            await embedder.close()
            await database.close()


async def _fill_bank(on: speed.RecallServers, here: BenchDatabase, filler: BankFiller, units: int) -> None:
    await filler.fill(BANK, units)
    await filler.fill_sessions(BANK, units)
    await filler.settle()
    indexes = VectorIndexes(here.servers.owner_url.get_secret_value(), on.recall.exact_units)
    while await indexes.build_some():
        pass


def _create_broker(url: str) -> RedisBroker:
    client = redis.Redis.from_url(url, socket_connect_timeout=REDIS_S, socket_timeout=REDIS_S)
    return RedisBroker(client=client, middleware=[])  # type: ignore[no-untyped-call]  # dramatiq leaves it without


@dataclass(frozen=True, slots=True)
class TurnBench:
    """Lifecycle calls for one host in this process, and their floors on the same pool and embedder."""

    here: BenchDatabase
    database: Database
    embedder: Embedder
    memory: MemoryFacade
    grant: Grant
    probe: RecallProbe
    sessions: SessionHistory
    floors: Floors
    talks: Sequence[TurnGenerator]
    questions: Sequence[BenchQuestion]

    @classmethod
    async def open(
        cls,
        on: speed.RecallServers,
        here: BenchDatabase,
        database: Database,
        *,
        embedder: Embedder,
        floors: Floors,
        host: UUID,
        notifier: Notifier,
    ) -> "TurnBench":
        """Return a benchmark whose sessions have a history, and for whose questions the floor's reads are known."""
        clock = await DatabaseClock.asked(database)
        coordinator = RecallCoordinator(
            database, Recaller(database, embedder, on.recall, clock=clock), Waiter(database)
        )
        memory = MemoryFacade(build_dependencies(database, clock, coordinator, notifier), ApiSettings())
        probe = RecallProbe(database, embedder, on.recall, host)
        asked = islice(cycle(one.question for one in load_demo().questions), 40)
        questions = [await probe.understood(BANK, text) for text in asked]
        talks = [TurnGenerator(f"asked-{lane}") for lane in range(CLIENTS)]
        grant = Grant(key_id=uuid4(), host_id=host, banks=None, write=True)
        history = SessionHistory(database, clock)
        made = cls(here, database, embedder, memory, grant, probe, history, floors, talks, questions)
        await made.keep(HISTORY_TURNS, CLIENTS)
        await floors.adopt(host)
        return made

    async def run(self, say: Say, sizes: TurnSizes) -> BenchOutcome:
        """Run every measurement."""
        machine = await self.here.read_machine()
        measures = list[Measure]()
        for clients in (1, CLIENTS):
            say(f"before and after a turn beside their floors, {clients} at a time")
            measures += await self._beside_floors(clients, sizes)
        say(f"{PER_SECOND} calls a second for {sizes.seconds} s")
        measures += await self._at_a_rate(sizes.seconds)
        say(f"a turn of each of {sizes.users} users who share {sizes.facts} facts")
        measures += await self._of_each_user(sizes.users)
        say(f"turns of a session of {sizes.session} messages beside its maintenance, and its listing")
        clock = await DatabaseClock.asked(self.database)
        long = await LongSession.fill(self.here, self.database, self.memory, clock, sizes.session)
        measures += await long.measure(sizes.rounds * sizes.turns)
        return BenchOutcome(machine, measures, asdict(sizes))

    async def _beside_floors(self, clients: int, sizes: TurnSizes) -> list[Measure]:
        before, bare, after, rows = (list[float]() for _ in range(4))
        await run_lanes(self._build_lanes(self.before, clients, 5))
        await self.keep(3, clients)
        for _ in range(sizes.rounds):
            before += await run_lanes(self._build_lanes(self.before, clients, sizes.turns))
            bare += await run_lanes(self._build_lanes(self.bare, clients, sizes.turns))
            kept, written = await self.keep(sizes.turns, clients)
            after += kept
            rows += written
        name = "1_client" if clients == 1 else f"{clients}_clients"
        if clients > 1:
            return _p95_measures(name, before, after, *UNDER_LOAD_MS)
        return [
            Measure(f"before_p50_{name}", "ms", compute_p50_ms(before), MeasureTarget("<=", 2.5), compute_p50_ms(bare)),
            Measure(f"after_p50_{name}", "ms", compute_p50_ms(after), MeasureTarget("<=", 4.0), compute_p50_ms(rows)),
            *_p95_measures(name, before, after, *ALONE_MS),
        ]

    async def _at_a_rate(self, seconds: int) -> list[Measure]:
        """Start a call every 50 ms, before_turn and after_turn alternating; each is timed from when it was due."""
        before, after = list[float](), list[float]()
        begin, calls = time.perf_counter() + 0.1, list[asyncio.Task[None]]()

        async def call(due: float, took: list[float], action: Callable[[], Awaitable[object]]) -> None:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await action()
            took.append(time.perf_counter() - due)

        bodies = [self._after_lane(lane, seconds * PER_SECOND // (2 * CLIENTS) + 1) for lane in range(CLIENTS)]
        ready = iter([action for together in zip(*(lane for _, lane in bodies), strict=True) for action in together])
        async with self.here.kept_from_workers(self.grant.host_id, *_list_streams([ids for ids, _ in bodies])):
            for n in range(seconds * PER_SECOND):
                due = begin + n / PER_SECOND
                action = next(ready) if n % 2 else partial(self.before, self.questions[n % len(self.questions)], n % 8)
                calls.append(asyncio.create_task(call(due, after if n % 2 else before, action)))
            ended = await asyncio.gather(*calls, return_exceptions=True)
        failed = sum(isinstance(one, BaseException) for one in ended)
        name = f"{PER_SECOND}_per_s"
        return [
            *_p95_measures(name, before, after, *UNDER_LOAD_MS),
            Measure(f"failed_{name}", "calls", failed, MeasureTarget("<=", 0.0)),
        ]

    async def _of_each_user(self, users: int) -> list[Measure]:
        """Prepare a turn of each user of a shared project: its first fact has to be that user's own name."""
        took, wrong = list[float](), 0
        for nth, user in enumerate(_list_users(users)):
            said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What do I like?"}]}
            place = {"bank": PEOPLE_BANK, "session_id": user, "turn_id": "next", "user_id": user}
            begun = time.perf_counter()
            prepared = await self.memory.lifecycle.before_turn(self.grant, {**place, "current_input": [said]})
            took.append(time.perf_counter() - begun)
            lines = prepared["input_items"][1]["content"][0]["text"].splitlines()
            first = next((line for line in lines if line.startswith("[1]")), "")
            wrong += not first.startswith(f"[1] {name_person(nth)} (the user): ")
        return [
            Measure("wrong_person_first", "users", wrong, MeasureTarget("<=", 0.0)),
            Measure("before_p95_of_each_user", "ms", compute_p95_ms(took), MeasureTarget("<=", ALONE_MS[0])),
        ]

    def _build_lanes(
        self, ask: Callable[[BenchQuestion, int], Awaitable[None]], clients: int, turns: int
    ) -> list[Lane]:
        asked = [list(islice(cycle(self.questions), lane, lane + turns)) for lane in range(clients)]
        return [[partial(ask, question, lane) for question in of_lane] for lane, of_lane in enumerate(asked)]

    async def before(self, question: BenchQuestion, lane: int) -> None:
        """Call before_turn."""
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": question.text}]}
        body = {"bank": BANK, "session_id": f"asked-{lane}", "turn_id": "next", "current_input": [said]}
        prepared = await self.memory.lifecycle.before_turn(self.grant, body)
        if len(prepared["input_items"]) <= HISTORY_TURNS:
            raise NoHistory("a prepared turn of the bench shows no history")

    async def bare(self, question: BenchQuestion, lane: int) -> None:
        """Run before_turn's floor: embed the question, read postings, nearest vectors, the session's newest items."""
        await self.probe.floor(question)
        await self.sessions.recent(self.grant.host_id, BANK, f"asked-{lane}", 2 * HISTORY_TURNS)

    async def keep(self, turns: int, clients: int) -> tuple[list[float], list[float]]:
        """Call after_turn for new turns, then write their rows without logic; return the seconds of each, by way.

        Afterwards the turns have their vectors, which workers give them within a second.
        """
        lanes = [self._after_lane(lane, turns) for lane in range(clients)]
        ids = [one for one, _ in lanes]
        async with self.here.kept_from_workers(self.grant.host_id, *_list_streams(ids)):
            kept = await run_lanes([lane for _, lane in lanes])
        bank = identity.bank_id(self.grant.host_id, BANK)
        await self._embed([UnitsToEmbed(bank, turn, facts=False) for _, names in ids for turn in names])
        rows = [await self.floors.rows(self.grant.host_id, bank, session, names) for session, names in ids]
        if not await self._is_adopted():
            return kept, []
        bare = [[partial(self.floors.write, self.database, row) for row in lane] for lane in rows]
        return kept, await run_lanes(bare)

    async def _embed(self, wanted: Sequence[UnitsToEmbed]) -> None:
        host, generation = self.grant.host_id, self.embedder.generation
        async with self.database.tenant(host) as connection:
            units = await read_missing(connection, host, generation, wanted)
        vectors = await self.embedder.embed([unit.content for unit in units])
        async with self.database.tenant(host) as connection:
            await insert_vectors(connection, host, generation, units, vectors)
        await self.here.settle(host)

    async def _is_adopted(self) -> bool:
        """Return whether the floor's host has the bank and the sessions already."""
        async with self.database.tenant(self.floors.host) as connection:
            found = await connection.exec_driver_sql("select exists (select from afterturn.agent_memory_bank_t)")
            return bool(found.scalar_one())

    def _after_lane(self, lane: int, turns: int) -> tuple[tuple[UUID, list[UUID]], Lane]:
        bank = identity.bank_id(self.grant.host_id, BANK)
        session = identity.session_id(bank, f"asked-{lane}")
        made = self.talks[lane].take(turns)
        names = [identity.turn_id(session, turn.turn_name) for turn in made]
        bodies = [
            build_completed_turn(BANK, f"asked-{lane}", turn.turn_name, [one.content for one in turn.messages])
            for turn in made
        ]
        return (session, names), [partial(self.memory.lifecycle.after_turn, self.grant, body) for body in bodies]


def _list_users(count: int) -> list[str]:
    return [f"user-{nth}" for nth in range(count)]


class NoHistory(Exception):
    """A prepared turn lacks its history, so the figures would be meaningless."""


def _list_streams(ids: Sequence[tuple[UUID, list[UUID]]]) -> tuple[list[UUID], list[UUID]]:
    return [session for session, _ in ids], [turn for _, names in ids for turn in names]


def _p95_measures(
    name: str, before: Sequence[float], after: Sequence[float], before_ms: float, after_ms: float
) -> list[Measure]:
    """Return the measures of both 95th percentiles; infinity when no call of a kind ended."""
    before, after = before or [inf], after or [inf]
    return [
        Measure(f"before_p95_{name}", "ms", compute_p95_ms(before), MeasureTarget("<=", before_ms)),
        Measure(f"after_p95_{name}", "ms", compute_p95_ms(after), MeasureTarget("<=", after_ms)),
    ]
