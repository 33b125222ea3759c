"""Settings of the store."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class DatabaseSettings(BaseModel):
    """Where PostgreSQL is, once for each role; `postgresql+asyncpg://user:password@host:port/name`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: SecretStr = Field(SecretStr(""), description="as afterturn_app: behind the tenants' wall")
    operator_url: SecretStr = Field(SecretStr(""), description="as afterturn_operator: ledger and keys, no content")
    owner_url: SecretStr = Field(SecretStr(""), description="as the owner: migrations only")
    pool_size: int = Field(
        8, ge=1, le=200, strict=True, description="connections one process has, and twice as many at most"
    )
