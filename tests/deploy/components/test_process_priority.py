"""Workers step back for whoever answers somebody, and the server's processes that work for them do, too."""

import os
import socket

from pydantic import SecretStr
from sqlalchemy import text

from deploy.components.process_setup import is_serving_backend, lower_backend_priority
from store.database import Database
from store.settings import DatabaseSettings
from tests.servers import TestPostgres

MINE = text("select pg_backend_pid(), inet_client_port()")


async def test_a_servers_process_steps_back_half_as_far_as_whom_it_works_for(fresh_database: TestPostgres) -> None:
    nice = os.getpriority(os.PRIO_PROCESS, 0) + 3
    settings = DatabaseSettings(
        url=SecretStr(fresh_database.app_url), operator_url=SecretStr(fresh_database.operator_url)
    )
    database, before = Database(settings, lower_backend_priority(2 * nice)), Database(settings)
    try:
        async with database.call() as behind, before.call() as beside:
            process, port = (await behind.execute(MINE)).one()
            other, others_port = (await beside.execute(MINE)).one()
            assert os.getpriority(os.PRIO_PROCESS, process) == nice
            assert os.getpriority(os.PRIO_PROCESS, other) < nice
            assert is_serving_backend(process, port)
            assert not is_serving_backend(process, others_port)
    finally:
        await database.close()
        await before.close()


def test_a_process_that_serves_somebody_else_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_serving_backend(os.getpid(), server.getsockname()[1])
    assert not is_serving_backend(os.getpid(), None)
