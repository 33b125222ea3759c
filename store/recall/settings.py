"""Settings of recall. The weights of the ranking are constants beside the arms and rules that they belong to."""

from pathlib import Path

from pydantic import Field

from embeddings.settings_section import SettingsSection


class RerankSettings(SettingsSection):
    """Limits of reranking by a cross-encoder, if one is set (`embedding.reranker`)."""

    candidates: int = Field(
        default=30,
        ge=2,
        le=200,
        description="first units of the ranking that the cross-encoder reads; raise it for better order at more time "
        "(only with embedding.reranker.model)",
    )
    deadline_ms: float = Field(
        default=250.0,
        gt=0,
        le=60_000,
        description="time limit in milliseconds of reranking; when it is exceeded, the order stays; raise it for a "
        "slow model",
    )
    weight: float = Field(
        default=1.0,
        ge=0,
        le=100,
        description="weight of the cross-encoder's score (0 to 1), added to the score of the ranking; raise it for a "
        "model that you trust more than the ranking",
    )


class EvidenceSettings(SettingsSection):
    """Thresholds below which an answer is flagged as without evidence; the flags leave no unit out."""

    floor: float = Field(
        default=0.63,
        ge=0,
        le=10,
        description="score of what a unit says itself, without session and recency, below which an answer is flagged "
        "off topic; raise it where off-topic questions are not flagged, lower it where good answers are",
    )
    agent_floor: float = Field(
        default=0.28,
        ge=0,
        le=10,
        description="floor in banks where an agent speaks or no speaker has a name; change it as floor",
    )
    margin: float = Field(
        default=0.05,
        ge=-10,
        le=10,
        description="if the question names one speaker: how much that speaker's best score must exceed the best of "
        "all others, else the answer is flagged as about another; lower it where good answers are "
        "flagged",
    )


class RecallSettings(SettingsSection):
    """Limits and budgets of recall; times in milliseconds."""

    fresh_tail_chunks: int = Field(
        default=64,
        ge=0,
        le=1024,
        description="most texts without a vector that a recall embeds itself; 0 embeds none; raise it where turns "
        "come faster than workers embed",
    )
    fresh_tail_ms: float | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description="time limit in milliseconds for embedding these texts, by an estimate made before; left out: 20, "
        "or on a machine that takes longer for 32 texts, while no other call waits for the model, as long as it "
        "takes, 150 at most; set it where recall right after a burst of turns must be quicker, or may be slower",
    )
    embed_deadline_ms: float = Field(
        default=2000.0,
        gt=0,
        le=60_000,
        description="time limit in milliseconds for the vectors of a question and of fresh texts; what is late is "
        "searched by words alone; lower it for a remote model that stalls",
    )
    candidates: int = Field(
        default=40,
        ge=10,
        le=2000,
        description="units that the search by words and the search by meaning each contribute where k is smaller "
        "(100 without k); raise it for more recall at more time",
    )
    postings: int = Field(
        default=20_000,
        ge=1000,
        description="most entries of the word index that one recall reads, those of the rarest words first; raise it "
        "where common words matter in large banks",
    )
    exact_units: int = Field(
        default=30_000,
        ge=0,
        le=1_000_000_000,
        description="units up to which a bank is searched exactly, and by the vector index above; raise it for exact "
        "answers in larger banks, at more time a recall",
    )
    read_units: int = Field(
        default=18_000,
        ge=1,
        le=1_000_000,
        description="most vectors that a search reads in the nearest lists of the vector index; raise it when "
        "`afterturn recall-check` finds less than 98 %, at more time a recall",
    )
    answer_tokens: int = Field(
        default=2000,
        ge=1,
        le=1_000_000,
        description="most tokens that the block of an answer has in a prompt, for calls with neither k nor max_tokens; "
        "set it to what your prompts can hold",
    )
    tokenizer: Path | None = Field(
        default=None,
        description="file tokenizer.json of the model that answers go to, or its folder, by which tokens are counted; "
        "without it they are estimated, for English 10 to 15 % too high; set it where prompts are small",
    )
    directives: int = Field(
        default=8,
        ge=0,
        le=64,
        description="most directives of a bank in an answer; raise it for banks with many, lower it to save tokens",
    )
    directive_tokens: int = Field(
        default=800,
        ge=0,
        le=100_000,
        description="most tokens of all directives in an answer; raise it for long directives",
    )
    rerank: RerankSettings = Field(default_factory=RerankSettings)
    evidence: EvidenceSettings = Field(default_factory=EvidenceSettings)
