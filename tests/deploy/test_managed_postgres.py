"""A managed PostgreSQL without superuser: everything runs as the roles of store/ROLES.md."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from sqlalchemy import NullPool, make_url, text

from deploy.cli.erase import vacuum_tables
from deploy.components.bootstrap import HOST, bootstrap_database
from deploy.lab.removal import remove_hosts
from deploy.local import EmbeddedPostgres, PostgresEndpoint, child
from deploy.local.ports import find_free_port
from store import identity, migrations
from store.connections import create_engine
from store.derived.vector_indexes import VectorIndexes
from store.replay import ReplayScope, repair_scope, swap_tables, verify_log
from tests.dumps import AS_OWNER, EVERY_TENANT, dumped
from tests.patience import until
from tests.processes import spawned
from tests.servers import TestValkey
from tests.store.test_row_security import CHECKS, found

pytestmark = pytest.mark.slow

OWNER, PASSWORD = "Managed-owner", secrets.token_hex(8)
ADMINISTRATORS = (
    f"create role \"{OWNER}\" login createrole password '{PASSWORD}'",
    f'create database managed owner "{OWNER}"',
)
#: Where the administrator makes the owner alone, the owner lets the roles in that migrations made.
OWNERS = tuple(f"alter role {name} login password '{PASSWORD}'" for name in ("afterturn_app", "afterturn_operator"))
ABOVE = "select rolname from pg_roles where (rolsuper or rolbypassrls) and rolname !~ '^pg_'"


async def run(url: str, *statements: str) -> list[str]:
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            for statement in statements:
                result = await connection.execute(text(statement))
            return [str(row[0]) for row in result] if result.returns_rows else []
    finally:
        await engine.dispose()


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[PostgresEndpoint]:
    """A server on which the administrator has made one role, its database and the extension, and nothing else."""
    server = EmbeddedPostgres(tmp_path / "server", durable=False)
    await asyncio.to_thread(server.create)
    process = await asyncio.to_thread(child.start_child, server.child())
    superuser = make_url(server.endpoint.superuser_url)
    by_name = {
        name: superuser.set(username=name, password=PASSWORD, database="managed").render_as_string(hide_password=False)
        for name in (OWNER, "afterturn_app", "afterturn_operator")
    }
    administrator = {
        name: superuser.set(database=name).render_as_string(hide_password=False) for name in ("postgres", "managed")
    }
    await run(administrator["postgres"], *ADMINISTRATORS)
    await run(administrator["managed"], "create extension vector")
    urls = (by_name[OWNER], by_name["afterturn_app"], by_name["afterturn_operator"], administrator["managed"])
    yield PostgresEndpoint(server.endpoint.host, server.endpoint.port, *urls)
    await asyncio.to_thread(child.stop_child, server.child(), process)
    server.cluster.remove()


async def test_a_managed_postgresql_without_superuser_carries_everything(
    endpoint: PostgresEndpoint, valkey: TestValkey, tmp_path: Path
) -> None:
    owner = endpoint.owner_url
    await asyncio.to_thread(migrations.upgrade_schema, owner)
    await run(owner, *OWNERS)
    keys = await asyncio.to_thread(bootstrap_database, tmp_path, endpoint)
    port = find_free_port()
    environment = os.environ | {
        "AFTERTURN_DATA": str(tmp_path),
        "AFTERTURN_DATABASE__URL": endpoint.app_url,
        "AFTERTURN_DATABASE__OPERATOR_URL": endpoint.operator_url,
        "AFTERTURN_BROKER__URL": valkey.url,
        "AFTERTURN_BROKER__NAMESPACE": "managed",
        "AFTERTURN_API__PORT": str(port),
        "AFTERTURN_WORKER__SWEEP_SECONDS": "0.5",
        "AFTERTURN_EMBEDDING__VARIANT": "weights",
    }
    with ExitStack() as processes:
        log = processes.enter_context((tmp_path / "log").open("ab"))
        for module in ("deploy.api", "deploy.worker"):
            argv = [sys.executable, "-P", "-m", module]
            processes.enter_context(spawned(argv, env=environment, stdout=log, stderr=log))
        headers = {"Authorization": f"Bearer {keys.api_key}"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as client:
            await served(client)
    assert (await verify_log(owner)).equal
    await swap_tables(owner)
    await repair_scope(owner, ReplayScope(identity.host_id(HOST)))
    assert (await verify_log(owner)).equal
    assert await found(owner, *CHECKS) == []
    assert await VectorIndexes(owner, 1000).needed() == []
    assert b"Lisbon" in await dumped(owner, *AS_OWNER, environment=EVERY_TENANT)
    await vacuum_tables(owner)
    await asyncio.to_thread(migrations.upgrade_schema, owner)
    await remove_hosts(owner, [identity.host_id(HOST)])
    assert await run(endpoint.superuser_url, ABOVE) == ["postgres"]


async def served(client: httpx.AsyncClient) -> None:
    """Accept turns, work on them, recall one, and erase the other's session."""

    async def accepted() -> bool:
        try:
            said = [await say(client, "kept", "Ann flies to Lisbon"), await say(client, "gone", "Bob sails")]
        except httpx.TransportError:
            return False
        return said == [200, 200]

    await until(accepted, "both turns are accepted")
    await until(lambda: nothing_undone(client), "the worker has done all stages of both turns")
    found = await client.post("/api/v1/recall", json={"query": "Where does Ann fly?", "bank": "default"})
    assert "Ann flies to Lisbon" in found.text
    erased = await client.post("/api/v1/erasures", json={"kind": "session", "session_id": "gone", "bank": "default"})
    assert erased.json()["status"] == "done"


async def say(client: httpx.AsyncClient, session: str, words: str) -> int:
    messages = [{"role": "user", "content": words}]
    body = {"session_id": session, "turn_id": "1", "bank": "default", "messages": messages}
    return (await client.post("/api/v1/turns", json=body)).status_code


async def nothing_undone(client: httpx.AsyncClient) -> bool:
    metrics = (await client.get("/metrics")).text.splitlines()
    rows = [line for line in metrics if line.startswith("afterturn_ledger_rows{")]
    return bool(rows) and all(line.endswith(" 0.0") for line in rows if '"dead"' not in line)
