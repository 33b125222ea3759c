"""The HTTP API as clients meet it, in this process, on a real PostgreSQL and a real Valkey."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio
import redis
from afterturn_client.contract.health import Readiness
from dramatiq.brokers.redis import RedisBroker
from pydantic import SecretStr

from deploy.api.installation import ProcessInstallation
from deploy.observability.figures import ServiceFigures
from deploy.observability.metrics import Exposition, LedgerCounts
from deploy.settings import HealthSettings, LoadedSettings, Settings
from producers import fair_queue
from producers.fair_queue import FairQueue
from producers.http.app import create_app
from producers.http.authentication import Authenticator
from producers.jobs import published_prefix
from producers.notifications import Notifier
from producers.queue.dead_letters import DeadLetters
from producers.queue.operated import OperatedQueue
from producers.service.auditing import CallRecorder
from producers.service.dependencies import ServiceDependencies
from producers.service.figures import FigureFeed
from producers.service.load_shedding import LoadShedder
from producers.service.memory import MemoryFacade
from producers.service.operations import Operations
from producers.service.recall_coordinator import RecallCoordinator
from producers.settings import ApiSettings, BrokerSettings
from store.derived.persons import Persons
from store.erasure import Erasures
from store.ledger.freshness import Waiter
from store.ledger.ledger import Ledger
from store.ledger.listing import Backlog
from store.ledger.workers import WorkerRegistry
from store.maintenance import Consolidation, ExpiryTask
from store.memory.directives import Curation
from store.memory.documents import Documents
from store.memory.memories import Memories
from store.memory.turns import TurnStore
from store.memory.units import Units
from store.recall.jobs import RecallJobs
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.settings import DatabaseSettings
from store.tenancy.banks import Banks
from store.tenancy.call_audit import CallAudit
from store.tenancy.console_sessions import ConsoleSessions
from store.tenancy.keys import Keys
from store.tenancy.sealing import Sealer
from tests.emptied import watch
from tests.generations import NamedModel
from tests.producers.schemas import HeldToSchema
from tests.producers.words import WordEmbedder
from tests.servers import TestPostgres, TestValkey
from tests.watched import Watched
from tests.workers.stages import KnownEmbedder
from tests.workers.targets import SEALING

#: Where no process writes samples of metrics.
NO_SAMPLES = Path("/nonexistent")

#: The turn queue of the API, whose dead letters keep their content, and its tenant.
QUEUE, QUEUE_TENANT = "agents", "publishers"


@dataclass
class Clock:
    """The time, which a test may move."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Healthy:
    """What the health check finds, as a test says."""

    found: Readiness = field(default_factory=Readiness.of)

    async def ready(self) -> Readiness:
        return self.found


@dataclass
class World:
    """One API on one database; `sql` asks the database anything, as the superuser."""

    postgres: TestPostgres
    database: Watched
    keys: Keys
    broker: RedisBroker
    notifier: Notifier
    recalls: RecallCoordinator
    jobs: RecallJobs
    app: Any
    clock: Clock
    health: Healthy
    recorder: CallRecorder
    memory: MemoryFacade
    figures: FigureFeed
    queue: OperatedQueue

    async def tenant(self, name: str | None = None, **rights: Any) -> "Tenant":
        """Make a key of a host, of a new one where none is named."""
        host = name or f"host-{uuid4().hex}"
        token = await self.keys.create(host, "test", **rights)
        return Tenant(host, token, self.client({"authorization": f"Bearer {token}"}))

    async def close(self) -> None:
        await self.notifier.close()
        await self.database.close()
        self.broker.client.close()

    def client(self, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(HeldToSchema(self.app), raise_app_exceptions=True)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8300", headers=headers or {})

    async def sql(self, statement: str, **values: Any) -> list[Any]:
        return await self.database.sql(statement, **values)


@dataclass
class Tenant:
    """A host's key and a client that shows it."""

    host: str
    token: str
    http: httpx.AsyncClient


#: The sentence model that the settings of the API name; another one is live, or none.
NAMED = KnownEmbedder(name="named", generation=31_001, dimensions=8)


def database_of(postgres: TestPostgres) -> Watched:
    urls = DatabaseSettings(url=SecretStr(postgres.app_url), operator_url=SecretStr(postgres.operator_url), pool_size=8)
    return watch(urls, postgres)


def broker_of(url: str, namespace: str) -> RedisBroker:
    client = redis.Redis.from_url(url, socket_timeout=30.0, socket_connect_timeout=30.0)
    return RedisBroker(client=client, namespace=namespace, middleware=[])  # type: ignore[no-untyped-call]  # dramatiq's


def describe_servers(postgres: TestPostgres, broker: RedisBroker) -> LoadedSettings:
    """The settings of a process on these servers."""
    urls = DatabaseSettings(url=SecretStr(postgres.app_url), operator_url=SecretStr(postgres.operator_url))
    place = broker.client.connection_pool.connection_kwargs
    address = f":{place.get('password') or ''}@{place.get('host')}:{place.get('port')}/{place.get('db') or 0}"
    redis_urls = BrokerSettings(url=SecretStr(f"redis://{address}"), namespace=broker.namespace)
    settings = Settings(database=urls, broker=redis_urls)
    return LoadedSettings(settings, {"database.url": "environment AFTERTURN_DATABASE__URL"}, ())


def build(
    postgres: TestPostgres,
    broker: RedisBroker,
    *,
    settings: ApiSettings,
    load_shedder: LoadShedder | None = None,
    embed: Callable[[UUID, Sequence[UUID], int], bool] | None = None,
    fair: FairQueue | None = None,
    issuers: Callable[[Keys], Authenticator] | None = None,
) -> World:
    """Compose the API as deploy does, with words for meaning."""
    database, clock, health = database_of(postgres), Clock(), Healthy()
    keys, notifier, jobs = Keys(database), Notifier(broker), RecallJobs(database, clock)
    recalls = RecallCoordinator(
        database,
        Recaller(database, WordEmbedder(), RecallSettings(), clock=clock),
        Waiter(database, fair_queue.sleep_without_slot),
    )
    units, banks, erasures = Units(database, clock), Banks(database, clock), Erasures(database, clock)
    documents, curation = Documents(database, clock), Curation(database, clock)
    known = documents, curation, Persons(database, clock), Memories(database, clock)
    dependencies = ServiceDependencies(
        TurnStore(database, clock), units, recalls, jobs, notifier, banks, erasures, *known
    )
    dependencies = replace(
        dependencies,
        ending=ExpiryTask(database, clock),
        consolidation=Consolidation(database, clock),
        load_shedder=load_shedder,
        offer_to_micro_batch=embed,
    )

    async def metrics() -> bytes:
        return b"# nothing\n"

    counts = LedgerCounts(Ledger(database), partial(Backlog(database).newly_failed, timedelta(minutes=10)))
    exposition = Exposition(NO_SAMPLES, counts, HealthSettings(), NO_SAMPLES)
    figures = FigureFeed(ServiceFigures(exposition, counts, health, WorkerRegistry(database), clock).read)
    recorder = CallRecorder(CallAudit(database).write, clock)
    prefix = published_prefix(broker.namespace, QUEUE)
    letters = OperatedQueue(QUEUE, QUEUE_TENANT, DeadLetters(broker.client, prefix, keep_content=True))
    memory = MemoryFacade(dependencies, settings)
    app = create_app(
        memory,
        keys,
        health,
        metrics,
        settings,
        recorder=recorder,
        fair=fair,
        operations=Operations(
            database,
            clock,
            sealer=Sealer([SEALING]),
            installation=ProcessInstallation(describe_servers(postgres, broker)),
            model=NamedModel(NAMED),
            figures=figures,
            queues=[letters],
        ),
        issuers=issuers and issuers(keys),
        sessions=ConsoleSessions(database),
    )
    return World(
        postgres,
        database,
        keys,
        broker,
        notifier,
        recalls,
        jobs,
        app,
        clock,
        health,
        recorder,
        memory,
        figures,
        letters,
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(postgres: TestPostgres, valkey: TestValkey) -> AsyncIterator[World]:
    """The API most tests share; every test brings a host of its own."""
    made = build(postgres, broker_of(valkey.url, f"api-{uuid4().hex}"), settings=ApiSettings())
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def ana(world: World) -> AsyncIterator[Tenant]:
    """A host of this test alone, with a key that may do everything."""
    tenant = await world.tenant()
    yield tenant
    await tenant.http.aclose()


@pytest.fixture
def turn() -> dict[str, Any]:
    """A completed turn as an agent hands it in."""
    return {
        "session_id": "monday",
        "turn_id": "1",
        "messages": [
            {"role": "user", "name": "Ana", "content": "We fly to Lisbon on Friday"},
            {"role": "assistant", "content": "Noted. Shall I book the usual hotel?"},
        ],
    }
