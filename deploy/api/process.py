"""Composes and runs the API process; import it only when the folder of samples is known (deploy/api/__main__.py)."""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import httpx
import redis
import structlog
import uvloop
from dramatiq.brokers.redis import RedisBroker
from fastapi import FastAPI
from redis.backoff import NoBackoff
from redis.retry import Retry

from deploy.api.health import ApiHealth
from deploy.api.http_server import serve_application
from deploy.api.installation import ProcessInstallation
from deploy.api.plugin_address import ListenAddress, find_warning
from deploy.api.plugin_listener import create_listener_app, make_store_finder
from deploy.components.broker_fitness import BrokerMonitor
from deploy.components.database_fitness import log_unusable_databases
from deploy.components.external_models import record_models_meanwhile
from deploy.components.facade import build_dependencies
from deploy.components.gateways import create_gateway_recall, store_configured_target
from deploy.components.models import ModelKeeper
from deploy.components.process_setup import freeze_loaded_objects, lower_backend_priority
from deploy.components.turn_queues import build_operated_queues
from deploy.observability import logs
from deploy.observability.figures import ServiceFigures
from deploy.observability.loop_lag import measure_loop_lag
from deploy.observability.metrics import Exposition, LedgerCounts
from deploy.observability.tracing import start_tracing
from deploy.settings import LoadedSettings, Settings
from embeddings.errors import EmbeddingError
from embeddings.prompt_tokens import choose_counter
from embeddings.registry import Owned, create_reranker
from embeddings.rerank import CrossEncoder
from producers import fair_queue
from producers.fair_queue import FairQueue
from producers.http.app import create_app
from producers.issuers import TokenIssuers, create_key_client
from producers.mcp.bank_memory import BankMemory
from producers.notifications import Notifier
from producers.plugin.bank_store import EraseQueue, PluginParts
from producers.service.auditing import CallRecorder
from producers.service.dependencies import ServiceDependencies
from producers.service.figures import FigureFeed
from producers.service.gateway_recall import GatewayRecall
from producers.service.load_shedding import LoadShedder, Shed
from producers.service.memory import MemoryFacade
from producers.service.operations import Operations
from producers.service.read_replica import ReadReplica
from producers.service.recall_coordinator import RecallCoordinator
from producers.settings import BrokerSettings
from store.clock import DatabaseClock
from store.concurrent_calls import run_meanwhile
from store.database import Database
from store.database_gauges import read_database_sample
from store.derived.pending_words import PendingWordsLimit
from store.erasure import Erasures
from store.half_open import keep_ending_half_open_sessions
from store.ledger.depth import read_depths
from store.ledger.freshness import Waiter
from store.ledger.ledger import Ledger
from store.ledger.listing import Backlog
from store.ledger.workers import WorkerRegistry
from store.plugin.memories import PluginMemories
from store.plugin.namespaces import Namespaces
from store.plugin.search import PluginSearch
from store.recall.recaller import Recaller
from store.recall.vector_writeback import VectorWriteback
from store.tenancy.call_audit import CallAudit
from store.tenancy.console_sessions import ConsoleSessions
from store.tenancy.keys import Keys
from store.tenancy.sealing import Sealer
from workers.embedding import EmbeddingStage
from workers.micro_batch import MicroBatch
from workers.settings import sealing_keys

#: Time-out for Redis, in seconds: a request does not wait longer to send a notification.
REDIS_S = 0.5
#: How long a stopping process waits for its sentence model, in seconds.
MODEL_S = 1.0
#: The interpreter's switch interval, in seconds: how long a thread that prepares a large batch delays other requests.
#: With Python's default of 5 ms, a request waits for the whole batch.
THREAD_SWITCH_S = 0.0001

log = structlog.get_logger("afterturn.api")


def run_api(loaded: LoadedSettings, api: tuple[str, int] | None, plugin: ListenAddress | None = None) -> None:
    """Serve the API and the memory plugin, each if it has an address, until SIGTERM or SIGINT.

    Running requests are answered first.
    """
    settings = loaded.settings
    logs.configure_logging(settings.log)
    sys.setswitchinterval(THREAD_SWITCH_S)
    stop_tracing = start_tracing(settings.tracing)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_serve_until_signal(loaded, api, plugin))
        finally:
            stop_tracing()
        if any(thread.name.startswith(("embedder", "reranker")) for thread in threading.enumerate()):
            # The build of a model cannot be interrupted, and no request waits for it any more.
            os._exit(0)


async def _serve_until_signal(
    loaded: LoadedSettings, api: tuple[str, int] | None, plugin: ListenAddress | None
) -> None:
    settings = loaded.settings
    owned, ending = _build_resources(settings), asyncio.Event()
    loop = asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, ending.set)
    async with _open_resources(settings, owned), asyncio.TaskGroup() as servers:
        if api is not None:
            log.info("listening", host=api[0], port=api[1])
            servers.create_task(owned.figures.run(ending), name="figures")
            servers.create_task(
                serve_application(compose_application(loaded, owned), *api, settings.api, ending), name="API"
            )
        if plugin is not None:
            servers.create_task(_serve_plugin(settings, owned, plugin, ending), name="memory plugin")
    log.info("stopped")


async def _serve_plugin(settings: Settings, owned: "_Resources", address: ListenAddress, ending: asyncio.Event) -> None:
    """Serve the memory plugin on its own listener; create its tenant if it does not exist."""
    await Keys(owned.database).add_host(settings.plugin.tenant)
    if warning := find_warning(settings.plugin, address):
        log.warning("plugin_is_open", warning=warning)
    log.info("plugin_listening", url=address.url, tenant=settings.plugin.tenant)
    parts = _build_plugin_parts(settings, owned)
    app = create_listener_app(parts, settings.plugin, settings.api, address, owned.fair, clock=owned.clock)
    await serve_application(app, address.host, address.port, settings.api, ending, path=address.path)


def compose_application(loaded: LoadedSettings, owned: "_Resources") -> FastAPI:
    """Return the application; `_open_resources` opens and closes its resources, on the application's loop."""
    settings = loaded.settings
    keys = Keys(owned.database)
    issuers = TokenIssuers(keys, settings.api.mcp, owned.http, settings.environment)
    return create_app(
        MemoryFacade(_build_dependencies(settings, owned), settings.api),
        keys,
        owned.health,
        owned.exposition,
        settings.api,
        recorder=owned.recorder,
        operations=Operations(
            owned.database,
            owned.clock,
            sealer=Sealer(sealing_keys(settings.gateway.sealing_keys)),
            installation=ProcessInstallation(loaded),
            figures=owned.figures,
            environment=settings.environment,
            model=owned.models,
            recall=settings.recall,
            queues=build_operated_queues(settings),
        ),
        issuers=issuers if settings.api.mcp.issuers else None,
        fair=owned.fair,
        plugin=make_store_finder(_build_plugin_parts(settings, owned), issuers.authenticate),
        sessions=ConsoleSessions(owned.database) if settings.api.console.enabled else None,
    )


@dataclass(frozen=True, slots=True)
class _Resources:
    """The resources of the API process: opened before the application serves, closed after it."""

    database: Database
    clock: DatabaseClock
    models: ModelKeeper
    reranker: CrossEncoder | None
    embedder_loading: "_BackgroundModel"
    reranker_loading: "_BackgroundModel"
    notifier: Notifier
    watch: BrokerMonitor
    recorder: CallRecorder
    writeback: VectorWriteback
    gateway_recall: GatewayRecall
    load_shedder: LoadShedder
    batch: MicroBatch
    pending_words_limit: PendingWordsLimit
    words_database: Database
    http: httpx.AsyncClient
    replica: Database | None
    fair: FairQueue
    erasing: EraseQueue
    health: ApiHealth
    exposition: Exposition
    figures: FigureFeed


def _build_resources(settings: Settings) -> _Resources:
    retention = BankMemory(settings.api.mcp.memory).build_retention()
    database = Database(settings.database, retention=retention)
    clock = DatabaseClock(database)
    models = ModelKeeper(database, settings.embedding, settings.data)
    reranker = create_reranker(settings.embedding.reranker, settings.data)
    notifier = Notifier(_create_broker(settings.broker))
    load_shedder = LoadShedder(partial(read_depths, database), settings.pressure)
    # Only bulk writers wait until words are indexed, so this connection yields to recalls.
    nice = settings.worker.nice
    few = settings.database.model_copy(update={"pool_size": 1})
    words_database = Database(few, lower_backend_priority(nice) if nice else None)
    embedder_loading = _BackgroundModel(models, "the sentence model")
    reranker_loading = _BackgroundModel(reranker, "the reranker")
    watch = BrokerMonitor(settings.broker)
    counts = _create_counts(settings, database)
    faults = {
        "broker": watch.explain_fault,
        "embedding": models.explain_fault,
        "rerank": reranker_loading.explain_fault,
    }
    health = ApiHealth(
        database, notifier, counts, faults, settings.health, data=settings.data, missing_model=models.explain_absence
    )
    exposition = Exposition(settings.metrics_dir, counts, settings.health, settings.data, notifier.read_used_bytes)
    figures = ServiceFigures(exposition, counts, health, WorkerRegistry(database), clock)
    return _Resources(
        database=database,
        clock=clock,
        models=models,
        reranker=reranker,
        embedder_loading=embedder_loading,
        reranker_loading=reranker_loading,
        notifier=notifier,
        watch=watch,
        recorder=CallRecorder(CallAudit(database).write, clock),
        writeback=VectorWriteback(database),
        gateway_recall=create_gateway_recall(settings.gateway, database, settings.gateway.recall_seconds),
        load_shedder=load_shedder,
        batch=_create_micro_batch(database, models, load_shedder, notifier),
        pending_words_limit=PendingWordsLimit(words_database),
        words_database=words_database,
        http=create_key_client(),
        replica=Database(there, retention=retention) if (there := settings.database.for_replica()) else None,
        fair=FairQueue(settings.fairness),
        erasing=EraseQueue(Erasures(database, clock), settings.plugin.erase_after),
        health=health,
        exposition=exposition,
        figures=FigureFeed(figures.read),
    )


def _create_counts(settings: Settings, database: Database) -> LedgerCounts:
    return LedgerCounts(
        Ledger(database),
        partial(Backlog(database).newly_failed, timedelta(seconds=settings.health.quarantine_window_seconds)),
        partial(
            read_database_sample,
            database,
            settings.metrics.top_tenants,
            breaker_failures=settings.gateway.breaker_failures,
        ),
    )


def _build_dependencies(settings: Settings, owned: _Resources) -> ServiceDependencies:
    """Return the facade's dependencies, those that only an API process has included."""
    database, clock = owned.database, owned.clock
    counter = choose_counter(settings.recall.tokenizer)

    def create_recaller(there: Database) -> Recaller:
        shared = owned.models.embedder, settings.recall
        return Recaller(
            there, *shared, reranker=owned.reranker, writeback=owned.writeback, counter=counter, clock=clock
        )

    replica = None
    if owned.replica is not None:
        there = Waiter(owned.replica, fair_queue.sleep_without_slot)
        replica = ReadReplica(create_recaller(owned.replica), there)
    waiter = Waiter(database, fair_queue.sleep_without_slot)
    coordinator = RecallCoordinator(
        database, create_recaller(database), waiter, owned.gateway_recall, replica, counter=counter
    )
    return replace(
        build_dependencies(database, clock, coordinator, owned.notifier),
        load_shedder=owned.load_shedder,
        offer_to_micro_batch=owned.batch.offer if settings.pressure.embed_at_once else None,
        pending_words_limit=owned.pending_words_limit,
    )


def _build_plugin_parts(settings: Settings, owned: _Resources) -> PluginParts:
    """Return the memory plugin's collaborators, which all callers share."""
    database, clock = owned.database, owned.clock
    return PluginParts(
        Namespaces(database, clock),
        PluginMemories(database, clock),
        PluginSearch(database, owned.models.embedder, settings.recall, clock, settings.plugin.near),
        owned.erasing,
        owned.notifier.notify,
        settings.plugin,
    )


@asynccontextmanager
async def _open_resources(settings: Settings, owned: _Resources) -> AsyncGenerator[None]:
    async with (
        measure_loop_lag("api"),
        owned.clock.running(),
        run_meanwhile(keep_ending_half_open_sessions(owned.database), "half-open sessions"),
        owned.watch.running(),
        run_meanwhile(log_unusable_databases(settings.database), "databases"),
        record_models_meanwhile(owned.database, settings),
        run_meanwhile(owned.models.run(), "models"),
        store_configured_target(owned.database, settings.gateway),
        owned.embedder_loading.loading(),
        owned.reranker_loading.loading(),
        owned.recorder.writing(),
    ):
        yield
    await owned.erasing.close()
    await owned.batch.close(MODEL_S)
    await owned.pending_words_limit.close()
    await owned.gateway_recall.close()
    await owned.notifier.close()
    await owned.writeback.close()
    await owned.words_database.close()
    await owned.http.aclose()
    if owned.replica is not None:
        await owned.replica.close()
    await owned.database.close()
    await _close_models(owned.models, owned.reranker)


async def _close_models(*models: Owned | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(MODEL_S):
            await asyncio.gather(*(model.close() for model in models if model is not None))


def _create_micro_batch(
    database: Database, models: ModelKeeper, load_shedder: LoadShedder, notifier: Notifier
) -> MicroBatch:
    return MicroBatch(
        database,
        EmbeddingStage(database, models.embedder),
        lambda host: not models.explain_fault() and load_shedder.level(host) < Shed.EMBEDDING,
        notifier.notify,
        f"{socket.gethostname()}:{os.getpid()}:api",
    )


class _BackgroundModel:
    """A model that loads in the background during the first requests; None (no model) is never reported as wrong."""

    def __init__(self, model: Owned | None, what: str) -> None:
        self._model = model
        self._what = what
        self._wrong = f"{what} is being loaded" if model is not None else ""

    def explain_fault(self) -> str:
        return self._wrong

    def loading(self) -> AbstractAsyncContextManager[object]:
        return run_meanwhile(self._load(), f"load {self._what}")

    async def _load(self) -> None:
        if self._model is None:
            return
        try:
            await self._model.load()
        except EmbeddingError as error:
            self._wrong = type(error).__name__
            log.error("model_unusable", what=self._what, error=self._wrong)  # noqa: TRY400 - no tracebacks
        else:
            self._wrong = ""
            freeze_loaded_objects()
            log.info("model_loaded", what=self._what, model=self._model.name)


def _create_broker(settings: BrokerSettings) -> RedisBroker:
    client = redis.Redis.from_url(
        settings.url.get_secret_value(),
        socket_connect_timeout=REDIS_S,
        socket_timeout=REDIS_S,
        retry=Retry(NoBackoff(), 1),
    )
    return RedisBroker(  # type: ignore[no-untyped-call]  # dramatiq leaves this constructor without annotations
        client=client, namespace=settings.namespace, middleware=[]
    )
