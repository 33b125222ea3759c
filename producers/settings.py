"""Settings of the HTTP interface, fair scheduling, load shedding and the broker."""

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from producers.mcp.settings import McpSettings
from store.text.redaction import Redaction


class BrokerSettings(BaseModel):
    """The Redis or Valkey that carries notifications; `redis://[user:password@]host:port/db`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: SecretStr = Field(
        default=SecretStr(""), description="URL of Redis or Valkey: redis://[user:password@]host:port/db"
    )
    namespace: str = Field(
        default="afterturn",
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description="prefix of every key; set it where several systems share one server",
    )

    @field_validator("url")
    @classmethod
    def _is_one_server(cls, url: SecretStr) -> SecretStr:
        scheme, _, rest = url.get_secret_value().partition("://")
        if "sentinel" in scheme or "cluster" in scheme or "," in rest.rpartition("@")[2]:
            flaw = (
                "names a Sentinel, a Cluster or several hosts, which is not supported: name one address that follows "
                "the primary, such as a provider's primary endpoint or a TCP proxy"
            )
            raise PydanticCustomError("broker_url", "{flaw}", {"flaw": flaw})
        return url


class QueueSettings(BaseModel):
    """Turn queues: what agents publish rather than call. Off while `tenants` is empty."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenants: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")], Annotated[str, Field(min_length=1)]] = (
        Field(
            default_factory=dict,
            description="the turn queues that workers read, each with the tenant whose it is, as "
            '{"acme": "acme-corp"}; empty: none. Guard each with an ACL: `afterturn queue acl`',
        )
    )
    url: SecretStr = Field(
        default=SecretStr(""),
        description="the Redis or Valkey of the turn queues, with an append-only file; empty: that of broker.url",
    )
    threads: int = Field(
        default=4, ge=1, le=64, description="messages of one queue that a worker process accepts at a time"
    )
    max_attempts: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="attempts at a message that fails otherwise than for an outage; then it is a dead letter",
    )
    keep_dead_content: bool = Field(
        default=False,
        description="keep the content of dead letters, so that they can be replayed; else their reason alone",
    )
    dead_days: float = Field(default=30.0, gt=0, le=36_500, description="days after which dead letters are pruned")
    takeover_seconds: float = Field(
        default=60.0, ge=1, le=3600, description="silence after which a consumer's messages are given to others"
    )


class ApiSettings(BaseModel):
    """The HTTP interface: where it listens, and what a request may take. Times are totals, not gaps between bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(default=8300, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    mcp: McpSettings = Field(default_factory=McpSettings)
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="names that a request's Host and Origin may have, without a port; a list. Left out: on this "
        "machine's own address its own names, so that no foreign name can be made to point here; elsewhere any",
    )
    redact: Redaction = Field(
        default=Redaction.KEYS,
        description="what is taken out of texts before they are stored: `keys`, the caller's own key and what has the "
        "form of a credential; `all`, long random base64 as well, where it is rarely meant; `off`, nothing",
    )
    max_messages: int = Field(default=1024, ge=1, le=1024, description="most messages of one turn")
    max_message_bytes: int = Field(
        default=262_144, ge=1024, le=16_777_216, description="most UTF-8 bytes of one message"
    )
    max_recall_jobs: int = Field(
        default=256,
        ge=1,
        le=100_000,
        description="recall jobs of one tenant that may wait for a worker; more are answered with 429. Raise it where "
        "a tenant asks for many recalls at a time and workers keep up",
    )
    max_request_bytes: int = Field(
        default=2_097_152,
        ge=4096,
        le=67_108_864,
        description="most bytes of one request's body; more is answered with 413",
    )
    max_head_bytes: int = Field(
        default=32_768,
        ge=8192,
        le=1_048_576,
        description="most bytes of a request's line and headers together; more is answered with 431",
    )
    head_seconds: float = Field(
        default=10.0,
        ge=0.1,
        le=60,
        description="seconds for a request's line and headers, and for which an idle connection is kept; a proxy in "
        "front must keep its idle connections for less",
    )
    body_seconds: float = Field(
        default=30.0,
        ge=0.1,
        le=3600,
        description="seconds for a request's body, and for the client to read a long answer; else 408",
    )
    min_body_bytes_per_second: int = Field(
        default=65_536,
        ge=1,
        le=1_000_000_000,
        description="slowest upload: this many bytes of a body extend its time limit by one second",
    )
    max_connections: int = Field(
        default=4096,
        ge=64,
        le=1_000_000,
        description="most open connections of one API process; further ones wait until one is closed",
    )
    max_unfinished_per_address: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="most unfinished requests of one client address; more are answered with 429",
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        default=(),
        description="networks of proxies whose X-Forwarded-For names the client's address; a list",
    )


class SearchMode(StrEnum):
    """In which order the memory plugin answers a search."""

    HYBRID = "hybrid"
    REFERENCE = "reference"


class PluginSettings(BaseModel):
    """The memory plugin (contract v1): where it listens and for whom, and how it searches and erases."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: str = Field(
        default="",
        description="where the plugin listens: HOST:PORT (port 0 picks a free one) or unix:/PATH; empty: nowhere. "
        "Any caller that reaches it may read and write: keep it on loopback or a private network",
    )
    tenant: str = Field(
        default="", max_length=256, description="the tenant whose memories it serves; `default` under `afterturn up`"
    )
    token: SecretStr = Field(
        default=SecretStr(""), description="bearer token that callers must send; empty: none is asked for"
    )
    erase_after: float = Field(
        default=0.0,
        ge=0,
        le=31_536_000,
        description="seconds after which the text of what was forgotten is erased; it is read no more at once",
    )
    search_mode: SearchMode = Field(
        default=SearchMode.HYBRID,
        description="hybrid: by words and meaning, pinned ones first; reference: as the contract's reference orders, "
        "by words alone, and pinned memories",
    )
    near: float = Field(
        default=0.4,
        ge=-1,
        le=1,
        description="least cosine of a memory that shares no word with a search's text; raise it where answers name "
        "what was not asked for",
    )


class FairnessSettings(BaseModel):
    """Fair scheduling between tenants: a turn is 2 units of work, a recall 4, each 16 KiB of a body 1 more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    units: int = Field(
        default=48, ge=8, le=4096, description="units of work in progress in one API process, over all tenants"
    )
    share: int = Field(
        default=4,
        ge=4,
        le=2048,
        description="units of the busiest tenant while another is active, at most half of all units; tenants that "
        "ask for less get twice as many",
    )
    wait_seconds: float = Field(
        default=5.0,
        ge=0.01,
        le=300,
        description="seconds a call over its tenant's share waits before it is answered with 429",
    )
    queue_calls: int = Field(
        default=256,
        ge=1,
        le=100_000,
        description="most waiting calls of one tenant; further ones are answered with 429 at once",
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
        default=True, description="let the API embed new turns itself while it has little else to do"
    )
    embedding_rows: int | None = Field(
        default=2_000, ge=1, description="undone rows of a tenant from which the API leaves embedding to the workers"
    )
    recall_job_rows: int | None = Field(
        default=200_000, ge=1, description="undone rows of a tenant from which its recall jobs are refused with 429"
    )
    recall_job_age_s: float | None = Field(
        default=900.0,
        gt=0,
        description="age in seconds of a tenant's oldest undone row from which its recall jobs are refused with 429",
    )
    batch_rows: int | None = Field(
        default=1_000_000,
        ge=1,
        description="undone rows of a tenant from which its batches of turns are refused with 429",
    )
    batch_age_s: float | None = Field(
        default=None,
        gt=0,
        description="age in seconds of a tenant's oldest undone row from which its batches are refused with 429",
    )
    retry_after_s: int = Field(default=5, ge=1, le=3600, description="Retry-After of refused requests, in seconds")
