"""A stack of the test's own servers with turns in every state an operator meets, and no API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import text

from deploy.bootstrap import HOST
from deploy.folder_lock import FolderLock
from store import identity
from store.database import Database
from store.keys import Keys
from store.ledger import Ledger, Outcome, Stage
from store.turns import NewMessage, NewTurn, TurnStore
from tests.deploy.test_cli_operator import Operated, stack
from tests.servers import TestPostgres, TestValkey

HOST_ID = identity.host_id(HOST)
LEASE = timedelta(seconds=30)
SECRET = "Grimpenmire"


def turn_id(session: str, turn: str, bank: str = "default") -> UUID:
    return identity.turn_id(identity.session_id(identity.bank_id(HOST_ID, bank), session), turn)


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

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Database]:
        database = self.database()
        try:
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def busy_stack(folder: Path, postgres: TestPostgres, valkey: TestValkey) -> AsyncIterator[Busy]:
    """Lend a stack with a host and nothing in it."""
    lock = _laid_out(folder, postgres, valkey)
    busy = Busy(folder, postgres)
    async with busy.opened() as database:
        await Keys(database).create(HOST, "test")
    yield busy
    lock.release()


def _laid_out(folder: Path, postgres: TestPostgres, valkey: TestValkey) -> FolderLock:
    folder.mkdir(mode=0o700)
    lock = FolderLock(folder)
    stack(folder, postgres, valkey.url).save(folder)
    return lock
