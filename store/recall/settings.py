"""Defines the settings of recall.

The ranking's defaults lie on plateaus: each was varied over a wide range on two kinds of conversation (short chat
turns, long messages) without a loss of more than two points of recall. Change one only after a run of `afterturn bench
recall --quality` on your own data.
"""

from pydantic import BaseModel, ConfigDict, Field


class RankingSettings(BaseModel):
    """Weights of the ranking; a unit's lexical score is its share of the question's words, from 0 to 1, at weight 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dense_weight: float = Field(
        default=0.75, ge=0, le=10, description="weight of the cosine similarity of question and unit"
    )
    time_weight: float = Field(
        default=0.15, ge=0, le=10, description="added to a unit of the time that the question names"
    )
    recent_weight: float = Field(
        default=0.2,
        ge=0,
        le=10,
        description="added to the last messages before the question, minutes old, where it asks about them",
    )
    saturation: float = Field(
        default=1.2, gt=0, le=10, description="BM25's k1: higher values count a repeated word more"
    )
    length_share: float = Field(
        default=0.6, ge=0, le=1, description="BM25's b: 0 ignores the length of texts, 1 normalises by it"
    )
    lexical_context: float = Field(
        default=0.4, ge=0, le=1, description="weight of a word in a neighbouring message; a word of the unit has 1"
    )
    lexical_answer: float = Field(
        default=0.5, ge=0, le=1, description="added to lexical_context for the question before an answer"
    )
    dense_context: float = Field(
        default=0.3, ge=0, le=1, description="weight of a neighbouring message's similarity; the unit's own has 1"
    )
    dense_answer: float = Field(
        default=0.15, ge=0, le=1, description="added to dense_context for the question before an answer"
    )
    dense_short: float = Field(
        default=2.0, ge=1, le=10, description="most by which dense_context is multiplied for a short message"
    )
    substance: float = Field(
        default=0.02, ge=0, le=10, description="added for each unit of the logarithm of a text's number of words"
    )
    speaker: float = Field(
        default=0.1, ge=0, le=10, description="added to units of the one speaker that the question names"
    )
    session: float = Field(
        default=0.25, ge=0, le=10, description="weight of the mean score of the session's three best units"
    )
    short_question: float = Field(
        default=0.3, ge=0, le=1, description="fraction of the score that a text loses that is only a question"
    )
    echo: float = Field(
        default=0.8, ge=0, le=1, description="fraction of the score that an earlier question for the same loses"
    )
    assistant: float = Field(
        default=0.2, ge=0, le=1, description="fraction of the score that messages of the assistant lose"
    )
    asked_agent: float = Field(
        default=0.9,
        ge=0,
        le=1,
        description="fraction of the score that a text of a few words that is only a question loses beside an agent",
    )
    agent_line: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="fraction of the score that messages of an agent or a tool of up to 30 words lose",
    )
    tool_output: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="fraction of the score that messages of a tool of more than 30 words lose",
    )
    repeated: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="fraction of the score that a user's message to an agent loses if it was sent three times or more",
    )
    heads: int = Field(
        default=4,
        ge=0,
        le=4,
        description="units of each arm that are placed among the first twenty while some units have no vector yet",
    )
    pinned: int = Field(
        default=5,
        ge=0,
        le=50,
        description="most pinned units that come first in an answer; they fill at most half of it",
    )
    length_brake: float = Field(
        default=0.2, ge=0, le=10, description="factor that lowers the score of long texts that are no turn (documents)"
    )


class RerankSettings(BaseModel):
    """Limits of reranking by a cross-encoder, if one is set (`embedding.reranker`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    candidates: int = Field(default=30, ge=2, le=200, description="units that are reranked: the first of the ranking")
    deadline_ms: float = Field(
        default=250.0,
        gt=0,
        le=60_000,
        description="time limit in milliseconds; when it is exceeded, the order stays unchanged",
    )
    weight: float = Field(
        default=1.0,
        ge=0,
        le=100,
        description="weight of the cross-encoder's score (0 to 1), added to the score of the ranking",
    )


class EvidenceSettings(BaseModel):
    """Thresholds below which an answer is flagged as without evidence; the flags leave no unit out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    floor: float = Field(
        default=0.65, ge=0, le=10, description="the answer is flagged off topic if its best score is below this"
    )
    agent_floor: float = Field(
        default=0.28,
        ge=0,
        le=10,
        description="used instead of floor in an agent's memory: an agent speaks in it, or no speaker has a name",
    )
    margin: float = Field(
        default=0.05,
        ge=-10,
        le=10,
        description="if the question names one speaker: the answer is flagged as about another unless that one's best "
        "score exceeds the best of all others by this",
    )


class RecallSettings(BaseModel):
    """Limits, budgets and weights of recall; times in milliseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fresh_tail_chunks: int = Field(
        default=64, ge=0, le=1024, description="most texts without a vector that a recall embeds itself; 0 embeds none"
    )
    fresh_tail_ms: float = Field(
        default=20.0,
        ge=0,
        le=10_000,
        description="time limit in milliseconds for embedding them, the wait for the model included",
    )
    fresh_tail_backlog: int = Field(
        default=1000,
        ge=0,
        description="backlog of a bank, in ledger rows, above which a recall embeds few texts of other sessions",
    )
    embed_deadline_ms: float = Field(
        default=2000.0,
        gt=0,
        le=60_000,
        description="time limit in milliseconds for embedding a question and then the fresh texts; a late question is "
        "searched by words alone, late texts are found by their words alone",
    )
    candidates: int = Field(
        default=40,
        ge=10,
        le=2000,
        description="units that the search by words and that by meaning each contribute; k if that is larger, "
        "100 without k",
    )
    postings: int = Field(default=20_000, ge=1000, description="most entries of the word index that a recall reads")
    exact_units: int = Field(
        default=30_000,
        ge=0,
        le=1_000_000_000,
        description="banks of up to this number of units are searched exactly; larger ones by the vector index; "
        "raise it for exact answers in larger banks, at more time a recall",
    )
    read_units: int = Field(
        default=18_000,
        ge=1,
        le=1_000_000,
        description="vectors to read in the nearest lists of the vector index; more finds more and is slower; "
        "raise it when `afterturn recall-check` finds less than 98 %",
    )
    answer_tokens: int = Field(
        default=2000,
        ge=1,
        le=1_000_000,
        description="size of an answer in tokens if the call gives neither k nor max_tokens",
    )
    directives: int = Field(default=8, ge=0, le=64, description="most directives of a bank in an answer")
    directive_tokens: int = Field(
        default=800, ge=0, le=100_000, description="size limit of all directives in an answer, in tokens"
    )
    directive_share: float = Field(default=0.25, ge=0, le=1, description="share of max_tokens that directives may take")
    ranking: RankingSettings = Field(default_factory=RankingSettings)
    rerank: RerankSettings = Field(default_factory=RerankSettings)
    evidence: EvidenceSettings = Field(default_factory=EvidenceSettings)
