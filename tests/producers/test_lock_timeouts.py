"""What another session of the database holds for long answers with RESOURCE_BUSY, and keeps nobody else waiting."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from producers.settings import ApiSettings
from store import identity
from store.database import LOCK_TIMEOUT_S, SESSION_DEFAULTS
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.servers import TestPostgres, TestValkey

Turn = dict[str, Any]

#: An answer may come so much later than the wait for a lock ends, however busy the machine is.
PATIENCE_S = 25
#: What a session of these tests waits for a lock, in seconds: long enough to see who waits for whom.
SHORT_S = 1


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(postgres: TestPostgres, valkey: TestValkey) -> AsyncIterator[World]:
    """An API whose sessions wait for a lock as those of every process do, and no longer than these tests need."""
    assert SESSION_DEFAULTS["lock_timeout"] == f"{LOCK_TIMEOUT_S}s"
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(SESSION_DEFAULTS, "lock_timeout", f"{SHORT_S}s")
        made = build(postgres, broker_of(valkey.url, f"api-{uuid4().hex}"), settings=ApiSettings())
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def psql(world: World) -> AsyncIterator[AsyncConnection]:
    """A session beside the service, as an operator's `psql` is one."""
    engine = create_async_engine(world.postgres.superuser_url)
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


@asynccontextmanager
async def holding(psql: AsyncConnection, kind: str, key: object, *, shared: bool = False) -> AsyncIterator[None]:
    """Hold a lock of the service for as long as the block lasts."""
    name = "pg_advisory_xact_lock" + ("_shared" if shared else "")
    await psql.execute(
        text(f"select {name}(afterturn.lock_key(:kind, cast(:key as uuid)))"), {"kind": kind, "key": key}
    )
    yield
    await psql.rollback()


async def busy(reply: Any) -> None:
    began = time.monotonic()
    answer = await reply
    took = time.monotonic() - began
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "RESOURCE_BUSY"), answer.text
    assert answer.json()["error"]["retryable"] is True
    assert answer.headers["retry-after"] == "1"
    assert "try again" in answer.json()["error"]["message"]
    assert SHORT_S <= took < SHORT_S + PATIENCE_S


def places(tenant: Tenant, session: str = "monday") -> dict[str, Any]:
    bank = identity.bank_id(identity.host_id(tenant.host), "default")
    return {"host": identity.host_id(tenant.host), "bank": bank, "session": identity.session_id(bank, session)}


@pytest.mark.parametrize("kind", ["host", "bank", "session"])
async def test_a_turn_that_waits_for_a_held_lock_is_answered_and_goes_in_later(
    world: World, ana: Tenant, turn: Turn, psql: AsyncConnection, kind: str
) -> None:
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    bob, second = await world.tenant(), {**turn, "turn_id": "2"}
    async with holding(psql, kind, places(ana)[kind]):
        waiting = asyncio.ensure_future(busy(ana.http.post("/api/v1/turns", json=second)))
        # Whoever had to wait for this lock would be answered as busy: it is held until the block ends.
        assert (await bob.http.post("/api/v1/turns", json=turn)).status_code == 201
        await waiting
        assert (await ana.http.post("/api/v1/recall", json={"query": "Lisbon"})).status_code == 200
    assert (await ana.http.post("/api/v1/turns", json=second)).status_code == 201


@pytest.mark.law("L2")
async def test_a_completed_turn_waits_for_a_held_session_is_told_how_to_come_again_and_is_kept_once(
    ana: Tenant, turn: Turn, psql: AsyncConnection
) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    items = [{"type": "message", "role": "user", "content": "hello"}]
    after = {"session_id": "monday", "turn_id": "2", "input_items": items}
    async with holding(psql, "session", places(ana)["session"]):
        await busy(ana.http.post("/api/v1/turns/after", json=after))
    first, again = [await ana.http.post("/api/v1/turns/after", json=after) for _ in range(2)]
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["position"] == again.json()["position"]


async def test_of_a_batch_only_turns_of_the_held_session_are_busy(
    ana: Tenant, turn: Turn, psql: AsyncConnection
) -> None:
    turns = [{**turn, "session_id": session} for session in ("monday", "tuesday")]
    async with holding(psql, "session", places(ana)["session"]):
        results = (await ana.http.post("/api/v1/turns:batch", json={"turns": turns})).json()["results"]
    assert [one["ok"] for one in results] == [False, True]
    assert (results[0]["error"]["code"], results[0]["error"]["retryable"]) == ("RESOURCE_BUSY", True)


async def test_whatever_changes_a_held_bank_is_answered(ana: Tenant, turn: Turn, psql: AsyncConnection) -> None:
    await ana.http.post("/api/v1/turns", json=turn)
    found = (await ana.http.post("/api/v1/recall", json={"query": "Lisbon", "k": 5})).json()["results"]
    unit = f"/api/v1/units/{found[0]['unit_id']}"
    link = {"from_unit_id": found[0]["unit_id"], "to_unit_id": found[1]["unit_id"], "link_type": "causes"}
    async with holding(psql, "bank", places(ana)["bank"]):
        await asyncio.gather(
            busy(ana.http.patch(unit, json={"content": "We fly to Bergen"})),
            busy(ana.http.put(f"{unit}/pin")),
            busy(ana.http.delete(unit)),
            busy(ana.http.delete(f"{unit}?erase=true")),
            busy(ana.http.post("/api/v1/docs", json={"content": "Something to read."})),
            busy(ana.http.post("/api/v1/directives", json={"name": "tone", "content": "Be brief."})),
            busy(ana.http.post("/api/v1/links", json=link)),
            busy(ana.http.patch("/api/v1/banks/default", json={"language": "de"})),
            busy(ana.http.post("/api/v1/erasures", json={"kind": "bank", "bank": "default"})),
        )
    assert (await ana.http.get(unit)).json()["version"] == 1
    assert (await ana.http.put(f"{unit}/pin")).status_code == 200


async def test_an_erasure_that_cannot_go_on_is_accepted_and_told_as_running(
    ana: Tenant, turn: Turn, psql: AsyncConnection
) -> None:
    await ana.http.post("/api/v1/turns", json={**turn, "user_id": "eva"})
    async with holding(psql, "bank", places(ana)["bank"]):
        answer = await ana.http.post("/api/v1/erasures", json={"kind": "user", "user_id": "eva"})
        assert (answer.status_code, answer.json()["status"]) == (202, "running")
    again = await ana.http.post("/api/v1/erasures", json={"kind": "user", "user_id": "eva"})
    assert (again.status_code, again.json()["erasure_id"]) == (200, answer.json()["erasure_id"])


#: Every lock of advisory kind that anybody holds or waits for, but for those of the asking session.
ADVISORY = """
    select mode, granted, (cast(classid as bigint) << 32) | cast(objid as bigint) as key from pg_locks
     where locktype = 'advisory' and objsubid = 1 and pid <> pg_backend_pid()
       and database = (select oid from pg_database where datname = current_database())"""


async def test_the_erasure_of_a_user_waits_for_its_own_host_alone_and_holds_nobody_else_up(
    world: World, ana: Tenant, turn: Turn, psql: AsyncConnection
) -> None:
    """Red with one lock over all tenants: it would wait for the writer of another host, and all others for it."""
    bob = await world.tenant()
    await ana.http.post("/api/v1/turns", json={**turn, "user_id": "eva"})
    await psql.execute(text("select pg_advisory_xact_lock_shared(afterturn.log_lock())"))
    async with holding(psql, "host", places(bob)["host"], shared=True):
        erased = await ana.http.post("/api/v1/erasures", json={"kind": "user", "user_id": "eva"})
        assert erased.json()["status"] == "done"
    async with holding(psql, "host", places(ana)["host"], shared=True):
        waiting = asyncio.ensure_future(ana.http.post("/api/v1/erasures", json={"kind": "user", "user_id": "eva"}))
        await asyncio.sleep(0.2)
        assert (await bob.http.post("/api/v1/turns", json=turn)).status_code == 201
        log = (await world.sql("select afterturn.log_lock() as key"))[0].key
        held = [(row.mode, row.key) for row in await world.sql(ADVISORY)]
        assert ("ExclusiveLock", log) not in held
        assert (await waiting).status_code in (200, 409)


async def test_the_erasure_of_an_unknown_user_costs_a_look_and_no_lock(
    world: World, ana: Tenant, psql: AsyncConnection
) -> None:
    """Its own host's lock is held alone: whoever took any would wait for it."""
    async with holding(psql, "host", places(ana)["host"]):
        for _ in range(3):
            answer = await ana.http.post("/api/v1/erasures", json={"kind": "user", "user_id": "stranger"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
        for asked in ({"kind": "bank", "bank": "x"}, {"kind": "session", "session_id": "x"}):
            assert (await ana.http.post("/api/v1/erasures", json=asked)).status_code == 404
    assert await world.sql("select from afterturn.erasure_t where host_id = :host", host=places(ana)["host"]) == []
