"""The servers of one pytest run: one PostgreSQL, one Valkey, a migrated template and its copies."""

import asyncio
import json
import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from uuid import uuid4

import psutil
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from deploy.local import EmbeddedPostgres, EmbeddedValkey
from deploy.local.cluster import ACCOUNT
from deploy.local.postgres import OWNER
from store import migrations

#: A run whose environment names servers under this (JSON, as `Servers.urls` tells them) starts none of its own.
#: Without a `template` among them it migrates one by its own code.
LENT = "AFTERTURN_TEST_SERVERS"
FOLDER_PREFIX = "afterturn-tests-"
#: A file system in memory. A database, 700 files, is made there in 20 ms, on a disk in 300: the run has a thousand.
MEMORY = Path("/dev/shm")
#: The bytes that must be free there, and of the machine's memory, for the run's databases to lie there.
ROOM = 6 * 2**30


@dataclass(frozen=True, slots=True)
class TestPostgres:
    """One database of the run's PostgreSQL; URLs are postgresql+asyncpg://."""

    __test__ = False

    database: str
    owner_url: str = field(repr=False)
    app_url: str = field(repr=False)
    operator_url: str = field(repr=False)
    superuser_url: str = field(repr=False)
    template: str = "afterturn"

    def named(self, database: str) -> "TestPostgres":
        """The same server, another database."""
        urls = {
            name: url.rpartition("/")[0] + "/" + database for name, url in asdict(self).items() if name.endswith("_url")
        }
        return replace(self, database=database, **urls)

    async def create(self, database: str, template: str = "", by: AsyncConnection | None = None) -> "TestPostgres":
        """Make a database from the migrated template, or from another; `by` an administrator at hand."""
        await self._execute(f"CREATE DATABASE {database} TEMPLATE {template or self.template} OWNER {OWNER}", by)
        return self.named(database)

    async def drop(self, by: AsyncConnection | None = None) -> None:
        """Drop this database, whoever is still connected."""
        await self._execute(f"DROP DATABASE {self.database} WITH (FORCE)", by)

    @asynccontextmanager
    async def administrator(self) -> AsyncIterator[AsyncConnection]:
        """Lend a connection that makes databases; a new one for each would cost as much as they do."""
        url = self.named("postgres").superuser_url
        engine = create_async_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        async with engine.connect() as connection:
            yield connection
        await engine.dispose()

    async def _execute(self, statement: str, by: AsyncConnection | None) -> None:
        async with nullcontext(by) if by else self.administrator() as connection:
            await connection.execute(text(statement))


@dataclass(frozen=True, slots=True)
class TestValkey:
    """One numbered database of the run's Valkey."""

    __test__ = False

    url: str = field(repr=False)


class Servers:
    """Starts both servers when first asked, stops and removes them at the end of the run; lent ones it leaves alone."""

    def __init__(self) -> None:
        self._folders: list[Path] = []
        self._postgres: EmbeddedPostgres | None = None
        self._valkey: EmbeddedValkey | None = None
        self._urls: dict[str, str] = json.loads(os.environ.get(LENT, "{}"))

    def urls(self) -> dict[str, str]:
        """Return what `connected` needs, as plain text for an xdist worker."""
        if not self._urls:
            self._urls = self._start()
        if "template" not in self._urls:
            self._urls["template"] = _make_template(connected(self._urls)[0])
        return self._urls

    def stop(self) -> None:
        """Stop both and leave nothing behind."""
        for server in (self._valkey, self._postgres):
            if server is not None:
                server.stop()
        if self._postgres is not None:
            self._postgres.cluster.remove()
        for folder in self._folders:
            shutil.rmtree(folder)

    def _start(self) -> dict[str, str]:
        _remove_folders_of_dead_runs()
        folder = self._make_folder()
        if _has_memory():
            _link_cluster(folder, self._make_folder(MEMORY))
        self._postgres = EmbeddedPostgres(folder, connections=400, durable=False)
        self._valkey = EmbeddedValkey(folder)
        self._postgres.start()
        self._valkey.start()
        endpoint = asdict(self._postgres.endpoint)
        names = ("owner_url", "app_url", "operator_url", "superuser_url")
        return {name: endpoint[name] for name in names} | {"valkey": self._valkey.url}

    def _make_folder(self, parent: Path | None = None) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", dir=parent))
        self._folders.append(folder)
        return folder


def connected(urls: dict[str, str], worker: int | None = None) -> tuple[TestPostgres, TestValkey]:
    """Return the handles a test process uses: the server's own database, and the Valkey number of an xdist worker."""
    postgres = TestPostgres(database="afterturn", **{name: url for name, url in urls.items() if name != "valkey"})
    valkey = urls["valkey"]
    return postgres, TestValkey(valkey if worker is None else f"{valkey.rpartition('/')[0]}/{worker}")


def _make_template(server: TestPostgres) -> str:
    """Copy the empty database, migrate the copy once for the whole run, and return its name."""
    template = asyncio.run(server.create(f"template_{uuid4().hex}"))
    migrations.upgrade_schema(template.owner_url)
    return template.database


def _has_memory() -> bool:
    return MEMORY.is_dir() and min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) > ROOM


def _link_cluster(data: Path, target: Path) -> None:
    """Have the cluster of a data folder lie in another folder, owned by the account that runs it."""
    cluster = target / "pg"
    cluster.mkdir(mode=0o700)
    if os.geteuid() == 0:
        account = pwd.getpwnam(ACCOUNT)
        target.chmod(0o711)
        os.chown(cluster, account.pw_uid, account.pw_gid)
    (data / "pg").symlink_to(cluster)


def _remove_folders_of_dead_runs() -> None:
    """Clear away what a run that was killed could not (its servers died with it)."""
    for folder in chain.from_iterable(at.glob(f"{FOLDER_PREFIX}*") for at in (Path(tempfile.gettempdir()), MEMORY)):
        pid = int(folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0])
        if not psutil.pid_exists(pid):
            if (folder / "pg").exists():
                EmbeddedPostgres(folder, durable=False).cluster.remove()
            shutil.rmtree(folder, ignore_errors=True)
