"""Sessions of the console: opened with a key or a link, found by both halves of the secret, ended with the key."""

from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy import text

from store import identity
from store.connections import create_owner_engine
from store.database import Database
from store.tenancy.console_sessions import ConsoleSessions, SessionSecret
from store.tenancy.keys import Keys
from store.tenancy.operator_keys import OperatorKeys
from store.tenancy.tokens import OPERATOR_PREFIX, new_token
from tests.servers import TestPostgres


async def make_key(database: Database, **rights: object) -> tuple[str, str]:
    host = f"host-{uuid4().hex}"
    return host, await Keys(database).create(host, "test", **rights)  # type: ignore[arg-type]  # as a test says


async def test_a_session_allows_what_its_key_allows_and_needs_both_halves(database: Database) -> None:
    host, token = await make_key(database, banks=["a"], write=False, user="ana")
    sessions = ConsoleSessions(database)
    secret = await sessions.open(token)
    assert secret is not None
    grant = await sessions.find_grant(secret)
    assert grant == await Keys(database).authenticate(token)
    assert grant is not None
    assert (grant.host_id, grant.banks, grant.write, grant.user) == (
        identity.host_id(host),
        frozenset({"a"}),
        False,
        "ana",
    )
    assert await sessions.find_operator(secret) is None
    other = await sessions.open(token)
    assert other is not None
    for mixed in (
        replace(secret, page=other.page),
        replace(secret, cookie=other.cookie),
        replace(secret, page=""),
        SessionSecret(secret.page, secret.cookie),
        SessionSecret(token, secret.page),
    ):
        assert await sessions.find_grant(mixed) is None
    assert secret.page not in repr(secret)
    assert secret.cookie not in repr(secret)


async def test_a_session_of_both_keys_is_a_tenants_and_an_operators(database: Database) -> None:
    _, token = await make_key(database)
    operators = OperatorKeys(database)
    operator = await operators.create("on call", makes_keys=True)
    sessions = ConsoleSessions(database)
    secret = await sessions.open(token, operator)
    assert secret is not None
    assert await sessions.find_grant(secret) is not None
    assert await sessions.find_operator(secret) == await operators.authenticate(operator)
    alone = await sessions.open(operator)
    assert alone is not None
    assert await sessions.find_grant(alone) is None


async def test_a_key_is_added_to_a_session_in_the_place_of_one_of_its_kind(database: Database) -> None:
    host, token = await make_key(database)
    other = await Keys(database).create(host, "other", write=False)
    operator = await OperatorKeys(database).create("on call")
    sessions = ConsoleSessions(database)
    first = await sessions.open(token)
    assert first is not None
    both = await sessions.widen(first, operator)
    assert both is not None
    assert await sessions.find_operator(both) is not None
    assert await sessions.find_grant(both) == await Keys(database).authenticate(token)
    assert await sessions.find_grant(first) is None
    changed = await sessions.widen(both, other)
    assert changed is not None
    assert await sessions.find_grant(changed) == await Keys(database).authenticate(other)
    assert await sessions.find_operator(changed) is not None
    assert await sessions.widen(first, token) is None
    assert await sessions.widen(changed, "at_nothing") is None
    assert await sessions.find_grant(changed) is not None


async def test_what_is_no_valid_key_opens_nothing(database: Database) -> None:
    host, token = await make_key(database)
    sessions, keys = ConsoleSessions(database), Keys(database)
    gateway_user = await keys.create(host, "test", gateway_user="ana")
    [first, _] = await keys.list(host)
    await keys.revoke(host, first.key_id)
    unknown = new_token(OPERATOR_PREFIX)
    for wrong in ((token,), (gateway_user,), (unknown,), ("",), (), (await keys.create(host, "test"), token)):
        assert await sessions.open(*wrong) is None
        assert await sessions.create_link(*wrong) is None


async def test_a_session_ends_when_it_is_closed_and_when_its_key_is_revoked(database: Database) -> None:
    host, token = await make_key(database)
    sessions, keys = ConsoleSessions(database), Keys(database)
    closed, kept = await sessions.open(token), await sessions.open(token)
    assert closed is not None
    assert kept is not None
    await sessions.close(closed)
    assert await sessions.find_grant(closed) is None
    assert await sessions.find_grant(kept) is not None
    [info] = await keys.list(host)
    await keys.revoke(host, info.key_id)
    assert await ConsoleSessions(database).find_grant(kept) is None


async def test_a_session_ends_after_twelve_hours_without_a_call(database: Database, postgres: TestPostgres) -> None:
    _, token = await make_key(database)
    secret = await ConsoleSessions(database).open(token)
    assert secret is not None
    engine = create_owner_engine(postgres.superuser_url)

    async def let_pass(hours: float) -> None:
        async with engine.begin() as connection:
            await connection.execute(
                text(
                    "update public.afterturn_console_session set seen_at = seen_at - make_interval(secs => :s)"
                    " where secret_hash = :hash"
                ),
                {"s": hours * 3600, "hash": secret.digest()},
            )

    for _ in range(2):  # a call begins the twelve hours anew
        await let_pass(11.9)
        assert await ConsoleSessions(database).find_grant(secret) is not None
    await let_pass(12.1)
    assert await ConsoleSessions(database).find_grant(secret) is None
    assert await ConsoleSessions(database).open(token) is not None  # which clears ended ones away
    async with engine.begin() as connection:
        left = await connection.scalar(
            text("select count(*) from public.afterturn_console_session where secret_hash = :hash"),
            {"hash": secret.digest()},
        )
    await engine.dispose()
    assert left == 0


async def test_a_link_opens_one_session_within_an_hour(database: Database, postgres: TestPostgres) -> None:
    _, token = await make_key(database)
    sessions = ConsoleSessions(database)
    code, late = await sessions.create_link(token), await sessions.create_link(token)
    assert code is not None
    assert late is not None
    secret = await sessions.follow_link(code)
    assert secret is not None
    assert await sessions.find_grant(secret) == await Keys(database).authenticate(token)
    assert await sessions.follow_link(code) is None
    assert await sessions.follow_link(token) is None
    engine = create_owner_engine(postgres.superuser_url)
    async with engine.begin() as connection:
        await connection.execute(
            text("update public.afterturn_console_session set created_at = created_at - interval '61 minutes'")
        )
    await engine.dispose()
    assert await sessions.follow_link(late) is None


@pytest.mark.law("L6")
async def test_no_role_of_the_service_reads_the_sessions(postgres: TestPostgres) -> None:
    for url in (postgres.app_url, postgres.operator_url):
        engine = create_owner_engine(url)
        async with engine.connect() as connection:
            with pytest.raises(Exception, match="permission denied"):
                await connection.execute(text("select * from public.afterturn_console_session"))
        await engine.dispose()
