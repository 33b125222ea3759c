"""Builds what a worker process works with; import it only when the environment is prepared (deploy/worker/__main__.py).

All of it belongs to one event loop, dramatiq's, and is created and closed there.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import redis
import structlog
from dramatiq.brokers.redis import RedisBroker

from deploy.components.broker_fitness import BrokerMonitor
from deploy.components.database_fitness import log_unusable_databases
from deploy.components.external_models import record_models
from deploy.components.facade import build_dependencies
from deploy.components.gateways import build_delivery_clients, create_gateway_recall
from deploy.components.indexing import index_as_owner
from deploy.components.models import ModelKeeper
from deploy.components.process_setup import lower_backend_priority
from deploy.components.turn_queues import queue_url
from deploy.observability.loop_lag import record_loop_lag
from deploy.settings import Settings
from deploy.worker.registry import Registration
from deploy.worker.turn_queues import count_letters, prune_letters
from embeddings.prompt_tokens import choose_counter
from embeddings.protocol import Embedder
from embeddings.registry import Owned, create_reranker
from embeddings.rerank import CrossEncoder
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
from store.memory.turns import TurnStore
from store.recall.jobs import RecallJobs
from store.recall.recaller import Recaller
from workers.broker import (
    ActorDependencies,
)
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
from workers.turn_queue import ANSWER_S, CONNECT_S

log = structlog.get_logger(__name__)

#: Pause between two looks at whether a rewrite is due, in seconds; the longest one, for long intervals.
MOST_PAUSE_S = 300.0


async def rewrite_queue_file(settings: Settings) -> None:
    """Have the server rewrite its file every `queue.rewrite_file_seconds`, until cancelled.

    One process does so for all. A failure is logged once until a rewrite was begun again.
    """
    every = settings.queue.rewrite_file_seconds
    if not (settings.queue.tenants and every):
        return
    limits = {"socket_connect_timeout": CONNECT_S, "socket_timeout": ANSWER_S}
    client = redis.Redis.from_url(queue_url(settings), **limits)
    failed = False
    while True:
        try:
            await asyncio.to_thread(begin_rewrite, client, f"{settings.broker.namespace}:queue-file-rewritten", every)
            failed = False
        except redis.RedisError as error:
            if not failed:
                log.warning("queue_file_not_rewritten", error=type(error).__name__)
            failed = True
        await asyncio.sleep(min(every / 4, MOST_PAUSE_S))


def begin_rewrite(client: "redis.Redis", mark: str, every_s: int) -> bool:
    """Begin a rewrite unless one was begun within `every_s` seconds, by the key `mark`; return whether it was begun.

    A server without an append-only file needs none. Raises redis.RedisError.
    """
    persistence: Any = client.info("persistence")
    if not persistence["aof_enabled"] or not client.set(mark, "", nx=True, ex=every_s):
        return False
    try:
        client.bgrewriteaof()
    except redis.RedisError:
        with suppress(redis.RedisError):
            client.delete(mark)
        raise
    return True


#: How long work in flight may take to end when the process is told to stop, in seconds.
GRACE_S = 3.0
#: Pause between two looks for a generation whose vectors are to be made, in seconds.
BUILD_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageParts:
    """What the stages of a process work with; `reader`: the model that reads turns, None where none is configured."""

    database: Database
    clock: DatabaseClock
    embedder: Embedder
    turns: TurnStore
    gateways: GatewayClients
    reader: LlmReader | None
    rights: ModelRights
    summariser: Summariser


#: Creates the stages that a process serves.
StageFactory = Callable[[Settings, StageParts], Sequence[StageWork]]


@dataclass(slots=True, kw_only=True)
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
    background: Sequence[asyncio.Task[None]]
    registration: Registration

    async def drain(self, grace_s: float = GRACE_S) -> None:
        """Claim no more work; work that still runs after `grace_s` seconds is cancelled and its claims are released."""
        for task in self.background:
            task.cancel()
        stops = [runner.stop(grace_s) for runner in self.dependencies.runners.values()]
        await asyncio.gather(*self.background, self.dependencies.recall.stop(grace_s), *stops, return_exceptions=True)

    async def dispose(self) -> None:
        """Close everything; no work may be running any more."""
        await self.notifier.close()
        await self.gateways.aclose()
        for one in (self.gateway_recall, self.reader, self.reranker):
            if one is not None:
                await one.close()
        await self.models.close()
        await self.database.close()


async def build_resources(
    settings: Settings, broker: RedisBroker, monitor: BrokerMonitor, create_stages: StageFactory
) -> WorkerResources:
    """Build the resources on the running event loop, and start the background tasks."""
    database = _open_database(settings)
    clock, notifier, name = DatabaseClock(database), Notifier(broker), _build_worker_name()
    models = ModelKeeper(database, settings.embedding, settings.data)
    parts = _build_stage_parts(settings, database, clock, models.embedder)
    gateway_recall = create_gateway_recall(settings.gateway, database, settings.gateway.timeout_seconds)
    reranker = create_reranker(settings.embedding.reranker, settings.data)
    coordinator = _build_coordinator(settings, parts, reranker, gateway_recall)
    lease = timedelta(seconds=settings.worker.lease_seconds)
    recall = RecallWork(RecallJobs(database, clock), coordinator, lease, models.load)
    runners = _create_runners(settings, parts, create_stages(settings, parts), notifier, name)
    sweeper = Sweeper(
        ledger=Ledger(database),
        jobs=recall.jobs,
        notifier=notifier,
        here={stage: runner.drain for stage, runner in runners.items()},
        answer=recall.answer,
        every_s=settings.worker.sweep_seconds,
        words=PendingWordsIndexer(database),
    )
    registration = Registration(
        WorkerRegistry(database),
        name,
        [str(stage) for stage in settings.worker.stages],
        (models.own.name, models.own.generation),
    )
    registration.start()
    background = _start_tasks(
        {
            "sweeper": sweeper.run(),
            "maintainer": _run_maintenance(_build_maintainer(settings, parts, recall.jobs, name), clock),
            "clock": clock.run(),
            "half-open sessions": keep_ending_half_open_sessions(database),
            "broker": monitor.run(),
            "databases": log_unusable_databases(settings.database),
            "loop lag": record_loop_lag("worker"),
            "external models": record_models(database, settings),
            "models": models.run(),
            "generations": build_generations(database, models, settings, name),
            "indexes": index_as_owner(settings, name),
            "dead letters": prune_letters(settings),
            "count of dead letters": count_letters(settings),
            "file of turn queues": rewrite_queue_file(settings),
        }
    )
    return WorkerResources(
        database=database,
        models=models,
        reranker=reranker,
        gateways=parts.gateways,
        gateway_recall=gateway_recall,
        reader=parts.reader,
        notifier=notifier,
        dependencies=ActorDependencies(runners, recall, notifier.acknowledge),
        memory=MemoryFacade(build_dependencies(database, clock, coordinator, notifier), settings.api),
        background=background,
        registration=registration,
    )


def _open_database(settings: Settings) -> Database:
    nice, retention = settings.worker.nice, BankMemory(settings.api.mcp.memory).build_retention()
    return Database(settings.database, lower_backend_priority(nice) if nice else None, retention=retention)


def _build_stage_parts(settings: Settings, database: Database, clock: DatabaseClock, embedder: Embedder) -> StageParts:
    turns, reader = TurnStore(database, clock), build_reader(settings.enrichment)
    memory = BankMemory(settings.api.mcp.memory)
    rights = ModelRights(memory.may_model_read, memory.may_model_delete)
    rules = RuleDigester(turns.digests)
    gate = model_gate(database, settings.enrichment)
    digester = rules if reader is None else ModelDigester(reader, gate, turns.summaries, rules, rights)
    return StageParts(
        database=database,
        clock=clock,
        embedder=embedder,
        turns=turns,
        gateways=build_delivery_clients(settings.gateway, database),
        reader=reader,
        rights=rights,
        summariser=Summariser(turns.summaries, turns.sessions, memory.limit_summaries, digester),
    )


def _build_coordinator(
    settings: Settings, parts: StageParts, reranker: CrossEncoder | None, gateway_recall: GatewayRecall
) -> RecallCoordinator:
    counter = choose_counter(settings.recall.tokenizer)
    recaller = Recaller(
        parts.database, parts.embedder, settings.recall, reranker=reranker, counter=counter, clock=parts.clock
    )
    return RecallCoordinator(parts.database, recaller, Waiter(parts.database), gateway_recall, counter=counter)


def _build_maintainer(settings: Settings, parts: StageParts, jobs: RecallJobs, name: str) -> Maintainer:
    database, clock, turns = parts.database, parts.clock, parts.turns
    needs = Needs(
        pruning=Pruning(database),
        jobs=jobs,
        erasures=Erasures(database, clock),
        settings=settings.maintenance,
        clock=clock,
        words=WordReanalysis(database),
        ending=ExpiryTask(database, clock),
        consolidation=Consolidation(database, clock),
        summaries=turns.summaries,
        digests=turns.digests,
        summariser=parts.summariser,
    )
    return Maintainer(Schedule(database), (*build_tasks(needs), recall_check_task(database, settings.recall)), name)


def _start_tasks(coroutines: Mapping[str, Coroutine[Any, Any, None]]) -> Sequence[asyncio.Task[None]]:
    return [asyncio.create_task(run, name=name) for name, run in coroutines.items()]


async def build_generations(database: Database, models: ModelKeeper, settings: Settings, name: str) -> None:
    """Make the vectors of generations, and delete those of dropped ones, in a worker that embeds, until cancelled."""
    if Stage.EMBEDDING in settings.worker.stages:
        task = generation_task(GenerationPasses(database, models.find_model))
        await Maintainer(Schedule(database), [task], f"{name}:generations", every_s=BUILD_INTERVAL_S, pause_s=0).run()


async def _run_maintenance(maintainer: Maintainer, clock: DatabaseClock) -> None:
    """Run maintenance once the database's clock is known: it deletes permanently what is old."""
    await clock.known()
    await maintainer.run()


def create_stages(settings: Settings, parts: StageParts) -> Sequence[StageWork]:
    """Create the stages of `worker.stages`."""
    database, summariser = parts.database, parts.summariser
    delivery = DeliveryWriter(database), parts.gateways, settings.gateway, _create_retry_policy(settings)
    version = None if parts.reader is None else parts.reader.version
    gate = model_gate(database, settings.enrichment)
    every: Sequence[StageWork] = (
        GatewayStage(database, *delivery),
        ExtractionStage(database, version, summariser.limits, parts.rights, parts.turns.digests),
        EnrichmentStage(database, parts.reader, gate, summariser, parts.rights),
        EmbeddingStage(database, parts.embedder),
        ProjectionStage(database),
    )
    return [work for work in every if work.stage in settings.worker.stages]


def _create_runners(
    settings: Settings, parts: StageParts, stages: Sequence[StageWork], notifier: Notifier, name: str
) -> Mapping[Stage, Runner]:
    return {
        work.stage: Runner(
            ledger=Ledger(parts.database),
            work=work,
            notify=notifier.notify,
            retry_policy=_create_retry_policy(settings),
            clock=parts.clock,
            lease=timedelta(seconds=settings.worker.lease_seconds),
            worker=name,
        )
        for work in stages
    }


def _create_retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(Backoff(), settings.worker.max_attempts)


def _build_worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
