"""The siege finds nothing where the walls stand, finds holes where they are planted, and leaves nothing behind."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import create_async_engine

from deploy.walls import Report, Way, besiege
from deploy.walls.doors import DOORS
from deploy.walls.run import application
from deploy.walls.transport import Send, into
from deploy.walls.world import World, build, named
from producers import parts
from producers.doorbell import Doorbell
from producers.errors import PermissionDenied
from store import identity
from store.banks import Banks
from store.clock import DatabaseClock
from store.database import Database
from store.keys import Grant, Keys
from store.removal import TABLES, remove_hosts
from store.scopes import Space
from tests.producers.conftest import broker_of, database_of
from tests.servers import TestPostgres, TestValkey

TRIES = 800
#: Enough to find a hole that was planted.
FEW = 400

pytestmark = pytest.mark.law("L6")


@dataclass
class Siege:
    """A world and a way into it."""

    postgres: TestPostgres
    database: Database
    send: Send
    app: Any

    async def world(self) -> World:
        return await build(named("siege"), Keys(self.database), self.send)

    async def tries(self, number: int = TRIES) -> Report:
        return await besiege(await self.world(), [Way(self.send, number)], seed=7)


@pytest_asyncio.fixture(loop_scope="session")
async def siege(postgres: TestPostgres, valkey: TestValkey) -> AsyncIterator[Siege]:
    database, broker = database_of(postgres), broker_of(valkey.url, f"siege-{uuid4().hex}")
    doorbell = Doorbell(broker)
    app: Any = application(database, doorbell, await DatabaseClock.asked(database))
    yield Siege(postgres, database, into(app), app)
    await doorbell.close()
    await database.close()
    broker.client.close()


async def test_nothing_foreign_is_seen_nor_told_from_what_is_absent(siege: Siege) -> None:
    report = await siege.tries()
    assert report.examples == []
    assert (report.seen, report.told_apart, report.tries) == (0, 0, TRIES)
    assert set(report.doors) == set(DOORS)
    assert report.holds


@pytest.mark.slow
async def test_a_bank_that_is_not_hidden_is_found(siege: Siege, monkeypatch: pytest.MonkeyPatch) -> None:
    world = await siege.world()

    async def open_reach(_banks: object, _grant: Grant, bank: str) -> str:
        return bank

    monkeypatch.setattr(parts, "reach", open_reach)
    report = await besiege(world, [Way(siege.send, FEW)], seed=7)
    assert report.seen > 0
    assert not report.holds


@pytest.mark.slow
async def test_a_refusal_that_tells_foreign_from_absent_is_found(siege: Siege, monkeypatch: pytest.MonkeyPatch) -> None:
    world = await siege.world()
    foreign = {place.bank for place in world.places}
    resolve = Banks.resolve

    async def telling(self: Banks, host: Any, space: Space, bank: str) -> str:
        if space.prefix and bank in foreign and await resolve(self, host, space, bank) != bank:
            raise PermissionDenied("this bank belongs to somebody else")
        return await resolve(self, host, space, bank)

    monkeypatch.setattr(Banks, "resolve", telling)
    report = await besiege(world, [Way(siege.send, FEW)], seed=7)
    assert report.told_apart > 0
    assert all(line.startswith("told apart") for line in report.examples)


@pytest.mark.slow
async def test_a_users_banks_that_are_not_hidden_are_found(siege: Siege, monkeypatch: pytest.MonkeyPatch) -> None:
    world = await siege.world()
    of_user = Banks.of_user

    async def all_of_user(self: Banks, host: Any, _space: Space, user: str, **_: Any) -> list[str]:
        return await of_user(self, host, Space(), user)

    monkeypatch.setattr(Banks, "of_user", all_of_user)
    report = await besiege(world, [Way(siege.send, 2 * FEW)], seed=7)
    assert report.seen > 0
    assert any("across" in line for line in report.examples)


async def test_what_was_taken_away_is_found(siege: Siege) -> None:
    world = await siege.world()
    place = world.places[0]
    async with siege.database.tenant(identity.host_id(world.names[0])) as connection:
        await connection.execute(
            text("delete from afterturn.recall_job_t where job_id = cast(:job as uuid)"), {"job": place.job}
        )
    report = await besiege(world, [Way(siege.send, 2)], seed=7)
    assert (report.seen, report.examples) == (1, ["changed: 1 of 21 places"])


async def test_every_public_path_of_the_api_is_tried(siege: Siege) -> None:
    tried = {door.split(" ")[1] for door in DOORS}
    paths = {
        path.replace(":name}", "}") for path in siege.app.openapi()["paths"] if path.startswith(("/api/", "/memories/"))
    }
    assert paths <= tried


async def test_removed_hosts_leave_no_row(siege: Siege) -> None:
    world = await siege.world()
    await remove_hosts(siege.postgres.owner_url, world.host_ids)
    engine = create_async_engine(siege.postgres.superuser_url)
    async with engine.connect() as connection:
        tables = [row[0] for row in await connection.execute(TABLES)]
        left = [
            table for table in tables if (await connection.execute(_any_row(table), {"hosts": world.host_ids})).all()
        ]
    await engine.dispose()
    assert len(tables) > 20
    assert left == []


def _any_row(table: str) -> TextClause:
    return text(f"select 1 from afterturn.{table} where host_id = any(:hosts) limit 1")
