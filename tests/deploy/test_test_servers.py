"""The servers every other test stands on."""

from typing import Any

import redis.asyncio as redis
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.servers import TestPostgres, TestValkey


async def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.connect() as connection:
        found = [tuple(row) for row in await connection.execute(text(query))]
    await engine.dispose()
    return found


async def test_each_role_enters_the_database_by_its_own_url(postgres: TestPostgres) -> None:
    urls = (postgres.owner_url, postgres.app_url, postgres.operator_url)
    seen = [await rows(url, "SELECT current_user, current_database()") for url in urls]
    assert seen == [[(role, postgres.database)] for role in ("afterturn_owner", "afterturn_app", "afterturn_operator")]


async def test_no_role_of_the_service_passes_row_level_security(postgres: TestPostgres) -> None:
    query = "SELECT rolname, rolsuper, rolbypassrls FROM pg_roles WHERE rolname LIKE 'afterturn%' ORDER BY 1"
    assert await rows(postgres.superuser_url, query) == [
        ("afterturn_app", False, False),
        ("afterturn_operator", False, False),
        ("afterturn_owner", False, False),
    ]


async def test_a_database_made_from_the_template_has_pgvector(fresh_database: TestPostgres) -> None:
    assert await rows(fresh_database.app_url, "SELECT '[1,0]'::halfvec <-> '[1,2]'::halfvec") == [(2.0,)]


async def test_lower_casing_knows_letters_beyond_ascii(postgres: TestPostgres) -> None:
    assert await rows(postgres.app_url, "SELECT lower('ÄÉŁŞ')") == [("äéłş",)]


async def test_valkey_answers_and_never_evicts(valkey: TestValkey) -> None:
    async with redis.Redis.from_url(valkey.url) as client:
        assert await client.ping()
        assert await client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
