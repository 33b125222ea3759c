"""The store as tests use it: with a superuser's connection beside it, who sees and changes everything."""

from copy import copy
from typing import Any, Self

from sqlalchemy import Executable, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import QueuePool

from store.database import Database
from store.settings import DatabaseSettings

#: Tests rename and swap tables under this connection: nothing that was prepared before may be believed.
FORGETFUL = {"ssl": False, "statement_cache_size": 0, "prepared_statement_cache_size": 0}


class Watched(Database):
    """A store that is asked anything by `sql`; both are closed together."""

    #: Whether its sessions are another store's, and stay when it is closed.
    lent = False

    def __init__(self, settings: DatabaseSettings, superuser_url: str) -> None:
        super().__init__(settings)
        self._superuser = create_async_engine(superuser_url, pool_size=1, connect_args=FORGETFUL)

    async def sql(self, statement: str | Executable, **arguments: Any) -> list[Any]:
        """Run one statement in a transaction of its own; return its rows, if it has any."""
        async with self._superuser.begin() as connection:
            asked = text(statement) if isinstance(statement, str) else statement
            found = await connection.execute(asked, arguments)
            return list(found.all()) if found.returns_rows else []

    def lend(self) -> Self:
        """Return a store with the sessions of this one."""
        lent = copy(self)
        lent.lent = True
        return lent

    def pools(self) -> list[QueuePool]:
        """Return its pools of sessions."""
        engines = (self._app, self._operator, self._superuser)
        return [pool for engine in engines if isinstance(pool := engine.pool, QueuePool)]

    async def close(self) -> None:
        if self.lent:
            return
        await super().close()
        await self._superuser.dispose()
