"""Settings of MCP and the life cycle of turns.

The seed writes these under `settings.mcp`; here they are `api.mcp`, and a file may have either.
"""

from typing import Any, Literal, Self
from urllib.parse import urlsplit
from uuid import UUID

from afterturn_client.reference import FrameForm
from pydantic import Field, model_validator

from embeddings.loopback import is_loopback
from embeddings.settings_section import SettingsSection

ToolName = Literal[
    "memory_before_turn",
    "memory_after_turn",
    "memory_search",
    "memory_remember",
    "memory_forget",
    "memory_run_maintenance",
    "memory_list_dir_with_abstract",
    "memory_run_turn",
]
#: The accepted signature algorithms: with private keys only, never with a shared secret or without a key.
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # fmt: skip
_URL = r"^https?://[^\s?#]+$"
#: Whether likes and dislikes last or end with their tier.
Expiry = Literal["lasting", "contract"]
#: What happens to facts that a model says are to be deleted.
Deletions = Literal["show", "apply"]
#: Whether each of some tools is served.
Switches = dict[ToolName, bool]
#: The key of a JSON schema that says that a setting has no effect here, and why.
NO_EFFECT = "x-no-effect"


def _without_effect(default: Any, why: str, **rules: Any) -> Any:
    """Return a setting that is validated but has no effect, for this reason."""
    return Field(
        default=default, description=f"accepted, without effect: {why}", json_schema_extra={NO_EFFECT: why}, **rules
    )


class MemoryToolSettings(SettingsSection):
    """The memory tools as a whole."""

    enabled: bool = Field(
        default=True, description="serve the memory tools of MCP at /mcp; turn it off where no agent uses MCP"
    )


class ToolSettings(SettingsSection):
    """Which tools are served, to whom. A key's own switches go before its tenant's, these before `each`."""

    memory: MemoryToolSettings = Field(default_factory=MemoryToolSettings)
    each: Switches = Field(
        default_factory=dict,
        description='switches of single tools for all, as {"memory_forget": false}; a tool left out is served, '
        "except memory_run_turn",
    )
    tenants: dict[str, Switches] = Field(
        default_factory=dict,
        description="switches of single tools by tenant name, each as in `each`; they go before `each`",
    )
    keys: dict[UUID, Switches] = Field(
        default_factory=dict,
        description="switches of single tools by key id (`afterturn keys list`), each as in `each`; they go before "
        "those of the tenant",
    )


class HeuristicSettings(SettingsSection):
    """The settings of the LLM that reads turns under the seed's names; each is one value with `enrichment.*`."""

    enabled: bool = Field(default=False, description="as enrichment.enabled, under the seed's name")
    model: str = Field(
        default="openai/gpt-oss-120b",
        min_length=1,
        max_length=256,
        description="as enrichment.model, under the seed's name",
    )
    base_url: str = Field(
        default="",
        pattern=r"^$|^https?://[^/?#\s]+[^?#\s]*$",
        description="as enrichment.base_url, under the seed's name: an absolute URL, needed when enabled",
    )
    timeout_ms: int = Field(
        default=12_000,
        ge=1,
        le=600_000,
        description="as enrichment.timeout_seconds, in milliseconds, under the seed's name",
    )
    max_output_tokens: int = Field(
        default=800, ge=16, le=65_536, description="as enrichment.max_output_tokens, under the seed's name"
    )


class BankMemorySettings(SettingsSection):
    """What one bank has of its own; a setting left out is the tenant's, or that of all."""

    recent_context_items: int | None = Field(default=None, ge=0, le=128, description="as for all, for this one")
    recall_facts_limit: int | None = Field(default=None, ge=0, le=200, description="as for all, for this one")
    insight_recall_limit: int | None = Field(default=None, ge=0, le=50, description="as for all, for this one")
    search_limit: int | None = Field(default=None, ge=0, le=20, description="as for all, for this one")
    l1_retention_days: int | None = Field(default=None, ge=0, le=36_500, description="as for all, for this one")
    l2_retention_days: int | None = Field(default=None, ge=0, le=36_500, description="as for all, for this one")
    expiry: Expiry | None = Field(default=None, description="as tiers.expiry, for this one")
    model_reads: bool | None = Field(default=None, description="as for all, for this one")
    model_deletions: Deletions | None = Field(default=None, description="as for all, for this one")


class TenantMemorySettings(BankMemorySettings):
    """What one tenant has of its own, and those of its banks that have."""

    banks: dict[str, BankMemorySettings] = Field(
        default_factory=dict, description="settings of single banks (projects) by name; they go before the tenant's"
    )


class TierSettings(SettingsSection):
    """Which facts pass."""

    expiry: Expiry = Field(
        default="lasting",
        description="whether likes and dislikes, which are of tier L2, hold until they are superseded (`lasting`) or "
        "end after l2_retention_days like other facts of their tier (`contract`); set contract for an agent that "
        "counts on the turn tools' contract to the letter",
    )


class TurnMemorySettings(SettingsSection):
    """What a prepared turn holds, by the seed's names."""

    reference: FrameForm = Field(
        default="lines",
        description="form in which memory_before_turn gives what it recalls: `lines` for a reader, or `json` with all "
        "fields, at about twice the tokens; change it for an agent that parses it",
    )
    scope: Literal["project", "session"] = Field(
        default="project",
        description="what a prepared turn draws on where the call does not say: `project` (the whole bank) or "
        "`session` (the turn's own session); set session where sessions must not mix",
    )
    recent_context_items: int = Field(
        default=30,
        ge=0,
        le=128,
        description="most of the session's newest items in a prepared turn; lower it where the agent keeps the "
        "history itself",
    )
    recall_facts_limit: int = Field(
        default=20, ge=0, le=200, description="most facts in a prepared turn; lower it to save tokens"
    )
    insight_recall_limit: int = Field(
        default=5, ge=0, le=50, description="most reflections (insights) in a prepared turn; lower it to save tokens"
    )
    search_limit: int = Field(
        default=5,
        ge=0,
        le=20,
        description="most recalled texts in a prepared turn; raise it where answers lack what was said earlier",
    )
    compact_threshold: float = Field(
        default=0.8,
        gt=0,
        lt=1,
        description="share of 120,000 tokens that the messages of a session may take before the older ones are "
        "summarised after the next turn; lower it for agents with a smaller context",
    )
    l1_retention_days: int = Field(
        default=1,
        ge=0,
        le=36_500,
        description="days that facts of tier L1 (for a day) hold, from the beginning of the day in UTC on which they "
        "were said; 0: they do not end; raise it where tasks outlast their day",
    )
    l2_retention_days: int = Field(
        default=7,
        ge=0,
        le=36_500,
        description="days that facts of tier L2 (for a week) hold, from the beginning of the day in UTC on which they "
        "were said; 0: they do not end; raise it where such facts should be kept longer",
    )
    tiers: TierSettings = Field(default_factory=TierSettings)
    model_reads: bool = Field(
        default=True,
        description="whether the model of `enrichment`, where one is configured, gets the turns of a bank, for facts "
        "and for summaries; set it false for tenants or banks whose texts no model may read",
    )
    model_deletions: Deletions = Field(
        default="show",
        description="treatment of facts that this model proposes to delete: `show` (they hold; profile and unit show "
        "the proposal) or `apply` (they end as if denied, until the message is erased); set apply where you trust the "
        "model",
    )
    tenants: dict[str, TenantMemorySettings] = Field(
        default_factory=dict,
        description='limits and retention of single tenants by name, as {"acme": {"l1_retention_days": 3, "banks": '
        '{"support": {"search_limit": 10}}}}; they go before those of all',
    )
    compaction_min_age_hours: int = _without_effect(24, "there are no shards to archive", ge=0, le=876_000)
    summary_refresh_interval_minutes: int = _without_effect(60, "abstracts follow each turn", ge=0, le=525_600)
    max_processed_turns: int = _without_effect(
        1024, "a repeated turn is recognised however old it is", ge=1, le=1_000_000_000
    )
    heuristic: HeuristicSettings = Field(default_factory=HeuristicSettings)

    @model_validator(mode="after")
    def _tells_something(self) -> Self:
        if not (self.recent_context_items or self.recall_facts_limit or self.search_limit):
            raise ValueError("one of recent_context_items, recall_facts_limit and search_limit must be more than 0")
        return self


class IssuerSettings(SettingsSection):
    """Who else's tokens (JWTs) open the API: a token's `sub` is the user, its tenant is set here and by no claim."""

    issuer: str = Field(pattern=_URL, max_length=2048, description="`iss` of its tokens, exactly; a URL")
    tenant: str = Field(min_length=1, max_length=256, description="name of the tenant (host) that its users belong to")
    audience: str = Field(
        default="",
        max_length=2048,
        description="`aud` that its tokens must have; empty: api.mcp.resource; set it where the issuer writes another",
    )
    jwks: str = Field(
        min_length=1,
        max_length=2048,
        description="its public keys (JWKS): an https URL, an http URL of this machine, or the path of a file; "
        "read again when a new key is used",
    )
    algorithms: tuple[Algorithm, ...] = Field(
        default=("RS256", "ES256"),
        min_length=1,
        description="list of signature algorithms that are accepted; change it to what the issuer uses",
    )
    scope_claim: str = Field(
        default="scope",
        min_length=1,
        description="claim that holds the scopes, as a text or a list; change it to what the issuer uses (`scp`, "
        "`permissions`)",
    )
    read_scope: str = Field(
        default="memory:read",
        min_length=1,
        description="scope that a token needs for any call; change it to what the issuer grants",
    )
    write_scope: str = Field(
        default="memory:write",
        min_length=1,
        description="scope that a token needs to write; change it to what the issuer grants",
    )
    user_prefix: str = Field(
        default="",
        max_length=64,
        description="what stands before a token's `sub` in the name of its user; set it where several issuers serve "
        "one tenant, to one of its own for each but one, so that their users are not taken for each other",
    )
    host: str = Field(
        default="",
        max_length=256,
        description="value that the claim `host` of its tokens must have; empty: not compared, and tokens of services "
        "are refused; set it where a platform serves several hosts",
    )
    services: tuple[str, ...] = Field(
        default=(),
        description="list of services (claim `sid`) whose tokens are accepted, each for the agent that `agent_claim` "
        "names; set it where agents use client credentials",
    )
    agent_claim: str = Field(
        default="agentDefId",
        min_length=1,
        description="claim that names the agent of a token; change it to what the issuer uses",
    )
    leeway_seconds: float = Field(
        default=30.0,
        ge=0,
        le=300,
        description="most seconds by which the issuer's clock may differ; raise it where valid tokens are refused as "
        "expired",
    )

    @model_validator(mode="after")
    def _keys_come_unchanged(self) -> Self:
        parts = urlsplit(self.jwks)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError(
                "jwks must be an https URL, one of this machine, or a file: who can change it on its way makes tokens"
            )
        return self


class McpSettings(SettingsSection):
    """The MCP interface."""

    tools: ToolSettings = Field(default_factory=ToolSettings)
    memory: TurnMemorySettings = Field(default_factory=TurnMemorySettings)
    resource: str = Field(
        default="",
        pattern=rf"^$|{_URL}",
        max_length=2048,
        description="URL at which clients reach /mcp, as https://memory.example/mcp; set it with api.mcp.issuers, "
        "which need it",
    )
    issuers: tuple[IssuerSettings, ...] = Field(
        default=(),
        description="list of issuers whose tokens (JWTs) open the HTTP API and /mcp beside keys, each with `issuer`, "
        "`tenant` and `jwks`; set it where users log in at an identity provider, or agents have tokens of their own",
    )

    @model_validator(mode="after")
    def _issuers_have_a_place(self) -> Self:
        if self.issuers and not self.resource:
            raise ValueError("issuers need api.mcp.resource: the URL at which clients reach /mcp")
        if len({one.issuer for one in self.issuers}) < len(self.issuers):
            raise ValueError("an issuer is named twice")
        if len({(one.tenant, one.user_prefix) for one in self.issuers}) < len(self.issuers):
            raise ValueError(
                "issuers of one tenant need a user_prefix each (but one): a `sub` of one is not the user of another"
            )
        return self
