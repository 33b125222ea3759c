"""Composes and runs a worker process; import it only when the environment is prepared (deploy/worker/__main__.py).

All asynchronous objects belong to one event loop, dramatiq's, and are created and closed there. Dramatiq's threads wait
for messages; the main thread waits for a signal.
"""

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

import dramatiq
import structlog
import uvloop
from dramatiq.asyncio import EventLoopThread, set_event_loop_thread
from dramatiq.brokers.redis import RedisBroker

from deploy.components.broker_fitness import BrokerMonitor
from deploy.components.database_fitness import log_unusable_databases
from deploy.components.external_models import record_models
from deploy.components.facade import build_dependencies
from deploy.components.gateways import build_delivery_clients, create_gateway_recall
from deploy.components.indexing import index_as_owner
from deploy.components.models import ModelKeeper
from deploy.components.process_setup import freeze_loaded_objects, lower_backend_priority
from deploy.observability import logs
from deploy.observability.loop_lag import record_loop_lag
from deploy.observability.tracing import start_tracing
from deploy.settings import Settings
from deploy.worker.queue_file import rewrite_queue_file
from deploy.worker.registry import Registration, wait_for_end
from deploy.worker.turn_queues import build_queue_workers, count_letters, prune_letters
from embeddings.errors import EmbeddingError
from embeddings.prompt_tokens import choose_counter
from embeddings.protocol import Embedder
from embeddings.registry import Owned, create_reranker
from embeddings.retry import Backoff
from producers.mcp.bank_memory import BankMemory
from producers.notifications import Notifier
from producers.service.gateway_clients import GatewayClients
from producers.service.gateway_recall import GatewayRecall
from producers.service.memory import MemoryFacade
from producers.service.recall_coordinator import RecallCoordinator
from producers.service.session_summaries import RuleDigester, Summariser
from store.clock import DatabaseClock
from store.database import Database
from store.derived.pending_words import PendingWordsIndexer
from store.erasure import Erasures
from store.half_open import keep_ending_half_open_sessions
from store.ledger.deliveries import DeliveryWriter
from store.ledger.freshness import Waiter
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from store.ledger.workers import WorkerRegistry
from store.maintenance import Consolidation, ExpiryTask, Pruning, Schedule, WordReanalysis
from store.memory.session_digests import SessionDigests
from store.memory.turns import TurnStore
from store.recall.jobs import RecallJobs
from store.recall.recaller import Recaller
from workers.broker import (
    ActorDependencies,
    NotificationBroker,
    build_pools,
    build_worker,
    create_broker,
    register_actors,
)
from workers.consumer_faults import is_news
from workers.embedding import EmbeddingStage
from workers.enrichment import EnrichmentStage, model_gate
from workers.extraction.llm.digest import ModelDigester
from workers.extraction.llm.reader import LlmReader, build_reader
from workers.extraction.llm.rights import ModelRights
from workers.extraction.stage import ExtractionStage
from workers.gateway import GatewayStage
from workers.generation_passes import GenerationPasses, generation_task
from workers.maintenance import Maintainer, Needs, build_tasks, recall_check_task
from workers.projection import ProjectionStage
from workers.recall import RecallWork
from workers.retry import RetryPolicy
from workers.runner import Runner
from workers.stage_work import StageWork
from workers.sweeper import Sweeper

#: How long work in flight may take to end when the process is told to stop, in seconds.
GRACE_S = 3.0
#: Pause between two checks for a stop signal while a model loads, in seconds.
POLL_INTERVAL_S = 0.1
#: Pause between two looks for a generation whose vectors are to be made, in seconds.
BUILD_INTERVAL_S = 2.0
#: How long dramatiq's threads may take to end, in milliseconds.
THREADS_END_MS = 5000

log = structlog.get_logger("afterturn.worker")


@dataclass(slots=True)
class WorkerResources:
    """The objects that belong to the event loop, and the order in which they are closed."""

    database: Database
    models: ModelKeeper
    reranker: Owned | None
    gateways: GatewayClients
    gateway_recall: GatewayRecall
    reader: LlmReader | None
    notifier: Notifier
    dependencies: ActorDependencies
    memory: MemoryFacade
    looking: Sequence[asyncio.Task[None]]
    entry: Registration

    async def drain(self, grace_s: float = GRACE_S) -> None:
        """Claim no more work; work that still runs after `grace_s` seconds is cancelled and its claims are released."""
        for task in self.looking:
            task.cancel()
        stops = [runner.stop(grace_s) for runner in self.dependencies.runners.values()]
        await asyncio.gather(*self.looking, self.dependencies.recall.stop(grace_s), *stops, return_exceptions=True)

    async def dispose(self) -> None:
        """Close everything; no work may be running any more."""
        await self.notifier.close()
        await self.gateways.aclose()
        for one in (self.gateway_recall, self.reader, self.reranker):
            if one is not None:
                await one.close()
        await self.models.close()
        await self.database.close()


class WorkerLoop(EventLoopThread):
    """Dramatiq's event-loop thread on uvloop, as in the API: it costs half the processor time of asyncio's own loop."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger)
        self.loop.close()
        self.loop = uvloop.new_event_loop()
        # A hanging thread must not keep the process alive after its end.
        self.daemon = True


def run_worker(settings: Settings, stages: Callable[..., Sequence[StageWork]] | None = None) -> int:
    """Work until SIGTERM or SIGINT, then stop within seconds; return the exit code.

    `stages` builds stages that replace the real ones, from the same arguments (settings, database, embedder, gateways,
    reader).
    """
    logs.configure_logging(settings.log)
    logging.getLogger(f"dramatiq.broker.{NotificationBroker.__name__}").addFilter(_is_worth_logging)
    for handler in logging.getLogger().handlers:
        handler.addFilter(is_news)
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    watch = BrokerMonitor(settings.broker)
    watch.look()
    if watch.wrong():
        return 1
    stop_tracing = start_tracing(settings.tracing)
    loop = WorkerLoop(logging.getLogger("afterturn.worker.loop"))
    loop.start(timeout=10)
    set_event_loop_thread(loop)
    broker = create_broker(settings.broker)
    parts = loop.run_coroutine(_build_resources(settings, broker, watch, stages or _create_stages))
    register_actors(broker, parts.dependencies)
    broker.emit_after("process_boot")
    workers = [build_worker(broker, pool) for pool in build_pools(settings.worker)]
    workers += build_queue_workers(settings, parts.memory, parts.database)
    try:
        return _work_until_signal(loop, parts, workers, ending)
    finally:
        _stop_workers(loop, parts, workers)
        stop_tracing()
        broker.close()
        log.info("stopped", pid=os.getpid())


def _work_until_signal(
    loop: EventLoopThread, parts: WorkerResources, workers: Sequence[dramatiq.Worker], ending: threading.Event
) -> int:
    for one in workers:
        one.start()
    log.info("working", pid=os.getpid())
    try:
        if not _load_model(loop, parts.models, ending):
            return 0
    except EmbeddingError as error:
        log.error("embedding_model_unusable", error=type(error).__name__, reason=str(error))  # noqa: TRY400 - no tracebacks
        return 1
    log.info("embedding_model_loaded", model=parts.models.name)
    _warm_reranker(loop, parts.reranker, ending)
    freeze_loaded_objects()
    wait_for_end(loop, parts.entry, workers, parts.drain, ending)
    return 0


def _load_model(loop: EventLoopThread, model: Owned, ending: threading.Event) -> bool:
    """Load a model; False when a stop signal came first."""
    loading = asyncio.run_coroutine_threadsafe(model.load(), loop.loop)
    while not ending.is_set():
        if wait([loading], timeout=POLL_INTERVAL_S).done:
            loading.result()
            return True
    loading.cancel()
    return False


def _warm_reranker(loop: EventLoopThread, reranker: Owned | None, ending: threading.Event) -> None:
    """Load the reranker, if there is one; without it, recall jobs are still answered, and say that it is missing."""
    if reranker is None:
        return
    try:
        _load_model(loop, reranker, ending)
    except EmbeddingError as error:
        log.error("reranker_unusable", error=type(error).__name__)  # noqa: TRY400 - no tracebacks


def _stop_workers(loop: EventLoopThread, parts: WorkerResources, workers: Sequence[dramatiq.Worker]) -> None:
    loop.run_coroutine(parts.drain())
    loop.run_coroutine(parts.entry.end())
    with ThreadPoolExecutor(len(workers)) as threads:
        for one in workers:
            threads.submit(one.stop, THREADS_END_MS)
    loop.run_coroutine(parts.dispose())
    set_event_loop_thread(None)
    loop.stop()  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations


async def _build_resources(
    settings: Settings, broker: RedisBroker, watch: BrokerMonitor, stages: Callable[..., Sequence[StageWork]]
) -> WorkerResources:
    nice = settings.worker.nice
    bank_memory = BankMemory(settings.api.mcp.memory)
    retention = bank_memory.build_retention()
    database = Database(settings.database, lower_backend_priority(nice) if nice else None, retention=retention)
    clock = DatabaseClock(database)
    turns = TurnStore(database, clock)
    models = ModelKeeper(database, settings.embedding, settings.data)
    embedder = models.embedder
    gateways, reader = build_delivery_clients(settings.gateway, database), build_reader(settings.enrichment)
    rules = RuleDigester(turns.digests)
    summariser = Summariser(turns.summaries, turns.sessions, bank_memory.limit_summaries, rules)
    if reader is not None:
        gate = model_gate(database, settings.enrichment)
        digester = ModelDigester(reader, gate, turns.summaries, rules, _build_rights(settings))
        summariser = replace(summariser, digester=digester)
    gateway_recall = create_gateway_recall(settings.gateway, database, settings.gateway.timeout_seconds)
    notifier, ledger, jobs = Notifier(broker), Ledger(database), RecallJobs(database, clock)
    reranker = create_reranker(settings.embedding.reranker, settings.data)
    counter = choose_counter(settings.recall.tokenizer)
    recaller = Recaller(database, embedder, settings.recall, reranker=reranker, counter=counter, clock=clock)
    coordinator = RecallCoordinator(database, recaller, Waiter(database), gateway_recall, counter=counter)
    lease = timedelta(seconds=settings.worker.lease_seconds)
    name = _build_worker_name()
    works = stages(settings, database, embedder, (gateways, reader), (summariser, turns.digests))
    runners = _create_runners(settings, ledger, works, (notifier, clock), name)
    recall = RecallWork(jobs, coordinator, lease, models.load)
    sweeper = Sweeper(
        ledger=ledger,
        jobs=jobs,
        notifier=notifier,
        here={stage: runner.drain for stage, runner in runners.items()},
        answer=recall.answer,
        every_s=settings.worker.sweep_seconds,
        words=PendingWordsIndexer(database),
    )
    needs = Needs(
        Pruning(database),
        jobs,
        Erasures(database, clock),
        settings.maintenance,
        clock,
        WordReanalysis(database),
        ExpiryTask(database, clock),
        Consolidation(database, clock),
        turns.summaries,
        turns.digests,
        summariser,
    )
    tasks = (*build_tasks(needs), recall_check_task(database, settings.recall))
    maintainer = Maintainer(Schedule(database), tasks, name)
    named = models.own.name, models.own.generation
    entry = Registration(WorkerRegistry(database), name, [str(stage) for stage in settings.worker.stages], named)
    entry.start()
    dependencies = ActorDependencies(runners, recall, notifier.acknowledge)
    memory = MemoryFacade(build_dependencies(database, clock, coordinator, notifier), settings.api)
    looking = [
        asyncio.create_task(run, name=name)
        for name, run in (
            ("sweeper", sweeper.run()),
            ("maintainer", _run_maintenance(maintainer, clock)),
            ("clock", clock.run()),
            ("half-open sessions", keep_ending_half_open_sessions(database)),
            ("broker", watch.run()),
            ("databases", log_unusable_databases(settings.database)),
            ("loop lag", record_loop_lag("worker")),
            ("external models", record_models(database, settings)),
            ("models", models.run()),
            ("generations", build_generations(database, models, settings, name)),
            ("indexes", index_as_owner(settings, name)),
            ("dead letters", prune_letters(settings)),
            ("count of dead letters", count_letters(settings)),
            ("file of turn queues", rewrite_queue_file(settings)),
        )
    ]
    return WorkerResources(
        database, models, reranker, gateways, gateway_recall, reader, notifier, dependencies, memory, looking, entry
    )


async def build_generations(database: Database, models: ModelKeeper, settings: Settings, name: str) -> None:
    """Make the vectors of generations, and delete those of dropped ones, in a worker that embeds, until cancelled."""
    if Stage.EMBEDDING in settings.worker.stages:
        task = generation_task(GenerationPasses(database, models.find_model))
        await Maintainer(Schedule(database), [task], f"{name}:generations", every_s=BUILD_INTERVAL_S, pause_s=0).run()


async def _run_maintenance(maintainer: Maintainer, clock: DatabaseClock) -> None:
    """Run maintenance once the database's clock is known: it deletes permanently what is old."""
    await clock.known()
    await maintainer.run()


def _create_stages(
    settings: Settings,
    database: Database,
    embedder: Embedder,
    called: tuple[GatewayClients, LlmReader | None],
    of_sessions: tuple[Summariser, SessionDigests],
) -> Sequence[StageWork]:
    gateways, reader = called
    summariser, digests = of_sessions
    rights = _build_rights(settings)
    every = (
        GatewayStage(database, DeliveryWriter(database), gateways, settings.gateway, _create_retry_policy(settings)),
        ExtractionStage(
            database,
            None if reader is None else reader.version,
            summariser.limits,
            rights,
            digests,
        ),
        EnrichmentStage(database, reader, model_gate(database, settings.enrichment), summariser, rights),
        EmbeddingStage(database, embedder),
        ProjectionStage(database),
    )
    return [work for work in every if work.stage in settings.worker.stages]


def _build_rights(settings: Settings) -> ModelRights:
    memory = BankMemory(settings.api.mcp.memory)
    return ModelRights(memory.may_model_read, memory.may_model_delete)


def _create_runners(
    settings: Settings, ledger: Ledger, stages: Sequence[StageWork], told: tuple[Notifier, DatabaseClock], name: str
) -> Mapping[Stage, Runner]:
    notifier, clock = told
    return {
        work.stage: Runner(
            ledger=ledger,
            work=work,
            notify=notifier.notify,
            retry_policy=_create_retry_policy(settings),
            clock=clock,
            lease=timedelta(seconds=settings.worker.lease_seconds),
            worker=name,
        )
        for work in stages
    }


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Return False for dramatiq's warning about repeated middleware: each pool of threads adds its own, on purpose."""
    return "middleware of the same type twice" not in str(record.msg)


def _create_retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(Backoff(), settings.worker.max_attempts)


def _build_worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
