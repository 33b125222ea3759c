"""What can be chosen about the doors and the nudges."""

from ipaddress import IPv4Network, IPv6Network
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


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
    """The HTTP interface: where it listens, and what a request may take. Times are totals, not gaps between bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(default=8300, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    mcp: bool = Field(default=True, description="serve the memory tools of MCP at /mcp")
    max_messages: int = Field(default=1024, ge=1, le=1024, description="messages of one turn")
    max_message_bytes: int = Field(default=262_144, ge=1024, le=16_777_216, description="UTF-8 bytes of one message")
    max_recall_jobs: int = Field(
        default=256,
        ge=1,
        le=100_000,
        description="recall jobs of one tenant that may wait for a worker; more are answered with 429. Raise it where "
        "a tenant asks for many recalls at a time and workers keep up",
    )
    max_request_bytes: int = Field(default=2_097_152, ge=4096, le=67_108_864, description="bytes of one request's body")
    max_head_bytes: int = Field(
        default=32_768, ge=8192, le=1_048_576, description="bytes of a request's line and headers together; more is 431"
    )
    head_seconds: float = Field(
        default=10.0,
        ge=0.1,
        le=60,
        description="time for a request's line and headers, and the time an idle connection is kept; a proxy in front "
        "must keep its idle connections for less",
    )
    body_seconds: float = Field(
        default=30.0, ge=0.1, le=3600, description="time for a request's body, and for taking a long answer; else 408"
    )
    min_body_bytes_per_second: int = Field(
        default=65_536, ge=1, le=1_000_000_000, description="each so many bytes of it have a second more"
    )
    max_connections: int = Field(
        default=4096, ge=64, le=1_000_000, description="open connections; others wait until one is closed"
    )
    max_unfinished_per_address: int = Field(
        default=64, ge=1, le=1_000_000, description="requests of one address at a time; more are answered with 429"
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        default=(),
        description="networks of proxies whose X-Forwarded-For says which address a request is of; a list",
    )


class FairnessSettings(BaseModel):
    """Fair scheduling between tenants: a turn is 2 units of work, a recall 4, each 16 KiB of a body 1 more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    units: int = Field(
        default=48, ge=8, le=4096, description="units one API process works on at a time, of all tenants"
    )
    share: int = Field(
        default=4,
        ge=4,
        le=2048,
        description="units of a tenant that asks for more than the others, while another is active; at most half of "
        "all units; a tenant that asks for less has twice as many",
    )
    wait_seconds: float = Field(
        default=5.0, ge=0.01, le=300, description="how long a call over its tenant's share waits before it gets a 429"
    )
    queue_calls: int = Field(
        default=256, ge=1, le=100_000, description="calls of one tenant that may wait; further ones get a 429 at once"
    )

    @model_validator(mode="after")
    def _no_more_than_half(self) -> Self:
        if self.share > self.units // 2:
            raise ValueError(f"share must be at most half of units, {self.units // 2}")
        return self


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
