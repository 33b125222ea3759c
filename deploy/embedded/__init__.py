"""PostgreSQL with pgvector and Valkey from installed wheels, started by a launcher of our own.

Hands out `EmbeddedPostgres`, `EmbeddedValkey` and the `Child` both are described by.
"""

from deploy.embedded.child import Child
from deploy.embedded.errors import EmbeddedError
from deploy.embedded.postgres import EmbeddedPostgres, PostgresEndpoint
from deploy.embedded.valkey import EmbeddedValkey

__all__ = ["Child", "EmbeddedError", "EmbeddedPostgres", "EmbeddedValkey", "PostgresEndpoint"]
