"""Creates tenants for a benchmark on its servers, keeps workers away from them, and removes them with every row."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from graphlib import TopologicalSorter
from uuid import UUID, uuid4

from pydantic import SecretStr
from sqlalchemy import NullPool, TableClause, delete, text
from sqlalchemy.ext.asyncio import AsyncEngine

from deploy.lab.bench.measures import Machine
from deploy.lab.bench.servers import BenchServers
from deploy.lab.removal import tenant_table
from embeddings.retry import AT_ONCE, Retry
from store import identity
from store.connections import create_owner_engine
from store.database import Begun, Database
from store.database_outage import DEADLOCK, retry_after_states
from store.ledger.stages import STAGES, TURN_STAGES, Stream
from store.settings import DatabaseSettings
from store.tenancy.keys import Keys

#: Retries after a deadlock: workers may still be changing the rows, in another order.
DELETE_AGAIN = Retry(AT_ONCE, attempts=20)
TABLES = text("""
    select c.oid::int, c.relname,
           array(select f.confrelid::int from pg_constraint f
                  where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid) as parents
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'host_id'
     where c.relnamespace = cast('afterturn' as regnamespace) and c.relkind in ('r', 'p') and not c.relispartition""")
# A claim that outlives every benchmark and is removed with its host.
HOLD = text("""
    insert into afterturn.claim_t (host_id, stage, stream_id, epoch, lease_until, worker)
    select :host, :stage, s, nextval('afterturn.claim_epoch_seq'), now() + interval '2 hours', 'bench'
      from unnest(cast(:streams as uuid[])) s
    on conflict do nothing""")
SETTLE = text("""
    with done as (
        update afterturn.ledger_t set status = 'done' where host_id = :host and undone
    )
    delete from afterturn.claim_t where host_id = :host""")


class BenchDatabase:
    """A database, and the hosts that a benchmark created in it; `owner` is an engine with the owner's rights."""

    def __init__(self, servers: BenchServers, owner: AsyncEngine) -> None:
        self.servers = servers
        self.owner = owner
        self.name = f"bench_{uuid4().hex[:12]}"
        self._hosts: list[UUID] = []

    def database(self, connections: int, url: str | None = None, begun: Begun | None = None) -> Database:
        """Return a pool with this number of connections, opened as the application does.

        `url` is another URL of the same server; `begun` is called with each driver connection before its first use.
        """
        settings = DatabaseSettings(
            url=self.servers.app_url if url is None else SecretStr(url),
            operator_url=self.servers.operator_url,
            pool_size=connections,
        )
        return Database(settings, begun)

    async def read_machine(self) -> Machine:
        """Return the machine as the server and the operating system report it."""
        async with self.owner.connect() as connection:
            return await Machine.read(connection)

    async def new_host(self, database: Database) -> UUID:
        """Create a tenant and return its id."""
        await self.new_key(database)
        return self.newest_host

    async def new_key(self, database: Database) -> str:
        """Create a tenant, the new `newest_host`, and return a key of it."""
        name = f"{self.name}-{uuid4().hex}"
        self._hosts.append(identity.host_id(name))
        return await Keys(database).create(name, "bench")

    @property
    def newest_host(self) -> UUID:
        """The id of the host that was created last."""
        return self._hosts[-1]

    @asynccontextmanager
    async def kept_from_workers(
        self, host: UUID, sessions: Sequence[UUID], turns: Sequence[UUID]
    ) -> AsyncGenerator[None]:
        """Claim the streams that the block's turns will open, so that workers skip them; afterwards end the rows."""
        if not self.servers.shared:
            yield
            return
        async with self.owner.begin() as connection:
            held = {Stream.SESSION: sessions, Stream.TURN: turns}
            for stage in TURN_STAGES:
                streams = list(held.get(STAGES[stage].stream, ()))
                await connection.execute(HOLD, {"host": host, "stage": stage.value, "streams": streams})
        yield
        await self.settle(host)

    async def settle(self, host: UUID) -> None:
        """End all open work of a host, so that workers leave it alone."""
        async with self.owner.begin() as connection:
            await connection.execute(SETTLE, {"host": host})

    async def remove(self) -> None:
        """Delete every row of the hosts, children before their parents."""
        for table in reversed(await self.tables()):
            await DELETE_AGAIN.call(partial(self._empty_table, tenant_table(table)), retry_after_states(DEADLOCK))

    async def _empty_table(self, table: TableClause) -> None:
        async with self.owner.begin() as connection:
            await connection.execute(delete(table).where(table.c.host_id.in_(self._hosts)))

    async def tables(self) -> list[str]:
        """Return the names of the tables with rows of hosts, parents before their children."""
        async with self.owner.connect() as connection:
            tables = {row.oid: row for row in await connection.execute(TABLES)}
        parents_first = TopologicalSorter({oid: row.parents for oid, row in tables.items()}).static_order()
        return [tables[oid].relname for oid in parents_first if oid in tables]


@asynccontextmanager
async def open_bench_database(servers: BenchServers) -> AsyncGenerator[BenchDatabase]:
    """Yield a database for a benchmark; remove its hosts afterwards on shared servers (private ones are deleted)."""
    engine = create_owner_engine(
        servers.owner_url.get_secret_value(),
        driver={"server_settings": {"search_path": "afterturn,public", "jit": "off"}},
        poolclass=NullPool,
    )
    here = BenchDatabase(servers, engine)
    try:
        yield here
    finally:
        if servers.shared:
            await here.remove()
