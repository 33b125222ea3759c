"""`afterturn bench pipeline`: measures turns per second through all stages beside the bare library calls."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from statistics import median
from uuid import UUID

from sqlalchemy import text

from deploy.lab.bench import row_floor, stage_floors
from deploy.lab.bench.acknowledgement import append_new_turns
from deploy.lab.bench.bench_database import BenchDatabase, open_bench_database
from deploy.lab.bench.http_latency import BUSY_PAUSE_S, QUIET_PAUSE_S, Questions, TurnEndpoint
from deploy.lab.bench.material import repeat_conversation
from deploy.lab.bench.measures import BenchOutcome, Measure, MeasureTarget
from deploy.lab.bench.pipeline_stack import PipelineStack, open_pipeline_stack
from deploy.lab.worker_pause import pause_workers
from deploy.notices import Say
from embeddings.settings import Variant
from store.clock import read_machine_time
from store.database import Database
from store.derived.pending_words import PendingWordsIndexer
from store.memory.turns import NewTurn, TurnStore

#: Opens the stack that `run` takes.
servers = open_pipeline_stack
MILLISECONDS = 1000.0
#: Turns per append, and the pause between two checks whether everything is done, in seconds.
APPEND_BATCH = 50
POLL_INTERVAL_S = 0.05
#: Size of the backlog during the acknowledgement measurement, as a multiple of a round's banks.
SATURATING = 4
#: Longest wait until the stages are done, in seconds.
PATIENCE_S = 900.0


UNDONE = text("select exists (select from afterturn.ledger_t where host_id = any(:hosts) and undone)")
LEFT = text("""
    select count(*) filter (where undone) as undone,
           count(*) filter (where status in ('dead', 'add_unknown', 'add_failed', 'flush_failed', 'unknown')) as failed
      from afterturn.ledger_t where host_id = any(:hosts)""")


class PipelineUnfinished(Exception):
    """Work of the pipeline was left or failed, so its figures would be meaningless."""


@dataclass(frozen=True, slots=True)
class PipelineSizes:
    """The size of a run: rounds with a number of banks, each with the demo's conversation of 153 turns.

    `sample` is the number of texts on which the embedder's best batch size is searched. 300 acknowledgements are timed,
    because in a hundred the 95th percentile is the fifth slowest, which a single stall determines.
    """

    rounds: int = 3
    banks: int = 8
    idle_banks: int = 16
    acknowledgements: int = 300
    sample: int = 96


FULL = PipelineSizes(rounds=5, banks=64, idle_banks=128, acknowledgements=800, sample=256)


@dataclass(frozen=True, slots=True)
class DrainedBacklog:
    """A backlog that was drained: wall time, and processor time by part, in seconds."""

    host: UUID
    turns: int
    since: int
    seconds: float
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Turns per second."""
        return self.turns / self.seconds


async def run(on: PipelineStack, say: Say, sizes: PipelineSizes) -> BenchOutcome:
    """Run every measurement, one after the other."""
    async with open_bench_database(on.servers) as here:
        database = here.database(4)
        try:
            return await PipelineBench(on, here, database, say, sizes).run()
        finally:
            await database.close()


@dataclass(frozen=True, slots=True)
class PipelineBench:
    """One run of the benchmark."""

    on: PipelineStack
    here: BenchDatabase
    database: Database
    say: Say
    sizes: PipelineSizes

    async def run(self) -> BenchOutcome:
        """Run every measurement, one after the other."""
        machine = await self.here.read_machine()
        await self.drained(1)
        rounds, floors = [], []
        for nth in range(self.sizes.rounds):
            rounds.append(await self.drained(self.sizes.banks))
            self.say(f"round {nth + 1}: {rounds[-1].rate:.0f} turns/s through all stages")
            # Measured after each round, because the speed of a shared machine changes within a minute.
            floors.append(await self._measure_floor(rounds[-1]))
        costs = {part: median(one[part] for one in floors) for part in FLOOR} | await self._compare_graphs(rounds[-1])
        measures = [
            self._compare_with_floor("pipeline_over_library_calls", rounds, sum(costs[part] for part in FLOOR), 0.7),
            self._compare_with_floor("pipeline_over_embedder_alone", rounds, costs["floor_embedding_ms"], 0.5),
            await self._measure_idle_stages(),
            await self._measure_recall_jobs(),
            *await self._measure_acknowledgement(),
        ]
        return BenchOutcome(
            machine,
            measures,
            asdict(self.sizes),
            {**costs, **_average_our_costs(rounds), **_compute_processor_ratios(costs, rounds)},
        )

    async def drained(self, banks: int) -> DrainedBacklog:
        """Append turns while the workers are paused, and time them from then until every stage is done."""
        with pause_workers(self.on.stack):
            host, turns = await self.backlog(banks)
            since, before = await row_floor.read_transaction_mark(self.here), self.on.cpu_seconds()
        started = time.monotonic()
        await self.done(host)
        seconds = time.monotonic() - started
        after = self.on.cpu_seconds()
        return DrainedBacklog(host, len(turns), since, seconds, {part: after[part] - before[part] for part in after})

    async def backlog(self, banks: int) -> tuple[UUID, list[NewTurn]]:
        """Append the conversation to several banks of a new tenant, alternating between them; return host and turns."""
        host, store = await self.here.new_host(self.database), TurnStore(self.database, read_machine_time)
        await self.on.hand_over(self.database, host)
        turns = list(chain.from_iterable(zip(*repeat_conversation(banks), strict=True)))
        for start in range(0, len(turns), APPEND_BATCH):
            await append_new_turns(store, host, *turns[start : start + APPEND_BATCH])
        return host, turns

    async def done(self, *hosts: UUID) -> None:
        """Wait until nothing is undone. Raises PipelineUnfinished when it takes too long or something failed."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and await self.undone(*hosts):  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(POLL_INTERVAL_S)
        async with self.here.owner.connect() as connection:
            left = (await connection.execute(LEFT, {"hosts": list(hosts)})).one()
        if left.undone or left.failed:
            raise PipelineUnfinished(f"{left.undone} rows of the ledger are undone, {left.failed} failed")

    async def undone(self, *hosts: UUID) -> bool:
        """Return whether these hosts have undone rows, by one statement on a pooled connection."""
        async with self.database.operator_call() as connection:
            return bool((await connection.execute(UNDONE, {"hosts": list(hosts)})).scalar_one())

    async def _measure_floor(self, drained: DrainedBacklog) -> dict[str, float]:
        """Return the processor time of the bare calls for one turn, in milliseconds by part."""
        turns = list(chain.from_iterable(repeat_conversation(self.sizes.banks)))
        texts = await stage_floors.read_embedded_texts(self.here, drained.host)
        with pause_workers(self.on.stack):
            self.say(f"the bare calls: {len(texts)} texts, {len(turns)} deliveries, their rows, the rules")
            spent = {
                "floor_embedding_ms": self._time_embedding(texts, Variant.DYNAMIC),
                "floor_gateway_ms": await stage_floors.time_gateway_posts(self.on, turns),
                "floor_rows_ms": (await row_floor.copy_rows(self.here, drained.host, drained.since)).seconds,
                "floor_rules_ms": stage_floors.time_rules(turns),
            }
        return _compute_turn_costs(spent, drained)

    async def _compare_graphs(self, drained: DrainedBacklog) -> dict[str, float]:
        """Return fastembed's processor time per turn, in milliseconds, with the packaged model and with our graph."""
        texts = await stage_floors.read_embedded_texts(self.here, drained.host)
        with pause_workers(self.on.stack):
            self.say("the other graphs of the sentence model")
            spent = {
                "as_shipped_embedding_ms": self._time_embedding(texts, Variant.WEIGHTS),
                # No library ships this graph, but our stage runs it.
                "our_graph_embedding_ms": self._time_embedding(texts, Variant.LEAN),
            }
        return _compute_turn_costs(spent, drained)

    def _time_embedding(self, texts: Sequence[str], variant: Variant) -> float:
        return stage_floors.time_embedding(texts, self.on.data / "models", variant, self.sizes.sample)

    def _compare_with_floor(
        self, name: str, rounds: Sequence[DrainedBacklog], floor_ms: float, least: float
    ) -> Measure:
        ours = median(one.rate for one in rounds)
        return Measure(name, "turns/s", ours, MeasureTarget(">=", least), self.on.workers / floor_ms * MILLISECONDS)

    async def _measure_idle_stages(self) -> Measure:
        """Measure turns per second when idle stages drain a backlog, after a small one to warm up.

        Its words are indexed before, which is real work: workers do it as well when many are waiting.
        """
        with pause_workers(self.on.stack), self.on.idle_workers() as idle:
            host, _ = await self.backlog(1)
            await self.done(host)
            with pause_workers(idle):
                host, turns = await self.backlog(self.sizes.idle_banks)
                await PendingWordsIndexer(self.database).index(PATIENCE_S)
            started = time.monotonic()
            await self.done(host)
            seconds = time.monotonic() - started
        return Measure("no_op_stages", "turns/s", len(turns) / seconds, MeasureTarget(">=", 1000.0))

    async def _measure_recall_jobs(self) -> Measure:
        """Measure by how much a recall job takes longer than the same recall as a call, on an idle stack."""
        at_once, as_job = await Questions(self.on.stack).p95_ms(self.sizes.acknowledgements)
        return Measure("recall_job_p95_over_call", "ms", as_job - at_once, MeasureTarget("<=", 150.0))

    async def _measure_acknowledgement(self) -> list[Measure]:
        endpoint = TurnEndpoint(self.on.stack)
        quiet = await endpoint.p95_ms(self.sizes.acknowledgements, QUIET_PAUSE_S)
        with pause_workers(self.on.stack):
            host, _ = await self.backlog(SATURATING * self.sizes.banks)
        busy = await endpoint.p95_ms(self.sizes.acknowledgements, BUSY_PAUSE_S)
        if not await self.undone(host):
            raise PipelineUnfinished("the backlog was worked off before the acknowledgements were timed")
        return [
            Measure("ack_p95_saturated_over_quiet", "ms", busy, MeasureTarget("<=", 3.0), quiet),
            Measure("ack_p95_saturated", "ms", busy, MeasureTarget("<=", 60.0)),
        ]


FLOOR = ("floor_embedding_ms", "floor_gateway_ms", "floor_rows_ms", "floor_rules_ms")


def _compute_turn_costs(spent: Mapping[str, float], drained: DrainedBacklog) -> dict[str, float]:
    return {name: seconds / drained.turns * MILLISECONDS for name, seconds in spent.items()}


def _compute_processor_ratios(costs: Mapping[str, float], rounds: Sequence[DrainedBacklog]) -> dict[str, float]:
    """Return the ratios by processor time alone, which other load on the machine hardly changes."""
    spent = sum(_average_our_costs(rounds).values())
    return {
        "processor_over_library_calls": sum(costs[part] for part in FLOOR) / spent,
        "processor_over_embedder_alone": costs["floor_embedding_ms"] / spent,
        "processor_over_calls_with_our_graph": sum(costs[part] for part in ("our_graph_embedding_ms", *FLOOR[1:]))
        / spent,
    }


def _average_our_costs(rounds: Sequence[DrainedBacklog]) -> dict[str, float]:
    """Return the median processor time of a turn by part of the stack, in milliseconds."""
    parts = rounds[0].cpu
    return {f"ours_{part}_ms": median(one.cpu[part] / one.turns for one in rounds) * MILLISECONDS for part in parts}
