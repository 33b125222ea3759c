"""What only the database's owner may do, done by `afterturn up` itself: workers are not told who that is."""

import os
import socket

from pydantic import SecretStr

from deploy.local.postgres import PostgresEndpoint
from deploy.settings import Settings
from store.database import Database
from store.derived.vector_indexes import VectorIndexes
from store.maintenance import Schedule
from store.settings import DatabaseSettings
from workers.maintenance import Maintainer, index_task

#: An index is a matter of minutes, and a bank grows to need one over days.
CHECK_INTERVAL_S = 30.0


async def keep_indexed(settings: Settings, endpoint: PostgresEndpoint) -> None:
    """Build indexes over vectors where a bank has grown to need one, until cancelled."""
    own = DatabaseSettings(
        url=SecretStr(endpoint.app_url),
        operator_url=SecretStr(endpoint.operator_url),
        owner_url=SecretStr(""),
        pool_size=1,
    )
    database, indexes = Database(own), VectorIndexes(endpoint.owner_url, settings.recall.exact_units)
    name = f"{socket.gethostname()}:{os.getpid()}:up"
    try:
        await Maintainer(Schedule(database), [index_task(indexes)], name, every_s=CHECK_INTERVAL_S).run()
    finally:
        await indexes.close()
        await database.close()
