"""Runs a worker process; import it only when the environment is prepared (deploy/worker/__main__.py).

Dramatiq's threads wait for messages, its event loop has all that is asynchronous, and the main thread waits for a
signal.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import dramatiq
import structlog
import uvloop
from dramatiq.asyncio import EventLoopThread, set_event_loop_thread

from deploy.components.broker_fitness import BrokerMonitor
from deploy.components.process_setup import freeze_loaded_objects
from deploy.observability import logs
from deploy.observability.tracing import start_tracing
from deploy.settings import Settings
from deploy.worker.registry import wait_for_end
from deploy.worker.resources import StageFactory, WorkerResources, build_resources, create_stages
from deploy.worker.turn_queues import build_queue_workers
from embeddings.errors import EmbeddingError
from embeddings.registry import Owned
from workers.broker import (
    NotificationBroker,
    build_pools,
    build_worker,
    create_broker,
    register_actors,
)
from workers.consumer_faults import is_news

#: Pause between two checks for a stop signal while a model loads, in seconds.
POLL_INTERVAL_S = 0.1
#: How long dramatiq's threads may take to end, in milliseconds.
THREADS_END_MS = 5000

log = structlog.get_logger("afterturn.worker")


class WorkerLoop(EventLoopThread):
    """Dramatiq's event-loop thread on uvloop, as in the API: it costs half the processor time of asyncio's own loop."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger)
        self.loop.close()
        self.loop = uvloop.new_event_loop()
        # A hanging thread must not keep the process alive after its end.
        self.daemon = True


def run_worker(settings: Settings, make_stages: StageFactory = create_stages) -> int:
    """Work until SIGTERM or SIGINT, then stop within seconds; return the exit code.

    `make_stages` creates the stages that the process serves.
    """
    logs.configure_logging(settings.log)
    logging.getLogger(f"dramatiq.broker.{NotificationBroker.__name__}").addFilter(_is_worth_logging)
    for handler in logging.getLogger().handlers:
        handler.addFilter(is_news)
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    monitor = BrokerMonitor(settings.broker)
    monitor.check()
    if monitor.explain_fault():
        return 1
    stop_tracing = start_tracing(settings.tracing)
    loop = WorkerLoop(logging.getLogger("afterturn.worker.loop"))
    loop.start(timeout=10)
    set_event_loop_thread(loop)
    broker = create_broker(settings.broker)
    resources = loop.run_coroutine(build_resources(settings, broker, monitor, make_stages))
    register_actors(broker, resources.dependencies)
    broker.emit_after("process_boot")
    workers = [build_worker(broker, pool) for pool in build_pools(settings.worker)]
    workers += build_queue_workers(settings, resources.memory, resources.database)
    try:
        return _work_until_signal(loop, resources, workers, ending)
    finally:
        _stop_workers(loop, resources, workers)
        stop_tracing()
        broker.close()
        log.info("stopped", pid=os.getpid())


def _work_until_signal(
    loop: EventLoopThread, resources: WorkerResources, workers: Sequence[dramatiq.Worker], ending: threading.Event
) -> int:
    for one in workers:
        one.start()
    log.info("working", pid=os.getpid())
    try:
        if not _load_model(loop, resources.models, ending):
            return 0
    except EmbeddingError as error:
        log.error("embedding_model_unusable", error=type(error).__name__, reason=str(error))  # noqa: TRY400 - no tracebacks
        return 1
    log.info("embedding_model_loaded", model=resources.models.name)
    _warm_reranker(loop, resources.reranker, ending)
    freeze_loaded_objects()
    wait_for_end(loop, resources.registration, workers, resources.drain, ending)
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


def _stop_workers(loop: EventLoopThread, resources: WorkerResources, workers: Sequence[dramatiq.Worker]) -> None:
    loop.run_coroutine(resources.drain())
    loop.run_coroutine(resources.registration.end())
    with ThreadPoolExecutor(len(workers)) as threads:
        for one in workers:
            threads.submit(one.stop, THREADS_END_MS)
    loop.run_coroutine(resources.dispose())
    set_event_loop_thread(None)
    loop.stop()  # type: ignore[no-untyped-call]  # dramatiq leaves it without annotations


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Return False for dramatiq's warning about repeated middleware: each pool of threads adds its own, on purpose."""
    return "middleware of the same type twice" not in str(record.msg)
