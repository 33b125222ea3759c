"""Defines the settings of recall.

The ranking's defaults were chosen on four kinds of talk, with one left out in turn (docs/recall_experiments.md).
Change one only after a run of `afterturn bench recall --quality` on your own data.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class RankingSettings(BaseModel):
    """Weights of the ranking; a unit's lexical score is its share of the question's words, from 0 to 1, at weight 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dense_weight: float = Field(
        default=0.85,
        ge=0,
        le=10,
        description="weight of the cosine of question and unit, beside 1 for words; raise it where questions use "
        "other words than texts",
    )
    time_weight: float = Field(
        default=0.3,
        ge=0,
        le=10,
        description="score added to a unit of the time that the question names; raise it where dates decide",
    )
    recent_weight: float = Field(
        default=0.2,
        ge=0,
        le=10,
        description="score added to messages a few minutes old where the question asks about them; 0 turns it off",
    )
    speaker: float = Field(
        default=0.13,
        ge=0,
        le=10,
        description="score added to units of the one speaker that the question names; raise it in banks of many "
        "speakers",
    )
    session: float = Field(
        default=0.25,
        ge=0,
        le=10,
        description="weight of the mean score of the three best units of a unit's session; raise it where sessions "
        "keep to one subject",
    )
    assistant: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="share (0 to 1) of their score that the assistant's messages lose unless asked for; lower it "
        "where the assistant's words are the memory",
    )
    agent_line: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="share (0 to 1) of their score that messages of an agent or a tool of up to 30 words lose; lower "
        "it for agents whose short lines inform",
    )
    tool_output: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="share (0 to 1) of its score that a tool's output of more than 30 words loses; lower it where "
        "tool output holds the answers",
    )
    pinned: int = Field(
        default=5,
        ge=0,
        le=50,
        description="most pinned units that come first, in at most half of an answer; raise it for banks with many "
        "pins",
    )


class RerankSettings(BaseModel):
    """Limits of reranking by a cross-encoder, if one is set (`embedding.reranker`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class EvidenceSettings(BaseModel):
    """Thresholds below which an answer is flagged as without evidence; the flags leave no unit out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class EndSettings(BaseModel):
    """Where an answer ends whose size the call leaves open: below these scores units help no more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    floor: float = Field(
        default=0.1,
        ge=0,
        le=10,
        description="least score of a unit in an answer without k; raise it where answers hold what does not belong "
        "there, lower it where short answers miss something",
    )
    share: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="least share (0 to 1) of the best score that a unit in an answer without k has; 0 ends no answer; "
        "raise it for shorter answers",
    )


class RecallSettings(BaseModel):
    """Limits, budgets and weights of recall; times in milliseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    fresh_tail_backlog: int = Field(
        default=1000,
        ge=0,
        description="undone rows of a bank above which a recall with a full fresh tail embeds only the most urgent "
        "texts; lower it to keep recall quick during imports",
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
        description="vectors that a search reads in the nearest lists of the vector index; raise it when `afterturn "
        "recall-check` finds less than 98 %, at more time a recall",
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
    directive_share: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="share (0 to 1) of max_tokens that directives may take; lower it where small answers hold little "
        "else",
    )
    ranking: RankingSettings = Field(default_factory=RankingSettings)
    rerank: RerankSettings = Field(default_factory=RerankSettings)
    evidence: EvidenceSettings = Field(default_factory=EvidenceSettings)
    end: EndSettings = Field(default_factory=EndSettings)
