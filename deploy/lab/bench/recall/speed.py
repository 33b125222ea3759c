"""`afterturn bench recall`: measures the speed of recall, with one measure for each promise about it."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from uuid import UUID

import httpx
from pydantic import SecretStr

from deploy.lab.bench.as_service import run_as_service
from deploy.lab.bench.bench_database import BenchDatabase, open_bench_database
from deploy.lab.bench.measures import BenchOutcome, Measure, MeasureTarget
from deploy.lab.bench.recall.asking import BenchQuestion, RecallEndpoint, RecallProbe
from deploy.lab.bench.recall.feeding import run_background_load
from deploy.lab.bench.recall.filling import BankFiller, Phrases
from deploy.lab.bench.servers import BenchServers, BenchStack, find_stack_servers, open_bench_stack
from deploy.lab.bench.timing import compute_p50_ms, compute_p95_ms, run_lanes
from deploy.lab.bench.usage import read_family_seconds
from deploy.lab.demo.data import load_demo
from deploy.notices import Say
from deploy.settings import load_settings
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings
from store import identity
from store.derived.vector_indexes import VectorIndexes
from store.recall.accuracy_check import StoredBank, compare_searches
from store.recall.settings import RecallSettings

CLIENTS = 8
LARGE = "large"
API, DATABASE = "api", "postgres"

Ask = Callable[[BenchQuestion], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RecallSizes:
    """The size of a run: one large bank, banks of the `usual` sizes, and `banks` banks of `bank_units` units each.

    `rounds` alternate between ours and floor, each with `questions` questions; `checked` units of a bank are compared
    with an exact search.
    """

    units: int = 100_000
    usual: tuple[int, ...] = (1_000, 10_000)
    processor_questions: int = 500
    banks: int = 10
    bank_units: int = 5_000
    rounds: int = 5
    questions: int = 40
    checked: int = 5


FULL = RecallSizes(banks=100, bank_units=10_000, rounds=10, questions=80, checked=20)


@dataclass(frozen=True, slots=True)
class RecallServers:
    """A database, the API on it (None: HTTP is not measured), the model's folder, and the stack's settings.

    `processes` maps the names of the stack's processes to their ids; `private`: the stack belongs to the benchmark, so
    it may be put under load.
    """

    servers: BenchServers
    api: str | None
    data: Path
    name: str
    embedding: EmbeddingSettings
    recall: RecallSettings
    private: bool = False
    redis_url: SecretStr = field(default_factory=lambda: SecretStr(""))
    processes: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


@contextmanager
def servers(data: Path | None) -> Iterator[RecallServers]:
    """Yield the stack that runs in a data folder (None: the default one), else a private one."""
    with open_bench_stack(data, workers=1) as on:
        yield _describe_servers(on)


def _describe_servers(found: BenchStack) -> RecallServers:
    stack = found.stack
    # stack.json does not hold the key of an external model.
    mine, embedding = load_settings().settings.embedding.remote, stack.embedding
    remote = embedding.remote.model_copy(update={"api_key": mine.api_key})
    embedding = embedding.model_copy(update={"remote": remote})
    data = stack.api_key_file.parent
    processes = {one.name: one.pid for one in stack.processes}
    on = find_stack_servers(stack)
    return RecallServers(
        on, stack.api, data, str(found), embedding, stack.recall, found.private, stack.redis_url, processes
    )


async def run(on: RecallServers, say: Say, sizes: RecallSizes) -> BenchOutcome:
    """Run every measurement, one after the other, and remove all data afterwards."""
    embedder = create_embedder(on.embedding, on.data)
    async with open_bench_database(on.servers) as here:
        database = here.database(CLIENTS)
        try:
            await embedder.load()
            key = await here.new_key(database)
            host = here.newest_host
            asking = RecallProbe(database, embedder, on.recall, host)
            filler = BankFiller(here.owner, host, await Phrases.read(embedder))
            bench = RecallBench(on, here, asking, filler, say, sizes)
            async with httpx.AsyncClient(
                base_url=on.api or "", headers={"authorization": f"Bearer {key}"}, trust_env=False
            ) as client:
                with run_as_service():
                    return await bench.run(RecallEndpoint(client, key) if on.api else None)
        finally:
            await embedder.close()
            await database.close()


@dataclass(frozen=True, slots=True)
class RecallBench:
    """One run of the benchmark."""

    on: RecallServers
    here: BenchDatabase
    asking: RecallProbe
    filler: BankFiller
    say: Say
    sizes: RecallSizes

    async def run(self, door: RecallEndpoint | None) -> BenchOutcome:
        """Run every measurement; growth first, because it must start with little data."""
        machine = await self.here.read_machine()
        growth, built_s = await self._measure_growth()
        self.say(f"a bank of {self.sizes.units} units is filled")
        filled_s = await self._fill_banks([LARGE], self.sizes.units)
        questions = await self._build_questions([LARGE])
        measures = [*growth]
        parts = {"many_banks_filled_s": built_s, "large_bank_filled_s": filled_s}
        for clients in (1, CLIENTS):
            self.say(f"recall beside its floor, {clients} at a time")
            measures += await self._beside_floor(questions, clients)
        if door is not None:
            self.say("recall over HTTP beside recall in process")
            measures.append(await self._over_http(questions, door))
            for units in self.sizes.usual:
                measures += await self._measure_usual_bank(units, door, parts)
        self.say("recall beside an exact search")
        measures += [
            await self._compare_with_exact("bank-0", self.sizes.bank_units),
            await self._compare_with_exact(LARGE, self.sizes.units),
        ]
        if door is not None and self.on.private:
            self.say("recall over HTTP from a bank that takes turns as fast as they come in")
            busy, parts["fed_turns_per_s"] = await self._measure_fed_bank(questions, door)
            measures.append(busy)
        return BenchOutcome(machine, measures, asdict(self.sizes), parts)

    async def _measure_growth(self) -> tuple[list[Measure], float]:
        """Measure recall in one bank alone, then among many of the same size; also return the seconds to fill them."""
        names, each = [f"bank-{nth}" for nth in range(self.sizes.banks)], self.sizes.bank_units
        total = each * self.sizes.banks
        self.say(f"{each} units, then {total} in {self.sizes.banks} banks (vectors: real ones plus noise)")
        filled_s = await self._fill_banks(names[:1], each)
        alone = await self._time_questions(self.asking.ours, await self._build_questions(names[:1]))
        filled_s += await self._fill_banks(names[1:], each)
        among = await self._time_questions(self.asking.ours, await self._build_questions(names))
        name = f"p95_{total}_units_in_{self.sizes.banks}_banks_over_{each}_units"
        return [
            Measure(name, "ms", compute_p95_ms(among), MeasureTarget("<=", 2.0), compute_p95_ms(alone)),
            Measure(f"fill_{total}_units", "min", filled_s / 60, MeasureTarget("<=", 20.0)),
        ], filled_s

    async def _fill_banks(self, banks: Sequence[str], units: int) -> float:
        started = time.monotonic()
        for bank in banks:
            await self.filler.fill(bank, units)
        await self.filler.settle()
        await self._build_index()
        return time.monotonic() - started

    async def _build_index(self) -> None:
        """Build the vector indexes that the banks need, as maintenance would do later."""
        url = self.on.servers.owner_url.get_secret_value()
        indexes = VectorIndexes(url, self.on.recall.exact_units)
        while await indexes.build_some():
            self.say("an index over vectors is built")

    async def _build_questions(self, banks: Sequence[str]) -> list[BenchQuestion]:
        """Return the demo's questions, addressed to the banks in turn."""
        asked = islice(cycle(one.question for one in load_demo().questions), max(self.sizes.questions, len(banks)))
        return [await self.asking.understood(bank, text) for bank, text in zip(cycle(banks), asked, strict=False)]

    async def _time_questions(self, ask: Ask, questions: Sequence[BenchQuestion]) -> list[float]:
        await run_lanes(split_lanes(ask, questions, 1))
        return [took for _ in range(self.sizes.rounds) for took in await run_lanes(split_lanes(ask, questions, 1))]

    async def _beside_floor(self, questions: Sequence[BenchQuestion], clients: int) -> list[Measure]:
        ours, floor = await self._in_turns((self.asking.ours, self.asking.floor), questions, clients)
        name = "1_client" if clients == 1 else f"{clients}_clients"
        return [
            Measure(f"recall_p50_{name}", "ms", compute_p50_ms(ours), MeasureTarget("<=", 2.5), compute_p50_ms(floor)),
            Measure(f"recall_p95_{name}", "ms", compute_p95_ms(ours), MeasureTarget("<=", 3.0), compute_p95_ms(floor)),
        ]

    async def _over_http(self, questions: Sequence[BenchQuestion], door: RecallEndpoint) -> Measure:
        ours, http = await self._in_turns((self.asking.ours, door.ask), questions, 1)
        return Measure("http_adds_p50", "ms", compute_p50_ms(http) - compute_p50_ms(ours), MeasureTarget("<=", 6.0))

    async def _measure_usual_bank(self, units: int, door: RecallEndpoint, parts: dict[str, float]) -> list[Measure]:
        """Measure recall over HTTP in a bank of a usual size, beside the floor; add processor times to `parts`."""
        name = f"{units}_units"
        self.say(f"a bank of {units} units over HTTP beside the floor")
        await self._fill_banks([name], units)
        questions = await self._build_questions([name])
        ours, filled, floor = await self._in_turns((door.ask, door.ask_tokens, self.asking.floor), questions, 1)
        many, floor_of_many = await self._in_turns((door.ask, self.asking.floor), questions, CLIENTS)
        processor = await self._processor_times(questions, door)
        parts |= {f"{name}_{process}_processor_ms": took for process, took in processor.items()}
        alone = compute_p50_ms(floor)
        rows = [
            Measure(f"http_p50_{name}", "ms", compute_p50_ms(ours), MeasureTarget("<=", 2.5), alone),
            Measure(f"http_p95_{name}", "ms", compute_p95_ms(ours), MeasureTarget("<=", 3.0), compute_p95_ms(floor)),
            Measure(
                f"http_p50_{name}_{CLIENTS}_clients",
                "ms",
                compute_p50_ms(many),
                MeasureTarget("<=", 3.0),
                compute_p50_ms(floor_of_many),
            ),
            Measure(f"http_p50_{name}_2000_tokens", "ms", compute_p50_ms(filled), MeasureTarget("<=", 3.0), alone),
        ]
        if API in processor:
            rows.append(Measure(f"api_processor_{name}", "ms", processor[API], MeasureTarget("<=", 12.0)))
        return rows

    async def _processor_times(self, questions: Sequence[BenchQuestion], door: RecallEndpoint) -> dict[str, float]:
        """Return the processor time of API and database per question, in milliseconds."""
        before = {name: read_family_seconds(pid) for name, pid in self.on.processes.items()}
        asked = list(islice(cycle(questions), self.sizes.processor_questions))
        await run_lanes(split_lanes(door.ask, asked, 1))
        after = {name: read_family_seconds(pid) for name, pid in self.on.processes.items()}
        return {name: (after[name] - before[name]) * 1000 / len(asked) for name in after if name in (API, DATABASE)}

    async def _measure_fed_bank(
        self, questions: Sequence[BenchQuestion], door: RecallEndpoint
    ) -> tuple[Measure, float]:
        """Measure recall from the bank that receives turns, so that its pending work is part of the figure."""
        quiet = await self._time_questions(door.ask, questions)
        with run_background_load(str(door.client.base_url), door.key, LARGE) as taken:
            busy = await self._time_questions(door.ask, questions)
        measure = Measure(
            "http_p95_during_ingestion", "ms", compute_p95_ms(busy), MeasureTarget("<=", 3.0), compute_p95_ms(quiet)
        )
        return measure, taken.turns_per_s

    async def _in_turns(
        self, ways: Sequence[Ask], questions: Sequence[BenchQuestion], clients: int
    ) -> list[list[float]]:
        """Warm up each way, then alternate blocks of questions; return the seconds of each way."""
        took: list[list[float]] = [[] for _ in ways]
        for way in ways:
            await run_lanes(split_lanes(way, questions, clients))
        for _ in range(self.sizes.rounds):
            for mine, way in zip(took, ways, strict=True):
                mine.extend(await run_lanes(split_lanes(way, questions, clients)))
        return took

    async def _compare_with_exact(self, bank: str, units: int) -> Measure:
        """Measure the share of an exact search's results that recall finds; the worst filter counts."""
        host: UUID = self.filler.host
        stored = StoredBank(host, identity.bank_id(host, bank), bank, units)
        database = self.here.database(1)
        try:
            generation = self.asking.embedder.generation
            asked = await compare_searches(database, stored, self.sizes.checked, self.on.recall, generation)
        finally:
            await database.close()
        there = {one.filter: sum(other.there for other in asked if other.filter == one.filter) for one in asked}
        found = {one.filter: sum(other.found for other in asked if other.filter == one.filter) for one in asked}
        least = min(found[name] / there[name] for name in there)
        return Measure(f"recall_at_10_of_exact_{units}_units", "share", least, MeasureTarget(">=", 0.98))


def split_lanes(ask: Ask, questions: Sequence[BenchQuestion], clients: int) -> list[list[partial[Awaitable[None]]]]:
    """Return the questions distributed over `clients` lanes."""
    return [[partial(ask, question) for question in questions[lane::clients]] for lane in range(clients)]
