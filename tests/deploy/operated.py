"""A stack of the test's own servers with turns in every state an operator meets, and no API."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy import text
from typer.testing import CliRunner, Result

from deploy.cli.app import build_cli
from deploy.components.bootstrap import HOST
from deploy.local.folder_lock import FolderLock
from deploy.local.stack import Stack
from store import identity
from store.database import Database
from store.ledger.ledger import Ledger, Outcome
from store.ledger.stages import Stage
from store.memory.turns import NewMessage, NewTurn, TurnStore
from store.settings import DatabaseSettings
from store.tenancy.keys import Keys
from tests.client.loopback import closed_port
from tests.emptied import watch
from tests.servers import TestPostgres, TestValkey
from tests.workers.targets import SEALING, hand_to

HOST_ID = identity.host_id(HOST)
LEASE = timedelta(seconds=30)
SECRET = "Grimpenmire"


def turn_id(session: str, turn: str, bank: str = "default") -> UUID:
    return identity.turn_id(identity.session_id(identity.bank_id(HOST_ID, bank), session), turn)


class Operated:
    """A data folder whose stack is the test's own servers, without an API."""

    def __init__(self, folder: Path, postgres: TestPostgres) -> None:
        self.folder, self.postgres = folder, postgres

    def database(self) -> Database:
        app, operator = SecretStr(self.postgres.app_url), SecretStr(self.postgres.operator_url)
        return watch(DatabaseSettings(url=app, operator_url=operator, pool_size=1), self.postgres)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Database]:
        database = self.database()
        try:
            yield database
        finally:
            await database.close()

    async def run(self, *arguments: str, said: str | None = None) -> Result:
        """Run a command in a thread: it has an event loop of its own; `said` is its standard input."""
        command = [*arguments, "--data", str(self.folder)]
        return await asyncio.to_thread(CliRunner().invoke, build_cli(arguments[0]), command, said)

    async def answer(self, *arguments: str, said: str | None = None) -> dict[str, Any]:
        result = await self.run(*arguments, "--json", said=said)
        assert len(result.stdout.splitlines()) == 1, result.stderr
        return dict(json.loads(result.stdout))


def stack(folder: Path, postgres: TestPostgres, valkey_url: str) -> Stack:
    return Stack(
        pid=1,
        api=closed_port(),
        metrics="",
        docs="",
        api_key_file=folder / "api-key",
        database_url=SecretStr(postgres.app_url),
        operator_url=SecretStr(postgres.operator_url),
        owner_url=SecretStr(postgres.owner_url),
        redis_url=SecretStr(valkey_url),
        postgres_dir=folder / "pg",
        gateway_sealing_keys=SecretStr(SEALING),
    )


class Busy(Operated):
    """The stack, and what a test puts into its ledger."""

    async def append(self, *turns: tuple[str, str], bank: str = "default") -> None:
        """Accept turns (session, turn) with a distinctive text in each."""
        said = [NewMessage("user", f"We met in {SECRET}"), NewMessage("assistant", "I see")]
        new = [NewTurn(bank, session, turn, said, gateway=True) for session, turn in turns]
        async with self.opened() as database:
            await TurnStore(database, lambda: datetime.now(UTC)).append(HOST_ID, new)

    async def end(self, stage: Stage, status: str = "dead", category: str = "internal", reason: str = "Broken") -> None:
        """End what is ready in a stage, as its worker ends it."""
        async with self.opened() as database:
            ledger = Ledger(database)
            claims = await ledger.claim(stage, streams=64, rows=16, lease=LEASE, worker="w", max_attempts=5)
            for claim in claims:
                told = None if status == "done" else category, None if status == "done" else reason
                await ledger.end([claim], [Outcome(row.item_id, status, *told) for row in claim.rows])

    async def finish(self) -> None:
        """Have every stage do its work."""
        for stage in Stage:
            await self.end(stage, "done")

    async def tell(self, statement: str, **arguments: Any) -> list[Any]:
        """Ask the database, as the tenant."""
        async with self.opened() as database, database.tenant(HOST_ID) as connection:
            found = await connection.execute(text(statement), arguments)
            return list(found.all()) if found.returns_rows else []

    async def states(self, stage: Stage) -> list[str]:
        """How a stage's turns stand, in their order."""
        rows = await self.tell(
            "select status from afterturn.ledger_t where stage = :stage order by position", stage=stage.value
        )
        return [row.status for row in rows]


@contextmanager
def laid_out(folder: Path, postgres: TestPostgres, valkey_url: str) -> Iterator[None]:
    """Make a folder look as if a stack of these servers ran in it."""
    folder.mkdir(mode=0o700)
    lock = FolderLock(folder)
    stack(folder, postgres, valkey_url).save(folder)
    yield
    lock.release()


@asynccontextmanager
async def busy_stack(folder: Path, postgres: TestPostgres, valkey: TestValkey) -> AsyncIterator[Busy]:
    """Lend a stack with a host, whose turns go to a gateway, and nothing in it."""
    with laid_out(folder, postgres, valkey.url):
        busy = Busy(folder, postgres)
        async with busy.opened() as database:
            await Keys(database).create(HOST, "test")
            await hand_to(database, HOST_ID, closed_port())
        yield busy
