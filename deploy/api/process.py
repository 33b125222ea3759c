"""Runs the API process; import it only when the folder of samples is known (deploy/api/__main__.py)."""

import asyncio
import os
import signal
import sys
import threading
from dataclasses import replace

import structlog
import uvloop
from fastapi import FastAPI

from deploy.api.http_server import serve_application
from deploy.api.installation import ProcessInstallation
from deploy.api.plugin_address import ListenAddress, find_warning
from deploy.api.plugin_listener import create_listener_app, make_store_finder
from deploy.api.resources import ApiResources, build_resources, open_resources
from deploy.components.facade import build_dependencies
from deploy.components.turn_queues import build_operated_queues
from deploy.observability import logs
from deploy.observability.tracing import start_tracing
from deploy.settings import LoadedSettings, Settings
from embeddings.prompt_tokens import choose_counter
from producers import fair_queue
from producers.http.app import create_app
from producers.issuers import TokenIssuers
from producers.plugin.bank_store import PluginParts
from producers.service.dependencies import ServiceDependencies
from producers.service.memory import MemoryFacade
from producers.service.operations import Operations
from producers.service.read_replica import ReadReplica
from producers.service.recall_coordinator import RecallCoordinator
from store.database import Database
from store.ledger.freshness import Waiter
from store.plugin.memories import PluginMemories
from store.plugin.namespaces import Namespaces
from store.plugin.search import PluginSearch
from store.recall.recaller import Recaller
from store.tenancy.console_sessions import ConsoleSessions
from store.tenancy.keys import Keys
from store.tenancy.sealing import Sealer
from workers.settings import sealing_keys

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
    owned, ending = build_resources(settings), asyncio.Event()
    loop = asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, ending.set)
    async with open_resources(settings, owned), asyncio.TaskGroup() as servers:
        if api is not None:
            log.info("listening", host=api[0], port=api[1])
            servers.create_task(owned.figures.run(ending), name="figures")
            servers.create_task(
                serve_application(compose_application(loaded, owned), *api, settings.api, ending), name="API"
            )
        if plugin is not None:
            servers.create_task(_serve_plugin(settings, owned, plugin, ending), name="memory plugin")
    log.info("stopped")


async def _serve_plugin(settings: Settings, owned: ApiResources, address: ListenAddress, ending: asyncio.Event) -> None:
    """Serve the memory plugin on its own listener; create its tenant if it does not exist."""
    await Keys(owned.database).add_host(settings.plugin.tenant)
    if warning := find_warning(settings.plugin, address):
        log.warning("plugin_is_open", warning=warning)
    log.info("plugin_listening", url=address.url, tenant=settings.plugin.tenant)
    parts = _build_plugin_parts(settings, owned)
    app = create_listener_app(parts, settings.plugin, settings.api, address, owned.fair, clock=owned.clock)
    await serve_application(app, address.host, address.port, settings.api, ending, path=address.path)


def compose_application(loaded: LoadedSettings, owned: ApiResources) -> FastAPI:
    """Return the application; `open_resources` opens and closes its resources, on the application's loop."""
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


def _build_dependencies(settings: Settings, owned: ApiResources) -> ServiceDependencies:
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


def _build_plugin_parts(settings: Settings, owned: ApiResources) -> PluginParts:
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
