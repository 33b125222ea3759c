"""Functions of the console's sessions, each called by name, as the operator's role."""

import hashlib
from uuid import uuid4

from store.database import Database
from store.tenancy.keys import Keys, hash_token
from store.tenancy.operator_keys import OperatorKeys
from tests.store.sql.conftest import as_operator

OPEN = "select afterturn.open_console_session(:secret, :link, cast(:keys as bytea[]))"
WIDEN = "select afterturn.widen_console_session(:secret, :old, :key)"
FOLLOW = "select afterturn.follow_console_link(:code, :secret)"
CLOSE = "select afterturn.close_console_session(:secret)"
KEY = "select key_id from afterturn.find_key_of_session(:secret)"
OPERATOR = "select makes_keys from afterturn.find_operator_of_session(:secret)"


def digest() -> bytes:
    return hashlib.sha256(uuid4().bytes).digest()


async def make_key(database: Database) -> bytes:
    return hash_token(await Keys(database).create(f"host-{uuid4().hex}", "test"))


async def test_a_session_is_opened_by_a_known_key_found_and_closed(database: Database) -> None:
    key, secret = await make_key(database), digest()
    assert await as_operator(database, OPEN, secret=digest(), link=False, keys=[digest()]) == [(False,)]
    assert await as_operator(database, OPEN, secret=secret, link=False, keys=[key]) == [(True,)]
    assert len(await as_operator(database, KEY, secret=secret)) == 1
    assert await as_operator(database, OPERATOR, secret=secret) == []
    await as_operator(database, CLOSE, secret=secret)
    assert await as_operator(database, KEY, secret=secret) == []


async def test_a_link_is_followed_once(database: Database) -> None:
    key, code, secret = await make_key(database), digest(), digest()
    assert await as_operator(database, OPEN, secret=code, link=True, keys=[key]) == [(True,)]
    assert await as_operator(database, KEY, secret=code) == []
    assert await as_operator(database, FOLLOW, code=code, secret=secret) == [(True,)]
    assert len(await as_operator(database, KEY, secret=secret)) == 1
    assert await as_operator(database, FOLLOW, code=code, secret=digest()) == [(False,)]


async def test_a_session_is_widened_by_an_operators_key_and_the_old_one_ends(database: Database) -> None:
    key, old, secret = await make_key(database), digest(), digest()
    operator = hash_token(await OperatorKeys(database).create("on call", makes_keys=True))
    assert await as_operator(database, OPEN, secret=old, link=False, keys=[key]) == [(True,)]
    assert await as_operator(database, WIDEN, secret=secret, old=old, key=operator) == [(True,)]
    assert await as_operator(database, OPERATOR, secret=secret) == [(True,)]
    assert await as_operator(database, KEY, secret=old) == []
