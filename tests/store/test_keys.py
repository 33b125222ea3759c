"""Keys name the tenant and what their holder may touch; only their hashes are kept."""

from uuid import uuid4

import pytest
from sqlalchemy import text

from store import identity
from store.database import Database
from store.errors import NotFound
from store.keys import Keys


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
async def test_the_token_itself_is_nowhere_in_the_table(database: Database) -> None:
    token = await Keys(database).create(f"h-{uuid4()}", "agent")
    async with database.operator() as connection:
        found = (await connection.execute(text("select k::text from afterturn.api_key_t k"))).scalars().all()
    assert found
    assert not any(token in row or token.removeprefix("at_") in row for row in found)
