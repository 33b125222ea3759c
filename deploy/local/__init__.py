"""PostgreSQL with pgvector and Valkey from installed wheels, started by a launcher of our own.

Exports `EmbeddedPostgres`, `EmbeddedValkey`, and `Child`, the description of a process that both return.
"""

from deploy.local.child import Child
from deploy.local.errors import EmbeddedError
from deploy.local.postgres import EmbeddedPostgres, PostgresEndpoint
from deploy.local.valkey import EmbeddedValkey

__all__ = ["Child", "EmbeddedError", "EmbeddedPostgres", "EmbeddedValkey", "PostgresEndpoint"]
