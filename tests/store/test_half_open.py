"""A session that waits for the rest of a statement is ended, with its locks; one that works or is another's is not."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
from sqlalchemy import NullPool, text

from deploy.lab.chaos.half_open import open_half_open_session
from store import half_open
from store.connections import LIVENESS, create_owner_engine
from store.database import Database
from store.half_open import end_half_open_sessions
from tests.patience import until
from tests.servers import TestPostgres
from tests.store.conftest import new_host

pytestmark = pytest.mark.untouched

BANK = UUID(int=7)
STATE = "select state, wait_event from pg_stat_activity where pid = :pid"
TRY = text("select pg_try_advisory_xact_lock(afterturn.lock_key('bank', :bank))")
SHOWN = text("select name, setting from pg_settings where name = any (:names)")


@pytest_asyncio.fixture(loop_scope="session")
async def session(fresh_database: TestPostgres) -> AsyncIterator[Any]:
    opened = await open_half_open_session(fresh_database.app_url, BANK)
    yield opened
    opened.terminate()


async def waits(database: Database, pid: int) -> bool:
    async with database.call() as connection:
        return list(await connection.execute(text(STATE), {"pid": pid})) == [("active", "ClientRead")]


async def sleeps(database: Database, pid: int) -> bool:
    async with database.call() as connection:
        return list(await connection.execute(text(STATE), {"pid": pid})) == [("active", "PgSleep")]


async def test_a_session_in_the_middle_of_a_statement_is_ended_and_its_locks_are_free(
    lonely: Database, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, pid = await new_host(lonely), session.get_server_pid()
    await until(lambda: waits(lonely, pid), "the session waits for its client")
    assert await end_half_open_sessions(lonely) == 0, "it may wait for a while"
    monkeypatch.setattr(half_open, "LONGEST_S", 0.0)
    assert await end_half_open_sessions(lonely) == 1
    await until(session.is_closed, "the server has ended it")
    async with lonely.tenant(host) as connection:
        assert await connection.scalar(TRY, {"bank": BANK})


async def test_the_service_looks_by_itself(lonely: Database, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_open, "LONGEST_S", 0.0)
    monkeypatch.setattr(half_open, "EVERY_S", 0.01)
    looking = asyncio.create_task(half_open.keep_ending_half_open_sessions(lonely))
    await until(session.is_closed, "the session was ended")
    looking.cancel()
    await asyncio.wait([looking])


async def test_a_session_that_works_is_left_alone(lonely: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_open, "LONGEST_S", 0.0)
    host = await new_host(lonely)
    async with lonely.tenant(host) as idle, lonely.tenant(host) as working:
        await idle.execute(text("select 1"))
        pid = await working.scalar(text("select pg_backend_pid()"))
        sleeping = asyncio.ensure_future(working.execute(text("select pg_sleep(2)")))
        # Between the messages of a statement even a session that works waits for its client, for a moment.
        await until(lambda: sleeps(lonely, pid), "the statement runs")
        while not sleeping.done():
            assert await end_half_open_sessions(lonely) == 0
        await sleeping
        await idle.execute(text("select 1"))


async def test_every_role_of_ours_notices_a_client_that_is_gone(lonely: Database, fresh_database: TestPostgres) -> None:
    owner = create_owner_engine(fresh_database.owner_url, poolclass=NullPool)
    async with lonely.tenant(uuid4()) as app, lonely.operator() as operator, owner.connect() as owning:
        for connection in (app, operator, owning):
            found = {row.name: row.setting for row in await connection.execute(SHOWN, {"names": [*LIVENESS]})}
            assert found == {**LIVENESS, "client_connection_check_interval": "5000"}
