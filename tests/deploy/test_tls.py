"""Every connection to PostgreSQL is secured as its URL says: through Debian's stunnel, and to Debian's PostgreSQL."""

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from pydantic import SecretStr
from redis.exceptions import ConnectionError as RedisConnectionError
from sqlalchemy import make_url, text

from deploy.cli.erase import vacuum_tables
from deploy.components import doctor_checks
from deploy.lab.bench.bench_database import open_bench_database
from deploy.lab.bench.servers import BenchServers
from deploy.lab.chaos.database_observer import open_observer
from deploy.lab.removal import remove_hosts
from deploy.local.child import Account, build_account_arguments
from deploy.local.ports import LOOPBACK, find_free_port
from producers.settings import BrokerSettings
from store import migrations
from store.connections import create_engine
from store.database import Database
from store.derived.vector_indexes import VectorIndexes
from store.errors import InvalidDatabaseUrl
from store.log.reader import restamp_log
from store.replay import run as replay
from store.settings import DatabaseSettings
from tests.certificates import Authority
from tests.packages import program
from tests.patience import wait_until
from tests.processes import spawned
from tests.servers import TestPostgres, TestValkey
from tests.store.conftest import new_host
from tests.tables import each_row
from tests.tls_servers import refusing, stunnel
from workers.broker import create_broker

ENCRYPTED = text("select ssl, version, client_dn from pg_stat_ssl where pid = pg_backend_pid()")


def settings_of(url: str) -> DatabaseSettings:
    return DatabaseSettings(url=SecretStr(url), operator_url=SecretStr(url), owner_url=SecretStr(url))


async def as_application(url: str) -> None:
    database = Database(settings_of(url))
    try:
        await database.fetch("select 1")
    finally:
        await database.close()


async def as_operator(url: str) -> None:
    database = Database(settings_of(url))
    try:
        await database.operator_fetch("select 1")
    finally:
        await database.close()


async def by_a_bench(url: str) -> None:
    secret = SecretStr(url)
    async with open_bench_database(BenchServers(secret, secret, secret, shared=False)) as here:
        await here.tables()


async def by_the_eye_of_chaos(url: str) -> None:
    async with open_observer(url) as observer:
        assert await observer.try_query(text("select 1")) is not None


#: Everything in the product that connects to PostgreSQL.
CONNECTING: dict[str, Callable[[str], Awaitable[Any]]] = {
    "application": as_application,
    "operator": as_operator,
    "migrations": lambda url: asyncio.to_thread(migrations.upgrade_schema, url),
    "restamp": restamp_log,
    "removal": lambda url: remove_hosts(url, [uuid4()]),
    "replay": replay.verify_log,
    "vector indexes": lambda url: VectorIndexes(url, 1000).needed(),
    "vacuum": vacuum_tables,
    "bench": by_a_bench,
    "chaos": by_the_eye_of_chaos,
    "doctor": lambda url: doctor_checks.fetch_row(url, doctor_checks.SERVER),
}


@each_row("query", ["ssl=verify-full", "sslmode=verify-full", "sslmode=require"])
@each_row("connecting", CONNECTING)
async def test_no_connection_goes_on_in_clear_when_the_server_refuses_to_encrypt(connecting: str, query: str) -> None:
    async with refusing() as (server, port):
        with pytest.raises(Exception, match=r".") as refused:
            await CONNECTING[connecting](f"postgresql+asyncpg://role:zq90@{LOOPBACK}:{port}/x?{query}")
        assert server.asked
        assert server.in_clear == b""
        assert "zq90" not in str(refused.value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def encrypted(authority: Authority, tmp_path_factory: pytest.TempPathFactory, postgres: TestPostgres) -> Iterator[int]:
    """The port at which the run's PostgreSQL is `localhost` to whoever trusts the authority."""
    behind = make_url(postgres.app_url).port
    assert behind
    with stunnel(tmp_path_factory.mktemp("stunnel"), behind, authority.sign("server", "localhost")) as port:
        yield port


def at(url: str, port: int, query: str, host: str = "localhost") -> str:
    return make_url(url).set(host=host, port=port).render_as_string(hide_password=False) + f"?{query}"


async def test_the_whole_store_works_over_an_encrypted_connection_to_a_server_that_proves_its_name(
    encrypted: int, authority: Authority, postgres: TestPostgres
) -> None:
    query = f"sslmode=verify-full&sslrootcert={authority.certificate}"
    app, operator = at(postgres.app_url, encrypted, query), at(postgres.operator_url, encrypted, query)
    database = Database(DatabaseSettings(url=SecretStr(app), operator_url=SecretStr(operator)))
    try:
        async with database.tenant(await new_host(database)) as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            assert driver._transport.get_extra_info("ssl_object").version() == "TLSv1.3"
    finally:
        await database.close()
    owner = at(postgres.owner_url, encrypted, query)
    await asyncio.to_thread(migrations.upgrade_schema, owner)
    for name in ("restamp", "removal", "vector indexes", "vacuum", "bench", "chaos", "doctor"):
        await CONNECTING[name](owner)


@dataclass(frozen=True, slots=True)
class Reaching:
    """How a server is reached, and whether it may be talked to."""

    query: str
    host: str
    works: bool


@pytest.mark.parametrize(
    "reaching",
    [
        Reaching(*one)
        for one in (
            ("sslmode=verify-full&sslrootcert={ca}", LOOPBACK, False),
            ("sslmode=verify-ca&sslrootcert={ca}", LOOPBACK, True),
            ("sslmode=verify-full", "localhost", False),
            ("sslmode=verify-ca", "localhost", False),
            ("sslmode=require&sslrootcert={other}", "localhost", False),
            ("sslmode=require", "localhost", True),
            ("ssl=prefer", "localhost", True),
        )
    ],
    ids=str,
)
async def test_a_server_that_cannot_prove_what_the_url_asks_for_is_not_talked_to(
    encrypted: int, authority: Authority, postgres: TestPostgres, tmp_path: Path, reaching: Reaching
) -> None:
    query = reaching.query.format(ca=authority.certificate, other=Authority(tmp_path, "other").certificate)
    engine = create_engine(at(postgres.app_url, encrypted, query, reaching.host))
    try:
        if reaching.works:
            async with engine.connect() as connection:
                assert (await connection.execute(text("select 1"))).scalar_one() == 1
        else:
            with pytest.raises(OSError, match="certificate verify failed"):
                await engine.connect()
    finally:
        await engine.dispose()


def unprivileged() -> Account | None:
    if os.geteuid():
        return None
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


@pytest.fixture(scope="module")
def debian(authority: Authority) -> Iterator[int]:
    """Debian's PostgreSQL, encrypted: the port; it lets those in whose certificate the authority signed."""
    initdb = program("initdb", "postgresql-15")
    server, account, port = program("postgres", "postgresql-15"), unprivileged(), find_free_port()
    folder = Path(tempfile.mkdtemp(prefix="afterturn-debian-"))
    shown = authority.sign("server", "localhost")
    for source, name in ((shown.certificate, "crt"), (shown.key, "key"), (authority.certificate, "ca")):
        shutil.copy(source, folder / name)
        (folder / name).chmod(0o600)
    for path in (folder, *folder.iterdir()):
        if account:
            os.chown(path, account.uid, account.gid)
    try:
        subprocess.run(
            [initdb, "-D", folder / "pg", "-U", "app", "--auth=trust", "--no-sync"],
            check=True,
            capture_output=True,
            cwd="/",
            **build_account_arguments(account),
        )
        (folder / "pg" / "pg_hba.conf").write_text(f"hostssl all all {LOOPBACK}/32 trust clientcert=verify-full\n")
        settings = {"port": port, "listen_addresses": LOOPBACK, "unix_socket_directories": "", "ssl": "on"}
        settings |= {"ssl_cert_file": folder / "crt", "ssl_key_file": folder / "key", "ssl_ca_file": folder / "ca"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        argv = [str(server), "-D", str(folder / "pg"), *options]
        with spawned(argv, cwd="/", stderr=subprocess.DEVNULL, **build_account_arguments(account)):
            status = folder / "pg" / "postmaster.pid"
            wait_until(lambda: status.exists() and "ready" in status.read_text(), "Debian's PostgreSQL is ready")
            yield port
    finally:
        shutil.rmtree(folder)


async def test_debians_postgresql_sees_the_encryption_and_the_clients_certificate(
    debian: int, authority: Authority
) -> None:
    client = authority.sign("app")
    files = f"sslrootcert={authority.certificate}&sslcert={client.certificate}&sslkey={client.key}"
    engine = create_engine(f"postgresql+asyncpg://app@localhost:{debian}/postgres?sslmode=verify-full&{files}")
    try:
        async with engine.connect() as connection:
            assert (await connection.execute(ENCRYPTED)).one() == (True, "TLSv1.3", "/CN=app")
    finally:
        await engine.dispose()


async def test_debians_postgresql_is_not_reached_in_clear_nor_without_the_certificate(
    debian: int, authority: Authority
) -> None:
    for query in ("sslmode=disable", f"sslmode=verify-full&sslrootcert={authority.certificate}"):
        engine = create_engine(f"postgresql+asyncpg://app@localhost:{debian}/postgres?{query}")
        with pytest.raises(Exception, match=r"pg_hba\.conf|client certificate"):
            await engine.connect()
        await engine.dispose()


def test_a_client_key_behind_a_password_is_refused_and_not_asked_for(authority: Authority, tmp_path: Path) -> None:
    client, locked = authority.sign("locked"), tmp_path / "locked.key"
    hidden = ["-aes256", "-passout", "pass:zq91", "-out", str(locked)]
    openssl = str(program("openssl", "openssl"))
    subprocess.run([openssl, "ec", "-in", str(client.key), *hidden], check=True, capture_output=True)
    with pytest.raises(InvalidDatabaseUrl, match="sslcert and sslkey that cannot be used"):
        create_engine(f"postgresql+asyncpg://app@db.example/x?sslcert={client.certificate}&sslkey={locked}")


async def test_redis_behind_tls_must_prove_its_name_too(
    authority: Authority, tmp_path: Path, valkey: TestValkey
) -> None:
    behind = urlsplit(valkey.url)
    assert behind.port
    with stunnel(tmp_path, behind.port, authority.sign("server", "localhost"), protocol="tls") as port:
        for host, trusted, works in (("localhost", True, True), (LOOPBACK, True, False), ("localhost", False, False)):
            query = f"?ssl_ca_certs={authority.certificate}" if trusted else ""
            url = f"rediss://:{behind.password}@{host}:{port}{behind.path}{query}"
            broker = create_broker(BrokerSettings(url=SecretStr(url)))
            try:
                if works:
                    assert broker.client.ping()
                else:
                    with pytest.raises(RedisConnectionError, match="certificate verify failed"):
                        broker.client.ping()
            finally:
                broker.close()
