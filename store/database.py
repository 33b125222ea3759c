"""Connections to PostgreSQL: every transaction is opened here, and sets its tenant before anything else."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import UUID

import orjson
from asyncpg import Record
from asyncpg.exceptions import PostgresError
from prometheus_client import Counter, Histogram
from sqlalchemy import AsyncAdaptedQueuePool, event
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection
from sqlalchemy.util.concurrency import greenlet_spawn

from store.authority import SETTING, current_authority
from store.connections import LIVENESS, NAMELESS, create_engine
from store.database_outage import is_statement_timeout, lock_timeouts
from store.driver_rows import get_driver_connection
from store.errors import SessionDefaultsMissing, StatementTimeout
from store.retention import FactRetention
from store.settings import DatabaseSettings
from store.vectors import register_codec

# Settings of one transaction in addition to the tenant's.
Settings = Mapping[str, str]
NO_SETTINGS: Settings = MappingProxyType({})
# Plans each statement once per connection; otherwise most statements of a recall would be planned for every question.
# WHY without parallel workers: one plan for all banks is estimated for all rows of all tenants. From 100,000 vectors on
# each exact search of a bank of 1,240 began two processes, which cost its session 1.8 ms instead of .6.
ONE_PLAN: Settings = MappingProxyType({"plan_cache_mode": "force_generic_plan", "max_parallel_workers_per_gather": "0"})
# For work that the ledger repeats if it is lost: the commit does not wait for the disk, and delays no other commit.
# A server crash loses only the last such transactions, completely and in order, together with the ends of their
# claims. Stages repeat a few statements, so each is planned once per connection, for all parameters.
NO_SYNC: Settings = MappingProxyType({"synchronous_commit": "off", **ONE_PLAN})

#: How long a statement waits for a lock that another transaction holds, in seconds: then it ends with ResourceBusy.
LOCK_TIMEOUT_S = 5
#: The longest time of a statement, in seconds.
COMMAND_TIMEOUT_S = 60.0

#: Settings of every session: sent at its start or, behind a pooler in transaction mode, kept with the login role.
#: A transaction that idles holds back every reader of the log.
SESSION_DEFAULTS = {
    "search_path": "afterturn,public",
    "timezone": "UTC",
    "jit": "off",
    "idle_in_transaction_session_timeout": "30s",
    "lock_timeout": f"{LOCK_TIMEOUT_S}s",
}
#: The name of the service's sessions.
APPLICATION_NAME = "afterturn"
#: How many prepared statements a connection keeps, of SQLAlchemy and of the driver itself, of any length.
CACHED = {"prepared_statement_cache_size": 500, "statement_cache_size": 500, "max_cacheable_statement_size": 0}
NAMED = {"application_name": APPLICATION_NAME}
#: Session defaults that are not in force; lists are compared without blanks, which the server may add.
MISSING_DEFAULTS = """
    select d.name from unnest($1::text[], $2::text[]) d(name, wanted)
     where replace(current_setting(d.name), ' ', '') is distinct from replace(d.wanted, ' ', '')"""


#: Without labels, because the pools of a process are not distinguished.
POOL_WAIT_SECONDS = Histogram(
    "afterturn_pool_wait_seconds",
    "Seconds a call waited because every connection of its pool was in use; calls that found one are not counted",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10),
)
POOL_TIMEOUTS = Counter("afterturn_pool_timeouts", "Calls that got no database connection in time")

_USUAL_RETENTION = FactRetention()
#: Called with the driver's connection.
Begun = Callable[[Any], Awaitable[None]]


_in_background: ContextVar[bool] = ContextVar("in_background", default=False)


@contextmanager
def count_as_background() -> Iterator[None]:
    """Leave the calls of the block out of `Database.calls`: nobody waits for their answers."""
    before = _in_background.set(True)
    try:
        yield
    finally:
        _in_background.reset(before)


class MeasuredPool(AsyncAdaptedQueuePool):
    """A connection pool that measures how long a call waits when every connection is in use."""

    def connect(self) -> PoolProxiedConnection:
        """Return a connection, and observe the wait for it."""
        if self.checkedout() < self.size():
            return super().connect()
        began = time.monotonic()
        try:
            return super().connect()
        except PoolTimeout:
            POOL_TIMEOUTS.inc()
            raise
        finally:
            POOL_WAIT_SECONDS.observe(time.monotonic() - began)


class Database:
    """Two connection pools on one database: the application's, under tenant isolation, and the operator's.

    The operator's role sees all tenants' ledger rows, claims and keys, and reads no column that holds content.
    An instance belongs to one event loop. Waiting for a lock ends with ResourceBusy after LOCK_TIMEOUT_S seconds.
    """

    def __init__(
        self, settings: DatabaseSettings, begun: Begun | None = None, *, retention: FactRetention = _USUAL_RETENTION
    ) -> None:
        """Make the pools without opening a connection; `begun` is called with each new one before its first use.

        `retention` says how long facts hold that are written to this database, for all who read or write them.
        """
        self.retention = retention
        #: The application's calls until now, for whose answers somebody waits.
        self.calls = 0
        pooled = settings.transaction_pooling
        # SQLAlchemy begins no transactions of its own here: `tenant` does, in one call.
        self._app = _create_engine_for(
            settings.url.get_secret_value(), settings.pool_size, begun, pooled=pooled
        ).execution_options(isolation_level="AUTOCOMMIT")
        self._operator = _create_engine_for(
            settings.operator_url.get_secret_value(), max(2, settings.pool_size // 2), begun, pooled=pooled
        )

    @asynccontextmanager
    async def tenant(
        self, host: UUID, settings: Settings = NO_SETTINGS, *, undo: bool = False
    ) -> AsyncGenerator[AsyncConnection]:
        """Open a transaction that sees and writes the rows of `host` alone; it commits unless the block raises.

        `settings` hold for this transaction. With `undo` it is rolled back however the block ends. Within a call it
        writes events on the call's authority alone.
        """
        self._count_call()
        authority = current_authority()
        named = {"afterturn.host": str(host), **({SETTING: authority.as_setting()} if authority else {}), **settings}
        with lock_timeouts():
            async with self._app.connect() as connection:
                with _translate_timeouts():
                    async with _open_transaction(connection, named, undo=undo):
                        yield connection

    @asynccontextmanager
    async def scoped(
        self, host: UUID, user: UUID | None, agent: UUID | None, granted: Sequence[UUID] = ()
    ) -> AsyncGenerator[AsyncConnection]:
        """Open a tenant's transaction that sees the banks of this user and this agent, shared and `granted` ones alone.

        Without a user it sees no bank of a user, without an agent no bank of an agent alone; without both, every bank.
        """
        scope = {
            "afterturn.user": str(user or ""),
            "afterturn.agent": str(agent or ""),
            "afterturn.granted": f"{{{','.join(map(str, granted))}}}" if granted else "",
        }
        async with self.tenant(host, scope) as connection:
            yield connection

    @asynccontextmanager
    async def call(self) -> AsyncGenerator[AsyncConnection]:
        """Yield a connection for one function call, which is a transaction of its own.

        The function must set the tenant itself; without one, every access to a table raises.
        """
        self._count_call()
        with lock_timeouts():
            async with self._app.connect() as connection:
                with _translate_timeouts():
                    yield connection

    async def fetch(self, query: str, *arguments: object) -> list[Record]:
        """Return the rows of one function call, made as by `call`, but on the driver itself, at half the cost.

        Arguments stand in the query as $1, $2 and so on. Raises the driver's errors, and ResourceBusy.
        """
        self._count_call()
        with lock_timeouts():
            return await _fetch_rows(self._app, query, arguments)

    async def operator_fetch(self, query: str, *arguments: object) -> list[Record]:
        """Return the rows of one call over all hosts, made like `fetch`."""
        with lock_timeouts():
            return await _fetch_rows(self._operator, query, arguments)

    @asynccontextmanager
    async def operator_call(self) -> AsyncGenerator[AsyncConnection]:
        """Yield a connection over all hosts for one statement, which is a transaction of its own."""
        with lock_timeouts():
            async with self._operator.connect() as connection:
                with _translate_timeouts():
                    yield await connection.execution_options(isolation_level="AUTOCOMMIT")

    @asynccontextmanager
    async def operator(self) -> AsyncGenerator[AsyncConnection]:
        """Open a transaction over the ledger, claims and keys of all hosts, without access to content."""
        with lock_timeouts():
            async with self._operator.begin() as connection:
                with _translate_timeouts():
                    yield connection

    def _count_call(self) -> None:
        if not _in_background.get():
            self.calls += 1

    async def close(self) -> None:
        """Close every connection; call it on the event loop that used them."""
        await self._app.dispose()
        await self._operator.dispose()


@asynccontextmanager
async def _open_transaction(connection: AsyncConnection, settings: Settings, *, undo: bool) -> AsyncGenerator[None]:
    """Begin a transaction with its settings in one round trip; commit it unless the block raises, or `undo`.

    Both run on the driver itself. A connection that cannot be rolled back is discarded.
    """
    driver = get_driver_connection(connection)
    try:
        await driver.execute(_build_opening(settings))
        yield
        await driver.execute("rollback" if undo else "commit")
    except BaseException:
        try:
            await driver.execute("rollback")
        except BaseException as error:  # noqa: BLE001 - what ended the block is raised; this connection is of no use
            await connection.invalidate(error)
        raise


def _build_opening(settings: Settings) -> str:
    """Return the statements that begin a transaction with these settings, each for this transaction alone."""
    return f"begin; {_build_settings(settings)}"


def _build_settings(settings: Settings) -> str:
    quoted = ((name.replace(".", '"."'), value.replace("'", "''")) for name, value in settings.items())
    return "; ".join(f"""set local "{name}" = '{value}'""" for name, value in quoted)


async def change_settings(connection: AsyncConnection, settings: Settings) -> None:
    """Go on in a transaction of ONE_PLAN as if it had been opened with these settings instead."""
    usual = (f"set local {name} to default" for name in ONE_PLAN if name not in settings)
    await get_driver_connection(connection).execute("; ".join([*usual, _build_settings(settings)]))


@contextmanager
def _translate_timeouts() -> Iterator[None]:
    """Raise StatementTimeout for a statement that timed out, by the driver's clock or by the server's.

    It covers work on an open connection alone: when the server has stopped answering, the rollback that follows raises
    the driver's error.
    """
    try:
        yield
    except TimeoutError:
        raise StatementTimeout(f"a statement took longer than {COMMAND_TIMEOUT_S} s") from None
    except (DBAPIError, PostgresError) as error:
        if is_statement_timeout(error):
            raise StatementTimeout("a statement was cancelled when its time was over") from None
        raise


def service_engine(url: str, *, pooled: bool = False, **options: Any) -> AsyncEngine:
    """Return an engine with the service's connection settings; `options` are those of its pool.

    `pooled`: for a pooler in transaction mode, whose sessions serve others between transactions and keep no state.
    """
    driver: dict[str, Any] = {"server_settings": {**SESSION_DEFAULTS, **LIVENESS, **NAMED}, **CACHED}
    if pooled:
        driver = {"server_settings": NAMED, **NAMELESS}
    return create_engine(url, timeout_s=5, driver={**driver, "command_timeout": COMMAND_TIMEOUT_S}, **options)


def _create_engine_for(url: str, pool_size: int, begun: Begun | None, *, pooled: bool) -> AsyncEngine:
    engine = service_engine(
        url,
        pooled=pooled,
        # Reads a large float back as it was sent; the standard parser would return an integer beyond 64 bits.
        json_deserializer=orjson.loads,
        # Connections opened in a burst are kept for the next one, because opening costs more than most statements.
        poolclass=MeasuredPool,
        pool_size=2 * pool_size,
        max_overflow=0,
        pool_use_lifo=True,
        pool_pre_ping=False,
        pool_timeout=10,
    )
    event.listen(engine.sync_engine, "connect", partial(_begin_session, _check_session_defaults if pooled else begun))
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    return engine


async def _fetch_rows(engine: AsyncEngine, query: str, arguments: tuple[object, ...]) -> list[Record]:
    try:
        lent = await engine.raw_connection()
    except engine.dialect.loaded_dbapi.Error as error:
        # SQLAlchemy's substitute for the driver's error, which is not wrapped here.
        raise error.__cause__ or error from None
    driver: Any = lent.driver_connection
    try:
        found: list[Record] = await driver.fetch(query, *arguments)
    except PostgresError:
        lent.close()
        raise
    except BaseException as error:
        # The connection is broken, or the call was cancelled during an answer, so no other caller may use it.
        await greenlet_spawn(lent.invalidate, error)
        raise
    # No transaction was begun, so there is nothing to wait for.
    lent.close()
    return found


def _refuse_closed(connection: Any, entry: ConnectionPoolEntry, _lent: PoolProxiedConnection) -> None:
    """Make the pool replace a connection that the server has closed, so that the next caller gets no error.

    A connection that was opened just now and is closed already is kept: its own error tells the cause.
    """
    if entry.info.get("lent") and connection.driver_connection.is_closed():
        raise InvalidatePoolError
    entry.info["lent"] = True


def _begin_session(begun: Begun | None, connection: Any, _entry: ConnectionPoolEntry) -> None:
    connection.run_async(register_codec)
    if begun is not None:
        connection.run_async(begun)


async def _check_session_defaults(connection: Any) -> None:
    """Check the session's defaults, which the login role must have. Raises SessionDefaultsMissing."""
    missing = await read_missing_defaults(connection)
    if missing:
        raise SessionDefaultsMissing(
            f"the login role has no defaults for {', '.join(missing)}: run `afterturn db init`, then RECONNECT a pooler"
        )


async def read_missing_defaults(connection: Any) -> list[str]:
    """Return the names of the session defaults that a driver's connection lacks."""
    rows = await connection.fetch(MISSING_DEFAULTS, list(SESSION_DEFAULTS), list(SESSION_DEFAULTS.values()))
    return [str(row["name"]) for row in rows]
