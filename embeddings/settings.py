"""What can be chosen about embeddings."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Variant(StrEnum):
    """How the sentence model's numbers are kept."""

    #: Weights and activations as 8-bit integers: twice as fast, made once at first start.
    DYNAMIC = "dynamic"
    #: Weights as 8-bit integers, activations as floats: as the package ships it.
    WEIGHTS = "weights"


class EmbeddingSettings(BaseModel):
    """The local sentence model and how it is run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: Variant = Field(default=Variant.DYNAMIC, description="dynamic (fast) or weights (as shipped)")
    threads: int = Field(default=1, ge=1, le=64, description="threads of one model run")
    batch_tokens: int = Field(default=256, ge=1, le=65536, description="tokens of one model run at most")
