"""Settings of workers, the Memory Gateway, enrichment and maintenance."""

from enum import StrEnum
from typing import Literal, Self

from afterturn_client.errors import InvalidRequestError
from afterturn_client.transport import check_base_url, check_way
from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from embeddings.endpoint import endpoint_url
from embeddings.settings_section import SettingsSection
from store.ledger.stages import Stage
from store.tenancy.sealing import Sealer

#: The path at which an OpenAI-compatible service answers a prompt.
RESPONSES_PATH = "/v1/responses"


class GatewayMode(StrEnum):
    """Whether turns of the settings' host are also handed to a Memory Gateway."""

    OFF = "off"
    #: To this service's own /memories/add and /memories/flush.
    SELF = "self"
    #: To another service's, at `base_url`.
    URL = "url"


class GatewayRetry(StrEnum):
    """Which failed calls to a gateway may be repeated."""

    #: Only calls that are known not to have been processed.
    UNSENT = "unsent"
    NEVER = "never"


def sealing_keys(keys: SecretStr) -> list[str]:
    """Return the keys a setting lists."""
    return [key.strip() for key in keys.get_secret_value().split(",") if key.strip()]


Scope = Literal["current_chat", "resources", "all_user_memory"]


class ServiceSettings(SettingsSection):
    """An external service. A boolean is no number here, though Python counts it as one."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and field.annotation in {int, float}:
            raise ValueError("must be a number")
        return value


class DeliverySettings(ServiceSettings):
    """The Memory Gateway of one tenant, and how all gateways are called.

    Other tenants, and single banks, have gateway targets of their own: `afterturn gateway set`.
    """

    mode: GatewayMode = Field(
        default=GatewayMode.OFF,
        description="delivery of turns of the tenant gateway.host: off, self (to this service's own /memories/add) "
        "or url (to gateway.base_url)",
    )
    host: str = Field(
        default="default",
        min_length=1,
        max_length=256,
        description="tenant whose turns go to the gateway of these settings; other tenants get targets with "
        "`afterturn gateway set`",
    )
    base_url: str = Field(
        default="",
        description="base URL of the gateway, to which /memories/add is appended; needed with gateway.mode url",
    )
    allow_http: bool = Field(
        default=False,
        description="allow plain http in `base_url` to another machine; turns and key can then be read on the way; set "
        "it only on a private network",
    )
    user_id: str = Field(default="", description="user id sent to the gateway; needed with gateway.mode url")
    user_key: SecretStr = Field(
        default=SecretStr(""), description="key of that user, sent to the gateway; needed with gateway.mode url"
    )
    sealing_keys: SecretStr = Field(
        default=SecretStr(""),
        description="keys that encrypt what `afterturn gateway set` is given: 32 bytes in URL-safe base64 each, "
        "separated by commas; the first encrypts, every one decrypts; to rotate, put a new key first and "
        "run `afterturn gateway reseal`",
    )
    app_id: str = Field(
        default="default",
        pattern=r"\S",
        max_length=128,
        description="app_id sent to the gateway; set it where the gateway tells applications apart",
    )
    project_id: str = Field(
        default="default",
        pattern=r"\S",
        max_length=128,
        description="project_id sent to the gateway; set it where the gateway tells projects apart",
    )
    timeout_seconds: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="time-out of one call, in seconds; the outcome of a call that exceeds it is unknown: raise it "
        "for a slow gateway",
    )
    keep_seconds: float = Field(
        default=1.0,
        ge=0,
        le=60,
        description="seconds an idle connection is kept for the next call; keep it below what the gateway allows; 0 "
        "opens one for each call, for gateways that end connections unannounced",
    )
    at_once: int = Field(
        default=24,
        ge=1,
        le=256,
        description="turns that one worker delivers at a time; a killed worker leaves at most as many with unknown "
        "outcome; raise it for a gateway that takes long to answer",
    )
    stop_seconds: float = Field(
        default=8.0,
        ge=0,
        le=600,
        description="seconds that a call in progress may still take when its worker stops; raise it for a slow "
        "gateway, and the supervisor's own limit with it",
    )
    retry: GatewayRetry = Field(
        default=GatewayRetry.UNSENT,
        description="failed calls that are repeated: `unsent` (only those that were certainly not processed) or "
        "`never`; set never where an operator must see each failure",
    )
    breaker_failures: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="failures in a row that open a target's circuit breaker; raise it for a gateway with frequent "
        "single failures",
    )
    breaker_seconds: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="seconds until an open circuit breaker lets a call through again; raise it for a gateway that "
        "recovers slowly",
    )
    turns_per_second: float = Field(
        default=0.0,
        ge=0,
        le=100_000,
        description="rate limit of one gateway target, in turns a second; 0 is no limit; set it where the gateway "
        "answers 429",
    )
    scope: tuple[Scope, ...] = Field(
        default=("current_chat", "resources"),
        min_length=1,
        description="scopes that a recall at the gateway searches: current_chat, resources, all_user_memory; add "
        "all_user_memory to find other sessions",
    )
    recall_seconds: float = Field(
        default=2.0,
        gt=0,
        le=60,
        description="time-out of the gateway in a recall, in seconds, after which the answer goes without it; lower "
        "it where recall must be quick",
    )

    @field_validator("scope")
    @classmethod
    def _each_scope_once(cls, scope: tuple[Scope, ...]) -> tuple[Scope, ...]:
        return tuple(dict.fromkeys(scope))

    @field_validator("sealing_keys")
    @classmethod
    def _keys_that_seal(cls, keys: SecretStr) -> SecretStr:
        Sealer(sealing_keys(keys))
        return keys

    @model_validator(mode="after")
    def _url_needs_an_address_and_credentials(self) -> Self:
        given = {
            "base_url": self.base_url,
            "user_id": self.user_id,
            "user_key": self.user_key.get_secret_value(),
        }
        missing = [name for name, value in given.items() if not value.strip()]
        if self.mode is GatewayMode.URL and missing:
            raise ValueError(f"mode url needs base_url, user_id and user_key; missing: {', '.join(missing)}")
        if self.mode is GatewayMode.URL:
            try:
                check_way(check_base_url(self.base_url), allow_http=self.allow_http)
            except InvalidRequestError as error:
                raise ValueError(str(error)) from None
        return self


class EnrichmentSettings(ServiceSettings):
    """A model that reads turns beside the rules, behind an OpenAI-compatible endpoint; off by default."""

    enabled: bool = Field(
        default=False,
        description="extract facts with a language model in addition to the rules; turn it on where the rules find "
        "too little and calls may be paid for",
    )
    base_url: str = Field(
        default="",
        description="base URL of an OpenAI-compatible service, to which /v1/responses is appended where it is "
        "missing; needed when enabled",
    )
    allow_http: bool = Field(
        default=False, description="allow plain http to another machine; only for a private network"
    )
    model: str = Field(
        default="openai/gpt-oss-120b",
        min_length=1,
        max_length=256,
        description="name of the model at that service; change it to one that the service has",
    )
    api_key: SecretStr = Field(
        default=SecretStr(""), description="API key of that service, sent as a bearer token; empty sends none"
    )
    timeout_seconds: float = Field(
        default=12.0, gt=0, le=600, description="time-out of one call, in seconds; raise it for a slow model"
    )
    max_output_tokens: int = Field(
        default=800,
        ge=16,
        le=65_536,
        description="most tokens of one answer; raise it where answers about long turns are cut off",
    )
    max_input_characters: int = Field(
        default=32_768,
        ge=256,
        le=1_048_576,
        description="most characters of a turn that are sent; lower it for a model with a small context",
    )
    max_known_facts: int = Field(
        default=40,
        ge=0,
        le=200,
        description="most facts of a turn's speakers that are sent with it, so that the model can name one that no "
        "longer holds; 0 sends none; lower it for a model with a small context",
    )
    turns_per_second: float = Field(
        default=0.0,
        ge=0,
        le=10_000,
        description="rate limit of the model, in turns a second; 0 is no limit; set it to bound costs or to keep "
        "within the service's limit",
    )

    @property
    def url(self) -> str:
        """The whole address. Raises ValueError."""
        return endpoint_url(self.base_url, RESPONSES_PATH, allow_http=self.allow_http)

    @model_validator(mode="after")
    def _a_model_needs_an_address(self) -> Self:
        if self.enabled:
            try:
                _ = self.url
            except ValueError as error:
                raise ValueError(f"base_url {error}") from None
        return self


class WorkerSettings(SettingsSection):
    """How workers claim work and how long they hold on to it."""

    stages: tuple[Stage | Literal["recall"], ...] = Field(
        default=(*Stage, "recall"),
        min_length=1,
        description="stages that a worker processes (`recall` answers recall jobs); name fewer to give a stage "
        "processes of its own",
    )
    threads: int = Field(
        default=4,
        ge=1,
        le=64,
        description="threads of one process that answer recall jobs; raise it where recall jobs wait and processors "
        "are idle",
    )
    nice: int = Field(
        default=15,
        ge=0,
        le=19,
        description="process priority of workers (nice level, 0 to 19); PostgreSQL's processes that serve them get "
        "half of it; set 0 on machines for workers alone",
    )
    lease_seconds: float = Field(
        default=30.0,
        ge=1,
        le=3600,
        description="seconds that a claim's lease lasts without a heartbeat; lower it to have a dead worker's work "
        "taken over sooner, raise it for machines that stall",
    )
    max_attempts: int = Field(
        default=5,
        ge=1,
        le=100,
        description="attempts of a row before it goes to quarantine (dead letters); raise it where external services "
        "fail often",
    )
    sweep_seconds: float = Field(
        default=2.0,
        ge=0.1,
        le=300,
        description="mean seconds between two sweeps of the ledger for work that notifications missed; raise it to "
        "spare the database of many workers",
    )
    metrics_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="address on which `afterturn worker` serves metrics and health; set 0.0.0.0 for a scraper on "
        "another machine",
    )
    metrics_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="port on which `afterturn worker` serves /metrics, /health/live and /health/ready; 0: none; of "
        "workers that share the folder `data`, one answers for all, and another takes over when it stops: set it to "
        "scrape and probe workers",
    )


class MaintenanceSettings(SettingsSection):
    """Retention: after how many days what is pruned; `null` keeps it for ever."""

    ledger_days: float | None = Field(
        default=7.0,
        gt=0,
        le=36_500,
        description="days after which ledger rows of done turns are pruned (status and counts stay); null keeps "
        "them; lower it to save disk",
    )
    audit_days: float | None = Field(
        default=90.0,
        gt=0,
        le=36_500,
        description="days after which the audit of gateway deliveries is pruned; null keeps it; set it to what your "
        "rules on records ask",
    )
    calls_days: float | None = Field(
        default=90.0,
        gt=0,
        le=36_500,
        description="days after which the call audit is pruned; null keeps it; set it to what your rules on records "
        "ask",
    )
    said_days: float | None = Field(
        default=None,
        gt=0,
        le=36_500,
        description="days after which turns and their facts are erased; null keeps them for ever; set it where "
        "memory must not be kept longer",
    )
    ended_days: float | None = Field(
        default=30.0,
        ge=0,
        le=36_500,
        description="days after `expires_at` of a turn, document, memory or bank until its text is erased; null "
        "keeps it; lower it where expired text must go soon",
    )
    sessions: Literal["periodic", "tool"] = Field(
        default="periodic",
        description="when long sessions are summarised beside the stage after a turn, and equal facts linked: "
        "`periodic` (every five minutes, in the background) or `tool` (by memory_run_maintenance alone); set tool "
        "where only some sessions shall be",
    )
