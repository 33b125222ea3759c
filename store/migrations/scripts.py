"""Runs scripts of several statements, which a prepared statement cannot hold."""

from typing import Any

from sqlalchemy import Connection


def run_script(connection: Connection, sql: str) -> None:
    """Run every statement of `sql` in the connection's transaction."""
    adapter: Any = connection.connection.dbapi_connection
    adapter.run_async(lambda driver: driver.execute(sql))
