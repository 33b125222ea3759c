"""What can be chosen about the doors and the nudges."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class BrokerSettings(BaseModel):
    """The Redis or Valkey that says when; `redis://[user:password@]host:port/db`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: SecretStr = Field(default=SecretStr(""), description="where Redis or Valkey is")
    namespace: str = Field(
        default="afterturn",
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description="first part of every key, so that several systems can share one server",
    )


class ApiSettings(BaseModel):
    """The HTTP door: where it listens and what it takes at most."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(default=8300, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    max_messages: int = Field(default=64, ge=1, le=1024, description="messages of one turn")
    max_message_bytes: int = Field(default=262_144, ge=1024, le=16_777_216, description="UTF-8 bytes of one message")
    max_request_bytes: int = Field(default=2_097_152, ge=4096, le=67_108_864, description="bytes of one request's body")


class PressureSettings(BaseModel):
    """Load shedding by a tenant's own backlog, in the order of the settings; a limit that is not set is none.

    Rows are the tenant's undone ledger rows (three a turn), ages those of the oldest; what waits for a gateway does not
    count.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    embed_at_once: bool = Field(
        default=True, description="the API embeds what it just accepted while it has little else to do"
    )
    embedding_rows: int | None = Field(
        default=2_000, ge=1, description="from here on the API leaves the tenant's new vectors to the workers"
    )
    recall_job_rows: int | None = Field(
        default=200_000, ge=1, description="from here on the tenant's recall jobs are refused"
    )
    recall_job_age_s: float | None = Field(
        default=900.0, gt=0, description="from this age on the tenant's recall jobs are refused"
    )
    batch_rows: int | None = Field(
        default=1_000_000, ge=1, description="from here on the tenant's batches of turns are refused"
    )
    batch_age_s: float | None = Field(
        default=None, gt=0, description="from this age on the tenant's batches are refused"
    )
    retry_after_s: int = Field(
        default=5, ge=1, le=3600, description="seconds until a refused request may be repeated (Retry-After)"
    )
