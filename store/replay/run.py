"""The three modes of a replay: compare, swap, and repair in place."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from embeddings.retry import AT_ONCE, Retry
from store.connections import create_owner_engine
from store.database_outage import DEADLOCK, LOCK_NOT_AVAILABLE, retry_after_states, state_of
from store.errors import ReplayError
from store.replay import derived, digest
from store.replay.digest import BankIdentity
from store.replay.expected import TURNS
from store.replay.mend import drop_stale, note_changes
from store.replay.report import ReplayReport
from store.replay.shadow import ASK_AGAIN, LOCK_TIMEOUT, ErasedMeanwhileError, Progress, ReplayScope, Shadow
from store.schema import UNIT

EVERYTHING = ReplayScope()
VERIFIED, SWAPPED, REPAIRED = "afterturn_replay", "afterturn_swap", "afterturn_repair"
#: Retries of a replay during which something was erased.
BEGIN_AGAIN = Retry(AT_ONCE, attempts=3)
#: SQLSTATEs after which the transaction is repeated: it conflicted with others.
MET_OTHERS = (LOCK_NOT_AVAILABLE, DEADLOCK)

Act = Callable[[AsyncConnection, Shadow, ReplayReport], Awaitable[Sequence[BankIdentity]]]

TAKE_LOG = text("select pg_advisory_xact_lock(afterturn.log_lock())")
TAKE_COUNTS = text("lock table afterturn.agent_memory_unit_entity_t in exclusive mode")
# Replays the rest of the log, in the transaction that puts the shadow in place.
TAIL = text("""
    select afterturn.replay_step(:schema, h.host_id, cast(:bank as uuid), 9223372036854775807, 2147483647)
      from afterturn.host_t h where cast(:host as uuid) is null or h.host_id = :host""")
FINISH = text("select afterturn.finish_shadow(:schema)")
CARRY = text("select afterturn.carry_counts(:schema)")
SWAP = text("select afterturn.swap_shadow(:schema)")
DROP_BEFORE = text("drop schema afterturn_before cascade")
REBUILD_TURNS = text("select afterturn.rebuild_turns(cast(:host as uuid), cast(:bank as uuid))")
APPLY = text("select * from afterturn.apply_shadow(:schema, :host, cast(:bank as uuid))")


async def verify_log(
    owner_url: str, scope: ReplayScope = EVERYTHING, *, progress: Progress | None = None, resume: bool = False
) -> ReplayReport:
    """Replay the log beside the live tables and compare them; live rows stay unchanged, appends go on.

    `progress` is called with events done and events in all. `resume` continues a replay that was cut off. Raises
    ReplayError when the log cannot be replayed.
    """
    started = time.monotonic()
    async with _lend_engine(owner_url) as engine:
        shadow = Shadow(engine, scope, VERIFIED)
        report = await _verify_shadow(shadow, started, progress, resume=resume)
        await shadow.drop()
        return report


async def swap_tables(owner_url: str, *, progress: Progress | None = None, resume: bool = False) -> ReplayReport:
    """Replay the log, compare, and replace the live tables with the replayed ones.

    Appends wait while the last events are replayed and the tables are swapped; no accepted event is lost. Vectors and
    words stay where their unit's text is unchanged; the others are made again. Derived state is rebuilt in banks with
    wrong rows, and everywhere when derived state itself was wrong. The report describes the live tables before the
    swap. Raises ReplayError when running transactions leave no moment for it, or something is erased meanwhile.
    """
    started = time.monotonic()
    async with _lend_engine(owner_url) as engine:
        shadow = Shadow(engine, EVERYTHING, SWAPPED)
        report = await _verify_shadow(shadow, started, progress, resume=resume)
        async with engine.begin() as connection:
            await connection.execute(FINISH, {"schema": shadow.schema})
        concerned = await _run_when_quiet(engine, shadow, report, _put_in_place)
        await shadow.drop()
        if not all(one.equal for one in report.derived):
            concerned = await _concerned_banks(engine, EVERYTHING)
        await derived.rebuild_derived(engine, concerned)
        return report


async def repair_scope(owner_url: str, scope: ReplayScope, *, progress: Progress | None = None) -> ReplayReport:
    """Replay one host, or one bank of it, and correct the live rows in place; equal rows stay unchanged.

    Derived state of the host or bank is rebuilt. The report describes the rows before. Raises ReplayError without a
    host, or as `swap_tables` does.
    """
    if scope.host is None:
        raise ReplayError("a repair in place needs one tenant, or one bank of it")
    started = time.monotonic()
    async with _lend_engine(owner_url) as engine:
        shadow = Shadow(engine, scope, REPAIRED)
        report = await _verify_shadow(shadow, started, progress, resume=False)
        await _run_when_quiet(engine, shadow, report, _correct_rows)
        await shadow.drop()
        await derived.rebuild_derived(engine, await _concerned_banks(engine, scope))
        return report


async def _verify_shadow(shadow: Shadow, started: float, progress: Progress | None, *, resume: bool) -> ReplayReport:
    def begin_anew(error: Exception) -> float | None:
        nonlocal resume
        resume = False
        return 0.0 if isinstance(error, ErasedMeanwhileError) else None

    try:
        return await BEGIN_AGAIN.call(lambda: _compare_shadow(shadow, started, progress, resume=resume), begin_anew)
    except ErasedMeanwhileError:
        await shadow.drop()
        raise


async def _compare_shadow(shadow: Shadow, started: float, progress: Progress | None, *, resume: bool) -> ReplayReport:
    try:
        await shadow.prepare(resume=resume)
        await shadow.catch_up(progress)
        await shadow.catch_up()
        async with shadow.at_rest() as connection:
            tables = await digest.compare_tables(connection, shadow.schema, shadow.scope)
            beside = await derived.check_derived(connection, shadow.scope)
    except DBAPIError as error:
        raise ReplayError(f"the log could not be replayed ({_sqlstate_of(error)})") from None
    return ReplayReport(tables, beside, await shadow.events(), time.monotonic() - started)


async def _concerned_banks(engine: AsyncEngine, scope: ReplayScope) -> Sequence[BankIdentity]:
    async with engine.connect() as connection:
        return await derived.read_banks(connection, scope)


async def _run_when_quiet(
    engine: AsyncEngine, shadow: Shadow, report: ReplayReport, act: Act
) -> Sequence[BankIdentity]:
    """Run `act` in one transaction that locks the log exclusively, as soon as running transactions allow."""

    async def run() -> Sequence[BankIdentity]:
        async with engine.begin() as connection:
            await connection.execute(LOCK_TIMEOUT)
            await connection.execute(TAKE_LOG)
            await connection.execute(TAKE_COUNTS)
            arguments = {"schema": shadow.schema, "host": shadow.scope.host, "bank": shadow.scope.bank}
            await shadow.unless_erased(connection)
            await connection.execute(TAIL, arguments)
            concerned = await act(connection, shadow, report)
            if any(one.name == TURNS and not one.equal for one in report.derived):
                await connection.execute(REBUILD_TURNS, arguments)
            return concerned

    try:
        return await ASK_AGAIN.call(run, retry_after_states(*MET_OTHERS))
    except ErasedMeanwhileError:
        await shadow.drop()
        raise
    except DBAPIError as error:
        problem = f"what was replayed could not be put in place ({_sqlstate_of(error)})"
        if state_of(error) in MET_OTHERS:
            problem = "running transactions left no moment to put the replayed tables in place"
        raise ReplayError(problem) from None


async def _put_in_place(connection: AsyncConnection, shadow: Shadow, report: ReplayReport) -> Sequence[BankIdentity]:
    await connection.execute(CARRY, {"schema": shadow.schema})
    concerned = await digest.find_changed_banks(connection, shadow.schema, shadow.scope, report.tables)
    await note_changes(connection, shadow.schema, shadow.scope, any_=_have_units_changed(report))
    await connection.execute(SWAP, {"schema": shadow.schema})
    await drop_stale(connection)
    await connection.execute(DROP_BEFORE)
    return concerned


async def _correct_rows(connection: AsyncConnection, shadow: Shadow, report: ReplayReport) -> Sequence[BankIdentity]:
    await note_changes(connection, shadow.schema, shadow.scope, any_=_have_units_changed(report))
    scope = {"host": shadow.scope.host, "bank": shadow.scope.bank}
    await connection.execute(APPLY, {"schema": shadow.schema, **scope})
    await drop_stale(connection)
    return ()


def _have_units_changed(report: ReplayReport) -> bool:
    return any(one.table == UNIT.name and not one.equal for one in report.tables)


def _sqlstate_of(error: DBAPIError) -> str:
    """Return the error's SQLSTATE alone, since the database's message quotes rows."""
    return state_of(error) or type(error).__name__


@asynccontextmanager
async def _lend_engine(owner_url: str) -> AsyncGenerator[AsyncEngine]:
    """Lend an engine whose sessions serve one step of a replay after another."""
    settings = {
        "timezone": "UTC",
        "jit": "off",
        "application_name": "afterturn replay",
        "search_path": "afterturn,public",
    }
    engine = create_owner_engine(owner_url, driver={"server_settings": settings})
    try:
        yield engine
    finally:
        await engine.dispose()
