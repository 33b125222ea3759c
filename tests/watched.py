"""The store as tests use it: with a superuser's connection beside it, who sees and changes everything."""

from typing import Any

from sqlalchemy import Executable, text
from sqlalchemy.ext.asyncio import create_async_engine

from store.database import Database
from store.settings import DatabaseSettings

#: Tests rename and swap tables under this connection: nothing that was prepared before may be believed.
FORGETFUL = {"ssl": False, "statement_cache_size": 0, "prepared_statement_cache_size": 0}


class Watched(Database):
    """A store that is asked anything by `sql`; both are closed together."""

    def __init__(self, settings: DatabaseSettings, superuser_url: str) -> None:
        super().__init__(settings)
        self._superuser = create_async_engine(superuser_url, pool_size=1, connect_args=FORGETFUL)

    async def sql(self, statement: str | Executable, **arguments: Any) -> list[Any]:
        """Run one statement in a transaction of its own; return its rows, if it has any."""
        async with self._superuser.begin() as connection:
            asked = text(statement) if isinstance(statement, str) else statement
            found = await connection.execute(asked, arguments)
            return list(found.all()) if found.returns_rows else []

    async def close(self) -> None:
        await super().close()
        await self._superuser.dispose()
