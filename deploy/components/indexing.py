"""Work that needs the database's owner: builds indexes in `afterturn up` and in workers with its URL."""

import os
import socket
from typing import TYPE_CHECKING

from pydantic import SecretStr

from deploy.settings import Settings
from store.database import Database
from store.derived.vector_indexes import VectorIndexes
from store.maintenance import Schedule
from store.settings import DatabaseSettings
from workers.maintenance import Maintainer, index_task

if TYPE_CHECKING:
    from deploy.local.postgres import PostgresEndpoint

#: Pause between two checks, in seconds: a bank grows to need an index over days, and its build takes minutes.
CHECK_INTERVAL_S = 30.0


async def keep_indexed(settings: Settings, endpoint: "PostgresEndpoint") -> None:
    """Build vector indexes in the database of `afterturn up` for banks that have grown to need one, until cancelled."""
    own = DatabaseSettings(
        url=SecretStr(endpoint.app_url),
        operator_url=SecretStr(endpoint.operator_url),
        owner_url=SecretStr(endpoint.owner_url),
    )
    await index_as_owner(settings.model_copy(update={"database": own}), f"{socket.gethostname()}:{os.getpid()}:up")


async def index_as_owner(settings: Settings, name: str) -> None:
    """Build vector indexes for banks that have grown to need one, until cancelled; `name` is this process's.

    Only one process builds at a time. Returns at once when `database.owner_url` is not set.
    """
    owner_url = settings.database.owner_url.get_secret_value()
    if not owner_url:
        return
    own = settings.database.model_copy(update={"owner_url": SecretStr(""), "pool_size": 1})
    database, indexes = Database(own), VectorIndexes(owner_url, settings.recall.exact_units)
    try:
        await Maintainer(Schedule(database), [index_task(indexes)], name, every_s=CHECK_INTERVAL_S).run()
    finally:
        await indexes.close()
        await database.close()
