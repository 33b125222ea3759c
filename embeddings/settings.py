"""What can be chosen about embeddings."""

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from embeddings.endpoint import endpoint_url

#: Where an OpenAI-compatible service turns texts into vectors.
EMBEDDINGS_PATH = "/v1/embeddings"


class Provider(StrEnum):
    """Whose model it is."""

    #: The sentence model in this process.
    LOCAL = "local"
    #: A model behind an OpenAI-compatible endpoint.
    REMOTE = "remote"


class Variant(StrEnum):
    """How the sentence model's numbers are kept."""

    #: Weights and activations as 8-bit integers: twice as fast, made once at first start.
    DYNAMIC = "dynamic"
    #: Weights as 8-bit integers, activations as floats: as the package ships it.
    WEIGHTS = "weights"


class RemoteSettings(BaseModel):
    """A model behind an OpenAI-compatible endpoint; used when the provider is `remote`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str = Field(default="", description="absolute URL; /v1/embeddings is appended where it is missing")
    allow_http: bool = Field(default=False, description="take plain http to other machines")
    model: str = Field(default="", max_length=256, description="the model's name there")
    api_key: SecretStr = Field(default=SecretStr(""), description="sent as a bearer token; empty sends none")
    ask_dimensions: bool = Field(
        default=True, description="ask for 384 dimensions; off for models that have 384 and know no such parameter"
    )
    batch_texts: int = Field(default=64, ge=1, le=2048, description="texts of one request at most")
    batch_characters: int = Field(default=131_072, ge=8192, le=4_194_304, description="characters of one request")
    timeout_seconds: float = Field(default=10.0, gt=0, le=600, description="patience with one request")
    deadline_seconds: float = Field(default=30.0, gt=0, le=3600, description="patience with all tries of one call")
    max_reply_bytes: int = Field(default=8_388_608, ge=65_536, le=268_435_456, description="of a reply, read at most")

    @property
    def url(self) -> str:
        """The whole address. Raises ValueError."""
        return endpoint_url(self.base_url, EMBEDDINGS_PATH, allow_http=self.allow_http)


class EmbeddingSettings(BaseModel):
    """The sentence model and how it is run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Provider = Field(default=Provider.LOCAL, description="local, or remote (an OpenAI-compatible endpoint)")
    remote: RemoteSettings = Field(default_factory=RemoteSettings)
    variant: Variant = Field(default=Variant.DYNAMIC, description="dynamic (fast) or weights (as shipped)")
    threads: int = Field(default=1, ge=1, le=64, description="threads of one model run")
    batch_tokens: int = Field(default=256, ge=1, le=65536, description="tokens of one model run at most")

    @model_validator(mode="after")
    def _remote_needs_an_address_and_a_model(self) -> Self:
        if self.provider is Provider.REMOTE:
            if not self.remote.model.strip():
                raise ValueError("provider remote needs remote.model")
            try:
                _ = self.remote.url
            except ValueError as error:
                raise ValueError(f"remote.base_url {error}") from None
        return self
