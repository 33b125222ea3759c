"""A backfill in a process of its own, which a test kills: URLs of the log's database and of the rows'."""

import asyncio
import sys
from datetime import UTC, datetime

from pydantic import SecretStr

from deploy.cli.plugin_environment import open_engine
from store.backfill.run import Backfill
from store.database import Database
from store.settings import DatabaseSettings
from tests.workers.conftest import HOST


async def main(app_url: str, operator_url: str, rows_url: str) -> None:
    """Apply a backfill in small pages."""
    database = Database(DatabaseSettings(url=SecretStr(app_url), operator_url=SecretStr(operator_url)))
    async with open_engine(rows_url) as engine:
        assert engine is not None
        await Backfill(database, engine, HOST, page=100).apply(datetime.now(UTC))
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
