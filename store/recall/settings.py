"""What can be chosen about recall.

The ranking's defaults lie on plateaus: every one of them was varied over a wide range on two kinds of conversation
(short chat turns, long messages) without losing more than two points of recall.
"""

from pydantic import BaseModel, ConfigDict, Field


class RankingSettings(BaseModel):
    """How much each thing counts that is known of a unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dense_weight: float = Field(default=0.75, ge=0, le=10, description="a cosine against a share of words found")
    time_weight: float = Field(
        default=0.15, ge=0, le=10, description="being of the asked time against a share of words"
    )
    recent_weight: float = Field(
        default=0.2, ge=0, le=10, description="being what was said last, minutes ago, against a share of words"
    )
    saturation: float = Field(default=1.2, gt=0, le=10, description="BM25's k1: how soon repeating a word pays less")
    length_share: float = Field(default=0.6, ge=0, le=1, description="BM25's b: how much long texts are held back")
    pair_weight: float = Field(default=0.5, ge=0, le=10, description="a pair of words against a word")
    lexical_context: float = Field(default=0.4, ge=0, le=1, description="a neighbour's word against one's own")
    lexical_answer: float = Field(default=0.4, ge=0, le=1, description="more than that of the question one answers")
    dense_context: float = Field(default=0.25, ge=0, le=1, description="a neighbour's vector against one's own")
    dense_answer: float = Field(default=0.15, ge=0, le=1, description="more than that of the question one answers")
    dense_short: float = Field(default=2.0, ge=1, le=10, description="times as much, at most, for a short message")
    substance: float = Field(default=0.02, ge=0, le=10, description="for what says more, by the logarithm of its words")
    speaker: float = Field(default=0.1, ge=0, le=10, description="for the one speaker a question names")
    session: float = Field(default=0.25, ge=0, le=10, description="share of the mean of the session's three best")
    short_question: float = Field(default=0.3, ge=0, le=1, description="held back from a text that only asks")
    echo: float = Field(default=0.8, ge=0, le=1, description="held back from a text that asks for the same")
    assistant: float = Field(default=0.2, ge=0, le=1, description="held back from what the assistant said")
    heads: int = Field(
        default=4,
        ge=0,
        le=4,
        description="so many of each arm's best are among the first twenty, while some units have no vector yet",
    )
    pinned: int = Field(
        default=5, ge=0, le=50, description="so many pinned units come first in every answer, and at most half of it"
    )
    recency: float = Field(default=0.02, ge=0, le=1, description="for what was said last, half of it a year before")
    length_brake: float = Field(default=0.2, ge=0, le=10, description="for long texts that are nobody's turn")


class RerankSettings(BaseModel):
    """What a cross-encoder is given, where there is one (`embedding.reranker`); the time is all that it may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    candidates: int = Field(
        default=30, ge=2, le=200, description="the best so many are read together with the question"
    )
    deadline_ms: float = Field(default=250.0, gt=0, le=60_000, description="then the order stays as it was")
    weight: float = Field(default=1.0, ge=0, le=100, description="of its score (0 to 1) beside what was found")


class EvidenceSettings(BaseModel):
    """When an answer says that it may hold no evidence; nothing is left out by it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    floor: float = Field(default=0.65, ge=0, le=10, description="a best score below this is told as off topic")
    margin: float = Field(
        default=0.05,
        ge=-10,
        le=10,
        description="how much better than all others' the best of the one speaker a question names has to be",
    )


class RecallSettings(BaseModel):
    """How recall searches; times in milliseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fresh_tail_chunks: int = Field(default=64, ge=0, le=1024, description="texts without a vector read at most")
    fresh_tail_ms: float = Field(default=40.0, ge=0, le=10_000, description="time for embedding them at most")
    fresh_tail_backlog: int = Field(
        default=1000, ge=0, description="undone rows of a bank from which on little is embedded of other sessions"
    )
    embed_deadline_ms: float = Field(
        default=2000.0, gt=0, le=60_000, description="time for embedding a question; then words alone must do"
    )
    candidates: int = Field(
        default=40, ge=10, le=2000, description="each arm's best units that are compared; k of them where k is more"
    )
    postings: int = Field(default=20_000, ge=1000, description="entries of the word index read at most")
    exact_units: int = Field(
        default=30_000, ge=0, le=1_000_000_000, description="of a larger bank, not all vectors are read"
    )
    read_units: int = Field(default=25_000, ge=1, le=1_000_000, description="so many are, those in the nearest lists")
    answer_tokens: int = Field(
        default=2000,
        ge=1,
        le=1_000_000,
        description="tokens of an answer to a question without k and max_tokens",
    )
    directives: int = Field(default=8, ge=0, le=64, description="so many of a bank's directives come with an answer")
    directive_tokens: int = Field(default=800, ge=0, le=100_000, description="and so long they may be together")
    directive_share: float = Field(default=0.25, ge=0, le=1, description="and so much of the asker's budget of tokens")
    ranking: RankingSettings = Field(default_factory=RankingSettings)
    rerank: RerankSettings = Field(default_factory=RerankSettings)
    evidence: EvidenceSettings = Field(default_factory=EvidenceSettings)
