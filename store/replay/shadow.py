"""The shadow: the event-backed tables in a schema of their own, filled from the log by the live projectors."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import BigInteger, column, func, select, table, text, true
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.schema import DropSchema

from embeddings.retry import Retry, wait_evenly
from store.database_outage import LOCK_NOT_AVAILABLE, retry_after_states, state_of
from store.errors import ReplayError

#: Events per step, which is one transaction.
STEP = 1000
#: The first step is short: until its tables were analyzed once, the planner knows no good way to a row of the shadow.
FIRST_STEP = 200
#: Events of the shadow at which statistics are taken, and again whenever they have doubled.
FIRST_ANALYZE = FIRST_STEP

#: The longest wait for the log's lock, in milliseconds: writers of all tenants queue behind it, and then go first.
LOCK_TIMEOUT_MS = 1500
#: How often the lock is tried; writers go first for about this many seconds between two tries.
ASK_AGAIN = Retry(wait_evenly(0.25), attempts=20)

Progress = Callable[[int, int], None]

LOCK_TIMEOUT = select(func.set_config("lock_timeout", str(LOCK_TIMEOUT_MS), true()))

LOCK_LOG = text("select pg_advisory_lock(afterturn.log_lock())")
UNLOCK_LOG = text("select pg_advisory_unlock(afterturn.log_lock())")
ISSUED = text("select case when is_called then last_value else 0 end from afterturn.log_position_seq")
MAKE = text("select afterturn.make_shadow(:schema)")
EXISTS = text("select to_regclass(:schema || '.replay_progress') is not null")
ERASED_SINCE = text("select afterturn.erased_since(:schema, :host)")
STEP_ON = text("select afterturn.replay_step(:schema, :host, :bank, :upto, :step)")
HOSTS = text("""
    select h.host_id from afterturn.host_t h
     where cast(:host as uuid) is null or h.host_id = :host order by h.host_id""")
COUNT = text("""
    select count(*) from afterturn.event_store_t e
     where (cast(:host as uuid) is null or e.host_id = :host) and (cast(:bank as uuid) is null or e.bank_id = :bank)""")
TABLES = text("select unnest(afterturn.event_backed())")


class ErasedMeanwhileError(ReplayError):
    """The shadow may hold what was erased from the log since it was read; it must be made anew."""

    def __init__(self) -> None:
        super().__init__("something was erased meanwhile: the log must be replayed again")


@dataclass(frozen=True, slots=True)
class ReplayScope:
    """The scope of a replay: everything, one host, or one bank of it."""

    host: UUID | None = None
    bank: UUID | None = None


class Shadow:
    """The schema into which a replay projects events. Its checkpoint is committed with them, so it can be resumed."""

    def __init__(self, engine: AsyncEngine, scope: ReplayScope, schema: str) -> None:
        self.schema = schema
        self.scope = scope
        self._engine = engine
        self._analyze_at = FIRST_ANALYZE

    async def prepare(self, *, resume: bool) -> None:
        """Create the shadow; one that an earlier run left is resumed (`resume`) or dropped.

        A shadow from before an erasure is dropped, too.
        """
        async with self._engine.begin() as connection:
            there = resume and (await connection.execute(EXISTS, {"schema": self.schema})).scalar()
            if there and not await self._erased_since(connection):
                return
            await connection.execute(DropSchema(self.schema, cascade=True, if_exists=True))
            await connection.execute(MAKE, {"schema": self.schema})

    async def drop(self) -> None:
        """Drop the shadow."""
        async with self._engine.begin() as connection:
            await connection.execute(DropSchema(self.schema, cascade=True, if_exists=True))

    async def events(self) -> int:
        """Return how many events the shadow has replayed."""
        async with self._engine.connect() as connection:
            progress = table("replay_progress", column("events", BigInteger), schema=self.schema)
            return int(await connection.scalar(select(func.coalesce(func.sum(progress.c.events), 0))) or 0)

    async def catch_up(self, progress: Progress | None = None) -> int:
        """Replay up to the end of the log as of now, while appends go on; return how many events that were.

        Every position up to there is committed: the log is locked for a moment while its end is read.
        """
        async with self._engine.connect() as connection:
            await _hold_log(connection)
            upto = int((await connection.execute(ISSUED)).scalar_one())
            await connection.execute(UNLOCK_LOG)
        return await self._replay(upto, progress)

    @asynccontextmanager
    async def at_rest(self) -> AsyncGenerator[AsyncConnection]:
        """Yield a connection whose snapshot shows the live tables and the shadow at the same log position.

        The log is locked only while the last few events are replayed and the snapshot is taken. Raises
        ErasedMeanwhileError.
        """
        async with self._engine.connect() as keeper, self._engine.connect() as reader:
            await reader.execution_options(isolation_level="REPEATABLE READ")
            await _hold_log(keeper)
            try:
                await self.unless_erased(keeper)
                await self._replay(int((await keeper.execute(ISSUED)).scalar_one()), None)
                await reader.execute(text("select 1"))
            finally:
                await keeper.execute(UNLOCK_LOG)
            yield reader

    async def unless_erased(self, connection: AsyncConnection) -> None:
        """Raise ErasedMeanwhileError if something was erased since the shadow was created; needs the log's lock."""
        if await self._erased_since(connection):
            raise ErasedMeanwhileError

    async def _erased_since(self, connection: AsyncConnection) -> bool:
        found = await connection.execute(ERASED_SINCE, {"schema": self.schema, "host": self.scope.host})
        return bool(found.scalar_one())

    async def _replay(self, upto: int, progress: Progress | None) -> int:
        arguments = {"host": self.scope.host, "bank": self.scope.bank}
        async with self._engine.connect() as connection:
            hosts = list((await connection.execute(HOSTS, {"host": self.scope.host})).scalars())
            total = int((await connection.execute(COUNT, arguments)).scalar_one()) if progress else 0
        done = 0
        for host in hosts:
            async for made in self._steps({"schema": self.schema, "host": host, "bank": self.scope.bank, "upto": upto}):
                done += made
                await self._analyze(done)
                if progress:
                    progress(done, total)
        return done

    async def _steps(self, which: Mapping[str, object]) -> AsyncGenerator[int]:
        """Replay step by step and yield the number of events of each, on one connection, which keeps its plans."""
        size = FIRST_STEP
        async with self._engine.connect() as connection:
            while True:
                made = int((await connection.execute(STEP_ON, {**which, "step": size})).scalar_one())
                await connection.commit()
                if not made:
                    return
                yield made
                size = STEP

    async def _analyze(self, done: int) -> None:
        """Refresh the planner's statistics of the shadow; autovacuum does not reach its tables."""
        if done < self._analyze_at:
            return
        self._analyze_at = 2 * done
        async with self._engine.begin() as connection:
            for name in (await connection.execute(TABLES)).scalars():
                await connection.execute(text(f"analyze {self.schema}.{name}"))


async def _hold_log(connection: AsyncConnection) -> None:
    """Lock the log exclusively for this session, as soon as running transactions allow. Raises ReplayError."""

    async def hold() -> None:
        try:
            await connection.execute(LOCK_TIMEOUT)
            await connection.execute(LOCK_LOG)
        except DBAPIError:
            await connection.rollback()
            raise

    try:
        await ASK_AGAIN.call(hold, retry_after_states(LOCK_NOT_AVAILABLE))
    except DBAPIError as error:
        if state_of(error) != LOCK_NOT_AVAILABLE:
            raise
        raise ReplayError("running transactions left no moment to look at the end of the log") from None
