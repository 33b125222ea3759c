"""Keys name the tenant and what their holder may touch; only their hashes are kept."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from store import identity
from store.connections import create_owner_engine
from store.database import Database
from store.errors import NotFound
from store.settings import DatabaseSettings
from store.tenancy import keys as keys_module
from store.tenancy.keys import Keys
from store.tenancy.tokens import new_token
from tests.servers import TestPostgres


async def test_a_new_key_opens_its_host_and_every_bank(database: Database) -> None:
    name = f"h-{uuid4()}"
    grant = await Keys(database).authenticate(await Keys(database).create(name, "agent"))
    assert grant is not None
    assert (grant.host_id, grant.write, grant.allows("any")) == (identity.host_id(name), True, True)


async def test_a_scoped_key_reaches_its_banks_alone_and_an_empty_scope_reaches_none(database: Database) -> None:
    keys, name = Keys(database), f"h-{uuid4()}"
    scoped = await keys.authenticate(await keys.create(name, "one", banks=["a"], write=False))
    empty = await keys.authenticate(await keys.create(name, "none", banks=[]))
    assert scoped is not None
    assert empty is not None
    assert (scoped.allows("a"), scoped.allows("b"), scoped.write) == (True, False, False)
    assert not empty.allows("a")


@pytest.mark.parametrize("token", ["", "at_wrong", "\ud800", "x" * 100_000, "at_\x00"])
async def test_a_token_that_is_not_a_key_opens_nothing(database: Database, token: str) -> None:
    assert await Keys(database).authenticate(token) is None


def out_of_reach() -> Database:
    nowhere = SecretStr("postgresql+asyncpg://nobody:x@127.0.0.1:9/none")
    return Database(DatabaseSettings(url=nowhere, operator_url=nowhere))


async def test_a_malformed_token_is_refused_without_a_query(database: Database) -> None:
    token = await Keys(database).create(f"h-{uuid4()}", "agent")
    swapped = token[:9] + ("A" if token[9] != "A" else "B") + token[10:]
    away = Keys(out_of_reach())
    for malformed in ("at_x", swapped, token[:-1], token + "0", token.replace("at_", "uk_"), " " + token, token + "\n"):
        assert await away.authenticate(malformed) is None
    with pytest.raises(OSError, match="Connect"):
        await away.authenticate(new_token("at_"))


async def test_unknown_tokens_push_no_good_key_out_of_what_is_remembered(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_module, "CACHE_S", 3600.0)
    monkeypatch.setattr(keys_module, "CACHE_LIMIT", 4)
    keys = Keys(database)
    token, unknown = await keys.create(f"h-{uuid4()}", "agent"), [new_token("at_") for _ in range(20)]
    grant = await keys.authenticate(token)
    assert [await keys.authenticate(one) for one in unknown] == [None] * 20
    keys._database = out_of_reach()
    assert await keys.authenticate(token) == grant
    assert grant is not None
    assert [await keys.authenticate(one) for one in unknown[-4:]] == [None] * 4
    with pytest.raises(OSError, match="Connect"):
        await keys.authenticate(unknown[0])


async def test_a_revoked_key_opens_nothing_and_is_still_listed(database: Database) -> None:
    keys, name = Keys(database), f"h-{uuid4()}"
    token = await keys.create(name, "agent")
    [info] = await keys.list(name)
    await keys.revoke(name, info.key_id)
    assert await Keys(database).authenticate(token) is None
    [info] = await keys.list(name)
    assert info.revoked_at is not None
    with pytest.raises(NotFound):
        await keys.revoke(name, info.key_id)


async def test_a_key_of_another_host_cannot_be_revoked(database: Database) -> None:
    keys, name = Keys(database), f"h-{uuid4()}"
    await keys.create(name, "agent")
    [info] = await keys.list(name)
    with pytest.raises(NotFound):
        await keys.revoke(f"h-{uuid4()}", info.key_id)


@pytest.mark.law("L7")
async def test_the_token_itself_is_nowhere_in_the_table(database: Database, postgres: TestPostgres) -> None:
    token = await Keys(database).create(f"h-{uuid4()}", "agent")
    owner = create_owner_engine(postgres.owner_url)
    async with owner.connect() as connection:
        found = (await connection.execute(text("select k::text from afterturn.api_key_t k"))).scalars().all()
    await owner.dispose()
    assert found
    assert not any(token in row or token.removeprefix("at_")[:20] in row for row in found)


async def test_a_key_of_a_user_or_an_agent_says_so(database: Database) -> None:
    keys, name = Keys(database), f"h-{uuid4()}"
    grant = await keys.authenticate(await keys.create(name, "agent", user="ana", agent="planner"))
    assert grant is not None
    assert (grant.user, grant.agent, grant.space.prefix) == ("ana", "planner", "~ana@planner/")


async def test_a_key_opens_nothing_once_it_expired(database: Database) -> None:
    keys, name = Keys(database), f"h-{uuid4()}"
    now = datetime.now(UTC)
    assert await keys.authenticate(await keys.create(name, "old", expires_at=now - timedelta(seconds=1))) is None
    assert await keys.authenticate(await keys.create(name, "new", expires_at=now + timedelta(minutes=1))) is not None
    assert [info.state for info in await keys.list(name)] == ["expired", "active"]


async def test_a_rotated_key_works_beside_its_successor_until_the_overlap_is_over(database: Database) -> None:
    keys, name = Keys(database), f"h-{uuid4()}"
    old = await keys.create(name, "agent", banks=["a"], write=False, user="ana", curate=True)
    [info] = await keys.list(name)
    successor = await keys.rotate(name, info.key_id, timedelta(hours=1))
    grants = [await keys.authenticate(token) for token in (old, successor.token)]
    assert None not in grants
    assert len({(g.host_id, g.banks, g.write, g.user, g.curate) for g in grants if g}) == 1
    old_info, new_info = await keys.list(name)
    assert (old_info.state, old_info.replaced_by, new_info.key_id) == ("active", successor.key_id, successor.key_id)
    assert old_info.expires_at is not None
    assert (new_info.expires_at, new_info.label) == (None, "agent")
    assert successor.token not in repr(successor)


async def test_a_key_rotated_without_overlap_ends_at_once(database: Database) -> None:
    keys, name = Keys(database), f"h-{uuid4()}"
    old = await keys.create(name, "agent", expires_at=datetime.now(UTC) + timedelta(days=30))
    [info] = await keys.list(name)
    successor = await keys.rotate(name, info.key_id, timedelta())
    assert await Keys(database).authenticate(old) is None
    assert successor.expires_at is not None
    assert abs(successor.expires_at - datetime.now(UTC) - timedelta(days=30)) < timedelta(minutes=1)


async def test_a_key_is_replaced_once(database: Database) -> None:
    keys, name = Keys(database), f"h-{uuid4()}"
    await keys.create(name, "agent")
    [info] = await keys.list(name)
    rotations = [keys.rotate(name, info.key_id, timedelta(hours=1)) for _ in range(4)]
    done = await asyncio.gather(*rotations, return_exceptions=True)
    assert sum(isinstance(one, NotFound) for one in done) == 3
    with pytest.raises(NotFound):
        await keys.rotate(f"h-{uuid4()}", info.key_id, timedelta(hours=1))
