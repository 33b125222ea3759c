"""The first key, and the schema it opens."""

import asyncio
import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.components.bootstrap import BootstrapKeys, bootstrap_database
from deploy.local import PostgresEndpoint
from store.database import Database
from store.identity import host_id
from store.settings import DatabaseSettings
from store.tenancy.keys import Grant, Keys
from store.tenancy.operator_keys import OperatorKeys
from store.tenancy.tokens import token_checksum
from tests.servers import TestPostgres

BODY = "at_" + "A" * 43


def endpoint(postgres: TestPostgres) -> PostgresEndpoint:
    return PostgresEndpoint(
        "127.0.0.1", 0, postgres.owner_url, postgres.app_url, postgres.operator_url, postgres.superuser_url
    )


async def made(data: Path, postgres: TestPostgres) -> BootstrapKeys:
    return await asyncio.to_thread(bootstrap_database, data, endpoint(postgres))


async def grant(postgres: TestPostgres, token: str) -> Grant | None:
    url, operator = SecretStr(postgres.app_url), SecretStr(postgres.operator_url)
    database = Database(DatabaseSettings(url=url, operator_url=operator))
    try:
        return await Keys(database).authenticate(token)
    finally:
        await database.close()


async def test_the_first_start_makes_a_key_of_the_default_host_and_keeps_it(
    tmp_path: Path, fresh_database: TestPostgres
) -> None:
    credentials = await made(tmp_path, fresh_database)
    path = tmp_path / "api-key"
    assert path.read_text() == credentials.api_key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = await grant(fresh_database, credentials.api_key)
    assert found is not None
    assert (found.host_id, found.banks, found.write, found.gateway_user) == (host_id("default"), None, True, None)


async def test_operators_commands_have_a_key_that_is_kept_until_it_is_revoked(
    tmp_path: Path, fresh_database: TestPostgres
) -> None:
    path = tmp_path / "operator-key"
    database = Database(
        DatabaseSettings(url=SecretStr(fresh_database.app_url), operator_url=SecretStr(fresh_database.operator_url))
    )
    await made(tmp_path, fresh_database)
    first = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = await OperatorKeys(database).authenticate(first)
    assert found is not None
    assert found.makes_keys
    await made(tmp_path, fresh_database)
    assert path.read_text() == first
    await OperatorKeys(database).revoke(found.key_id)
    await made(tmp_path, fresh_database)
    again = await OperatorKeys(database).authenticate(path.read_text())
    assert again is not None
    assert again.key_id != found.key_id
    await database.close()


async def test_the_gateways_user_has_a_key_of_its_own(tmp_path: Path, fresh_database: TestPostgres) -> None:
    credentials = await made(tmp_path, fresh_database)
    found = await grant(fresh_database, credentials.gateway_key)
    assert found is not None
    assert found.gateway_user == credentials.gateway_user


async def test_a_second_start_keeps_both_keys(tmp_path: Path, fresh_database: TestPostgres) -> None:
    assert await made(tmp_path, fresh_database) == await made(tmp_path, fresh_database)


@pytest.mark.parametrize(
    "kept", ["at_of_an_older_version", BODY + token_checksum(BODY)], ids=["of an older version", "of another database"]
)
async def test_a_key_that_opens_nothing_any_more_is_replaced(
    tmp_path: Path, fresh_database: TestPostgres, kept: str
) -> None:
    (tmp_path / "api-key").write_text(kept)
    credentials = await made(tmp_path, fresh_database)
    assert await grant(fresh_database, credentials.api_key) is not None
    assert (tmp_path / "api-key").read_text() == credentials.api_key
