"""Settings of the HTTP interface, fair scheduling, load shedding and the broker."""

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from embeddings.settings_section import SettingsSection
from producers.host_names import check_host_name
from producers.mcp.settings import McpSettings
from producers.redis_urls import check_redis_url
from store.text.redaction import Redaction


class BrokerSettings(SettingsSection):
    """The Redis or Valkey that carries notifications; `redis://[user:password@]host:port/db`."""

    url: SecretStr = Field(
        default=SecretStr(""),
        description="URL of the Redis or Valkey that carries notifications: redis://[user:password@]host:port/db; "
        "API and workers need it",
    )
    namespace: str = Field(
        default="afterturn",
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description="prefix of every key in Redis; set it where several systems share one server",
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
        return check_redis_url(url)


class QueueSettings(SettingsSection):
    """Turn queues: what agents publish rather than call. Off while `tenants` is empty."""

    tenants: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")], Annotated[str, Field(min_length=1)]] = (
        Field(
            default_factory=dict,
            description='turn queues that workers read, each with its tenant, as {"acme": "acme-corp"}; empty: none. '
            "Set it for agents that publish turns, and guard each queue with an ACL (`afterturn queue acl`)",
        )
    )
    private_banks: tuple[str, ...] = Field(
        default=(),
        description="list of the turn queues whose publishers may write to and ask of private banks, those of users "
        "and agents; others are refused. Set it where you trust all publishers of a queue as you trust a key without "
        "a user",
    )
    url: SecretStr = Field(
        default=SecretStr(""),
        description="URL of the Redis or Valkey of the turn queues, which needs an append-only file; empty: "
        "broker.url. Set it to keep publishers off the broker",
    )
    threads: int = Field(
        default=4,
        ge=1,
        le=64,
        description="messages of one queue that a worker process accepts at a time; raise it when a queue grows "
        "while workers and database are not busy",
    )
    max_attempts: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="attempts at a message before it is a dead letter; attempts during an outage do not count; lower "
        "it to see faulty messages sooner",
    )
    keep_dead_content: bool = Field(
        default=False,
        description="keep the content of dead letters in Redis, so that `afterturn queue replay` can repeat them; "
        "off keeps their reason alone; an erasure does not reach this content",
    )
    dead_days: float = Field(
        default=30.0,
        gt=0,
        le=36_500,
        description="days after which dead letters are pruned; raise it where they are looked at seldom",
    )
    takeover_seconds: float = Field(
        default=60.0,
        ge=1,
        le=3600,
        description="seconds without a heartbeat after which a consumer's messages go to others; raise it for "
        "machines that stall",
    )
    rewrite_file_seconds: int = Field(
        default=3600,
        ge=0,
        le=604_800,
        description="seconds between two rewrites of the server's append-only file (BGREWRITEAOF), after which no "
        "words of accepted messages are in it; 0: never. Set 0 where the server's operator rewrites it, or `queue.url` "
        "may not",
    )

    @field_validator("url")
    @classmethod
    def _usable(cls, url: SecretStr) -> SecretStr:
        return check_redis_url(url)

    @model_validator(mode="after")
    def _names_queues(self) -> Self:
        if unknown := set(self.private_banks) - set(self.tenants):
            names = ", ".join(sorted(unknown))
            raise PydanticCustomError(
                "private_banks", "private_banks names no queue of tenants: {names}", {"names": names}
            )
        return self


class ConsoleSettings(SettingsSection):
    """The console: pages in a browser, for people."""

    enabled: bool | None = Field(
        default=None,
        description="whether the API serves the console at /console; null: under `afterturn up` it does, elsewhere it "
        "does not. Turn it on behind TLS: beyond loopback a browser keeps a session over https alone",
    )


class ApiSettings(SettingsSection):
    """The HTTP interface: where it listens, and what a request may take. Times are totals, not gaps between bytes."""

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="address the API listens on; set 0.0.0.0 for other machines, behind a proxy with TLS",
    )
    port: int = Field(
        default=8300,
        ge=0,
        le=65535,
        description="port the API listens on; 0 picks a free one; change it where 8300 is taken",
    )
    mcp: McpSettings = Field(default_factory=McpSettings)
    console: ConsoleSettings = Field(default_factory=ConsoleSettings)
    allowed_hosts: tuple[Annotated[str, AfterValidator(check_host_name)], ...] = Field(
        default=(),
        description="list of names that a request's Host and Origin may have, each with any port, or `name:port` with "
        "this one; empty: on a loopback address its own names (against DNS rebinding), elsewhere any. Health and "
        "metrics answer by address, too. Set it where a proxy passes another name on",
    )
    redact: Redaction = Field(
        default=Redaction.KEYS,
        description="secrets replaced in texts before they are stored: `keys` (the caller's own key and what has the "
        "form of a credential), `all` (long random base64, too) or `off`; set all where texts hold "
        "unknown secrets, off where such texts must stay",
    )
    max_messages: int = Field(
        default=1024,
        ge=1,
        le=1024,
        description="most messages of one turn; more are refused with 422; lower it to bound the work of one call",
    )
    max_message_bytes: int = Field(
        default=262_144,
        ge=1024,
        le=16_777_216,
        description="most bytes (UTF-8) of one message; more are refused with 413; raise it for agents with long "
        "tool output, and max_request_bytes with it",
    )
    max_recall_jobs: int = Field(
        default=256,
        ge=1,
        le=100_000,
        description="most recall jobs of one tenant that wait for a worker; more are refused with 429; raise it "
        "where a tenant asks for many recalls at a time and workers keep up",
    )
    max_request_bytes: int = Field(
        default=2_097_152,
        ge=4096,
        le=67_108_864,
        description="most bytes of a request's body; more are refused with 413; raise it for large documents or "
        "batches",
    )
    max_head_bytes: int = Field(
        default=32_768,
        ge=8192,
        le=1_048_576,
        description="most bytes of a request's line and headers together; more are refused with 431; raise it where "
        "a proxy adds long headers",
    )
    head_seconds: float = Field(
        default=10.0,
        ge=0.1,
        le=60,
        description="seconds until a request's line and headers must be there, and for which an idle connection is "
        "kept; raise it above the time for which a proxy in front keeps its idle connections",
    )
    body_seconds: float = Field(
        default=30.0,
        ge=0.1,
        le=3600,
        description="seconds for a request's body, else 408, and for the client to read a long answer; raise it for "
        "clients on slow networks",
    )
    min_body_bytes_per_second: int = Field(
        default=65_536,
        ge=1,
        le=1_000_000_000,
        description="slowest upload: this many bytes of a body extend its time limit by one second; lower it for "
        "clients on slow networks",
    )
    max_connections: int = Field(
        default=4096,
        ge=64,
        le=1_000_000,
        description="most open connections of one API process; from three quarters on, those that have been silent "
        "longest are closed; raise it where very many agents keep connections open",
    )
    max_connections_per_address: int = Field(
        default=256,
        ge=1,
        le=1_000_000,
        description="most open connections of one client address; of more, those that have been silent longest are "
        "closed; raise it where many agents share one address",
    )
    max_unfinished_per_address: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="most unfinished requests of one client address; more are refused with 429; raise it where many "
        "agents share one address",
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        default=(),
        description="list of networks of proxies whose X-Forwarded-For is believed; set it behind a proxy, else all "
        "clients share the proxy's limits",
    )


class SearchMode(StrEnum):
    """In which order the memory plugin answers a search."""

    HYBRID = "hybrid"
    REFERENCE = "reference"


class PluginSettings(SettingsSection):
    """The memory plugin (contract v1): where it listens and for whom, and how it searches and erases."""

    listen: str = Field(
        default="",
        description="where the memory plugin listens: HOST:PORT (port 0 picks a free one) or unix:/PATH; empty: "
        "nowhere. Without plugin.token any caller that reaches it may read and write: keep it on "
        "loopback or a private network",
    )
    tenant: str = Field(
        default="",
        max_length=256,
        description="tenant whose memories the plugin serves; empty: `default` under `afterturn up`, else it must be "
        "set",
    )
    token: SecretStr = Field(
        default=SecretStr(""),
        description="bearer token that the plugin's callers must send; empty: none is asked for; set it where others "
        "can reach the address",
    )
    erase_after: float = Field(
        default=0.0,
        ge=0,
        le=31_536_000,
        description="seconds after which the text of a forgotten memory is erased (reads leave it out at once); 0 "
        "erases right away; raise it to leave the erasing to maintenance",
    )
    search_mode: SearchMode = Field(
        default=SearchMode.HYBRID,
        description="how the plugin searches: `hybrid` (words and meaning, pinned memories first) or `reference` "
        "(words alone, as the contract's reference implementation orders); set reference to compare with "
        "another plugin",
    )
    near: float = Field(
        default=0.4,
        ge=-1,
        le=1,
        description="least cosine of a memory that shares no word with a search's text; raise it where answers name "
        "what was not asked for",
    )


class FairnessSettings(SettingsSection):
    """Fair scheduling between tenants: a turn is 2 units of work, a recall or a batch 4, 16 KiB of a body 1 more."""

    units: int = Field(
        default=48,
        ge=8,
        le=4096,
        description="units of work (a turn is 2, a recall 4) in progress in one API process, over all tenants; raise "
        "it on machines with many cores",
    )
    share: int = Field(
        default=4,
        ge=4,
        le=2048,
        description="units of the busiest tenant while another is active, at most half of `units`; tenants that ask "
        "for less get three times as many; raise it where 429 meets tenants that the machine could serve",
    )
    wait_seconds: float = Field(
        default=5.0,
        ge=0.01,
        le=300,
        description="seconds that a call over its tenant's share waits before it is refused with 429; lower it for "
        "clients that give up sooner",
    )
    queue_calls: int = Field(
        default=256,
        ge=1,
        le=100_000,
        description="most waiting calls of one tenant; more are refused with 429 at once; raise it where a tenant "
        "sends bursts and its clients can wait",
    )

    @model_validator(mode="after")
    def _no_more_than_half(self) -> Self:
        if self.share > self.units // 2:
            raise ValueError(f"share must be at most half of units, {self.units // 2}")
        return self


class PressureSettings(SettingsSection):
    """Load shedding by a tenant's own backlog, in the order of the settings; a limit that is not set is none.

    Rows are the tenant's undone ledger rows (three a turn), ages those of the oldest; what waits for a gateway does not
    count.
    """

    embed_at_once: bool = Field(
        default=True,
        description="let the API embed new turns while it has little else to do; turn it off to keep the API's "
        "processors for calls",
    )
    embedding_rows: int | None = Field(
        default=2_000,
        ge=1,
        description="undone rows of a tenant from which the API leaves embedding to the workers; null: no limit; "
        "lower it where the API is short of processor time",
    )
    recall_job_rows: int | None = Field(
        default=200_000,
        ge=1,
        description="undone rows of a tenant from which its recall jobs are refused with 429; null: no limit; lower "
        "it where workers cannot catch up",
    )
    recall_job_age_s: float | None = Field(
        default=900.0,
        gt=0,
        description="age in seconds of a tenant's oldest undone row from which its recall jobs are refused with 429; "
        "null: no limit; raise it where late work is acceptable",
    )
    batch_rows: int | None = Field(
        default=1_000_000,
        ge=1,
        description="undone rows of a tenant from which its batches of turns are refused with 429; null: no limit; "
        "lower it to have imports wait sooner",
    )
    batch_age_s: float | None = Field(
        default=None,
        gt=0,
        description="age in seconds of a tenant's oldest undone row from which its batches of turns are refused with "
        "429; null: no limit; set it where imports must not delay other turns",
    )
    retry_after_s: int = Field(
        default=5,
        ge=1,
        le=3600,
        description="Retry-After in seconds of calls that are refused under load; raise it where clients come back "
        "too soon",
    )
