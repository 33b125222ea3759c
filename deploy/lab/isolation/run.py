"""Runs the isolation check on a stack: partly over HTTP, mostly in this process, with tenants removed afterwards."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx
import redis
from afterturn_client.contract.health import Readiness
from dramatiq.brokers.redis import RedisBroker

from deploy.api.plugin_listener import make_store_finder
from deploy.lab.constant_embedder import ConstantEmbedder
from deploy.lab.isolation.coverage import find_uncovered_fields, find_uncovered_routes
from deploy.lab.isolation.fixture import FixtureIncomplete, IsolationFixture, build_fixture, make_tenant_names
from deploy.lab.isolation.tables import find_empty_tables
from deploy.lab.isolation.transport import Send, TrialRequest, send_in_process, send_over_http
from deploy.lab.isolation.trials import IsolationReport, TrialChannel, check_isolation
from deploy.lab.removal import remove_hosts
from deploy.local.stack import Stack
from producers.http.app import create_app
from producers.notifications import Notifier
from producers.plugin.bank_store import EraseQueue, PluginParts
from producers.service.dependencies import ServiceDependencies
from producers.service.memory import MemoryFacade
from producers.service.operations import Operations
from producers.service.recall_coordinator import RecallCoordinator
from producers.settings import ApiSettings, BrokerSettings, PluginSettings
from store import identity
from store.clock import DatabaseClock
from store.database import Database
from store.derived.persons import Persons
from store.erasure import Erasures
from store.ledger.freshness import Waiter
from store.memory.directives import Curation
from store.memory.documents import Documents
from store.memory.memories import Memories
from store.memory.turns import TurnStore
from store.memory.units import Units
from store.plugin.memories import PluginMemories
from store.plugin.namespaces import Namespaces
from store.plugin.search import PluginSearch
from store.recall.jobs import RecallJobs
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.settings import DatabaseSettings
from store.tenancy.banks import Banks
from store.tenancy.console_sessions import ConsoleSessions
from store.tenancy.keys import Keys

#: One try in this many is made over HTTP.
HTTP_SHARE = 20
JOB_WAIT_MS = 200
#: How long the stack's workers may take for the test data, in seconds, and how long one call waits, in milliseconds.
WORK_S, WAIT_MS = 180.0, 2000
POOL_SIZE = 6
#: Delay of erasures in the plugin, in seconds: longer than any check.
ERASE_AFTER_S = 86_400.0


async def run_check(stack: Stack, tries: int, seed: int) -> IsolationReport:
    """Check a running stack with temporary tenants, and return the report. Raises FixtureIncomplete."""
    settings = DatabaseSettings(url=stack.database_url, operator_url=stack.operator_url, pool_size=POOL_SIZE)
    names, owner_url = make_tenant_names("isolation"), stack.owner_url.get_secret_value()
    over_sockets = tries // HTTP_SHARE // 2 * 2
    async with (
        httpx.AsyncClient(base_url=stack.api, timeout=60, trust_env=False) as client,
        _open_application(stack, settings) as app,
    ):
        database = Database(settings)
        try:
            send = send_over_http(client)
            fixture = await build_fixture(names, Keys(database), send, lambda fixture: _wait_for_workers(fixture, send))
            empty = await find_empty_tables(owner_url, fixture.host_ids)
            ways = [
                TrialChannel(send, over_sockets, JOB_WAIT_MS),
                TrialChannel(send_in_process(app), tries - over_sockets),
            ]
            report = await check_isolation(fixture, ways, seed, owner_url)
            report.uncovered, report.unplanted = (
                [*find_uncovered_routes(app), *find_uncovered_fields(app.openapi())],
                empty,
            )
            return report
        finally:
            await database.close()
            await remove_hosts(owner_url, [identity.host_id(name) for name in names])


async def _wait_for_workers(fixture: IsolationFixture, send: Send) -> None:
    """Wait until the workers have processed all banks of the test data. Raises FixtureIncomplete."""
    until = time.monotonic() + WORK_S
    for place in fixture.places:
        token, bank = fixture.owner_of(place).token, quote(place.bank)
        newest = (await send(TrialRequest("GET", f"/api/v1/freshness?bank={bank}"), token)).json()["position"]
        path = f"/api/v1/freshness?bank={bank}&position={newest}&wait_ms={WAIT_MS}"
        while not (await send(TrialRequest("GET", path), token)).json()["met"]:
            if time.monotonic() > until:
                raise FixtureIncomplete("the stack's workers did not work off what was written")


@asynccontextmanager
async def _open_application(stack: Stack, settings: DatabaseSettings) -> AsyncGenerator[Any]:
    """Yield the API's application, built in this process on the stack's servers."""
    database = Database(settings)
    client = redis.Redis.from_url(stack.redis_url.get_secret_value(), socket_timeout=0.5, socket_connect_timeout=0.5)
    namespace = BrokerSettings().namespace
    notifier = Notifier(
        RedisBroker(client=client, namespace=namespace, middleware=[])  # type: ignore[no-untyped-call]  # dramatiq's
    )
    try:
        yield build_application(database, notifier, await DatabaseClock.asked(database))
    finally:
        await notifier.close()
        await database.close()
        await asyncio.to_thread(client.close)


def build_application(database: Database, notifier: Notifier, clock: Callable[[], datetime]) -> object:
    """Return the API's application on a database, with an embedder that gives all texts the same vector."""
    coordinator = RecallCoordinator(
        database, Recaller(database, ConstantEmbedder(), RecallSettings()), Waiter(database)
    )
    jobs, settings = RecallJobs(database, clock), ApiSettings()
    dependencies = ServiceDependencies(
        TurnStore(database, clock),
        Units(database, clock),
        coordinator,
        jobs,
        notifier,
        banks=Banks(database, clock),
        erasures=Erasures(database, clock),
        documents=Documents(database, clock),
        curation=Curation(database, clock),
        persons=Persons(database, clock),
        memories=Memories(database, clock),
    )
    memory, keys = MemoryFacade(dependencies, settings), Keys(database)
    return create_app(
        memory,
        keys,
        _NoHealth(),
        _return_no_metrics,
        settings,
        operations=Operations(database, clock),
        plugin=make_store_finder(_build_plugin(database, notifier, clock), keys.authenticate),
        sessions=ConsoleSessions(database),
    )


def _build_plugin(database: Database, notifier: Notifier, clock: Callable[[], datetime]) -> PluginParts:
    """Return the memory plugin's collaborators; forgotten memories are erased only with the tenants."""
    settings = PluginSettings(erase_after=ERASE_AFTER_S)
    return PluginParts(
        Namespaces(database, clock),
        PluginMemories(database, clock),
        PluginSearch(database, ConstantEmbedder(), RecallSettings(), clock, settings.near),
        EraseQueue(Erasures(database, clock), settings.erase_after),
        notifier.notify,
        settings,
    )


class _NoHealth:
    """A health check that always reports ready, because it is not used."""

    async def ready(self) -> Readiness:
        return Readiness.of()


async def _return_no_metrics() -> bytes:
    return b""
