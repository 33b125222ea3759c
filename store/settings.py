"""Settings of the store."""

from pydantic import Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError

from embeddings.settings_section import SettingsSection
from store.connections import check_url
from store.errors import InvalidDatabaseUrl


class DatabaseSettings(SettingsSection):
    """URLs of PostgreSQL, one for each role: `postgresql+asyncpg://user:password@host:port/name?sslmode=MODE`.

    `sslmode` (or `ssl`) is disable, allow, prefer, require, verify-ca or verify-full; left out, it is `disable` on this
    machine and `verify-full` to any other. `sslrootcert` names the file of the trusted authorities (default: those of
    the operating system), `sslcert` and `sslkey` those of a client certificate.
    """

    url: SecretStr = Field(
        SecretStr(""),
        description="URL of the role afterturn_app, which row-level security confines to one tenant at a time; API "
        "and workers need it",
    )
    operator_url: SecretStr = Field(
        SecretStr(""),
        description="URL of the role afterturn_operator, which reads the ledger and keys and no content; API and "
        "workers need it",
    )
    owner_url: SecretStr = Field(
        SecretStr(""),
        description="URL of the schema's owner, for `afterturn db` and migrations; give it to a worker to have it "
        "index the vectors of large banks; API and other workers do without",
    )
    replica_url: SecretStr = Field(
        SecretStr(""),
        description="URL of a streaming replica as afterturn_app, for recalls that send `min_position`; a replica "
        "that is behind is waited for as long as the call allows, then the primary answers; empty: none. "
        "Set it to take recalls off the primary",
    )
    transaction_pooling: bool = Field(
        default=False,
        description="true where a pooler in transaction mode (PgBouncer) stands before url, operator_url and "
        "replica_url: no prepared statements are used, and session defaults come from the roles "
        "(`afterturn db init` sets them)",
    )
    pool_size: int = Field(
        8,
        ge=1,
        le=200,
        strict=True,
        description="connections in one process's pool, which may grow to twice as many; raise it, and the server's "
        "max_connections, when calls wait for a connection while PostgreSQL is not slow",
    )

    @field_validator("url", "operator_url", "owner_url", "replica_url")
    @classmethod
    def _usable(cls, url: SecretStr) -> SecretStr:
        try:
            if url.get_secret_value():
                check_url(url.get_secret_value())
        except InvalidDatabaseUrl as error:
            raise PydanticCustomError("database_url", "{flaw}", {"flaw": str(error)}) from None
        return url

    def for_replica(self) -> "DatabaseSettings | None":
        """Return the settings for the replica, None where there is none; the operator's role is not used there."""
        return self.model_copy(update={"url": self.replica_url}) if self.replica_url.get_secret_value() else None
