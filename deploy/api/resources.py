"""Builds, opens and closes what an API process works with.

Import it only when the folder of samples is known (deploy/api/__main__.py).
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import httpx
import redis
import structlog
from dramatiq.brokers.redis import RedisBroker
from redis.backoff import NoBackoff
from redis.retry import Retry

from deploy.api.health import ApiHealth
from deploy.components.broker_fitness import BrokerMonitor
from deploy.components.database_fitness import log_unusable_databases
from deploy.components.external_models import record_models_meanwhile
from deploy.components.gateways import create_gateway_recall, store_configured_target
from deploy.components.models import ModelKeeper
from deploy.components.process_setup import freeze_loaded_objects, lower_backend_priority
from deploy.observability.figures import ServiceFigures
from deploy.observability.loop_lag import measure_loop_lag
from deploy.observability.metrics import Exposition, LedgerCounts
from deploy.settings import Settings
from embeddings.errors import EmbeddingError
from embeddings.registry import Owned, create_reranker
from embeddings.rerank import CrossEncoder
from producers.fair_queue import FairQueue
from producers.issuers import create_key_client
from producers.mcp.bank_memory import BankMemory
from producers.notifications import Notifier
from producers.plugin.bank_store import EraseQueue
from producers.service.auditing import CallRecorder
from producers.service.figures import FigureFeed
from producers.service.gateway_recall import GatewayRecall
from producers.service.load_shedding import LoadShedder, Shed
from producers.settings import BrokerSettings
from store.clock import DatabaseClock
from store.concurrent_calls import run_meanwhile
from store.database import Database
from store.database_gauges import read_database_sample
from store.derived.pending_words import PendingWordsLimit
from store.erasure import Erasures
from store.half_open import keep_ending_half_open_sessions
from store.ledger.ledger import Ledger, read_depths
from store.ledger.listing import Backlog
from store.ledger.workers import WorkerRegistry
from store.recall.vector_writeback import VectorWriteback
from store.tenancy.call_audit import CallAudit
from workers.embedding import EmbeddingStage
from workers.micro_batch import MicroBatch

#: Time-out for Redis, in seconds: a request does not wait longer to send a notification.
REDIS_S = 0.5
#: How long a stopping process waits for its sentence model, in seconds.
MODEL_S = 1.0

log = structlog.get_logger("afterturn.api")


class BackgroundModel:
    """A model that loads in the background during the first requests; None (no model) is never reported as wrong."""

    def __init__(self, model: Owned | None, what: str) -> None:
        self._model = model
        self._what = what
        self._wrong = f"{what} is being loaded" if model is not None else ""

    def explain_fault(self) -> str:
        """Return why the model does not answer, or ''."""
        return self._wrong

    def loading(self) -> AbstractAsyncContextManager[object]:
        """Load the model in the background while the block runs."""
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


@dataclass(frozen=True, slots=True)
class ApiResources:
    """The resources of the API process: opened before the application serves, closed after it."""

    database: Database
    clock: DatabaseClock
    models: ModelKeeper
    reranker: CrossEncoder | None
    embedder_loading: BackgroundModel
    reranker_loading: BackgroundModel
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


def build_resources(settings: Settings) -> ApiResources:
    """Build the resources; `open_resources` opens them."""
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
    embedder_loading = BackgroundModel(models, "the sentence model")
    reranker_loading = BackgroundModel(reranker, "the reranker")
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
    return ApiResources(
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


@asynccontextmanager
async def open_resources(settings: Settings, owned: ApiResources) -> AsyncGenerator[None]:
    """Open the resources on the running event loop for the block, then close them."""
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
