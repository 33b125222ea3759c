"""Settings of embeddings."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from embeddings.endpoint import endpoint_url
from embeddings.settings_section import SettingsSection

#: The path at which an OpenAI-compatible service turns texts into vectors.
EMBEDDINGS_PATH = "/v1/embeddings"
#: The files of a sentence model in a folder, as exporters to ONNX write them.
MODEL_FILE = "model.onnx"
MODEL_FILES = (MODEL_FILE, "tokenizer.json", "tokenizer_config.json", "config.json")
#: The files of a cross-encoder: paths at which exporters put the model, of which the first that exists is taken, and
#: its tokenizer.
RERANKER_FILES = ("model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_int8.onnx")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
#: Most numbers of a vector: an index at half precision takes no more.
MOST_DIMENSIONS = 4000
#: A model's name on the hub.
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


class Provider(StrEnum):
    """Where the sentence model runs."""

    #: A sentence model in this process.
    LOCAL = "local"
    #: A model behind an OpenAI-compatible endpoint.
    REMOTE = "remote"


class Variant(StrEnum):
    """The number format of the local sentence model."""

    #: Weights and activations as 8-bit integers in a graph of our own: the fastest, made once at first start.
    LEAN = "lean"
    #: Weights and activations as 8-bit integers, as onnxruntime's own quantiser makes them of the shipped graph.
    DYNAMIC = "dynamic"
    #: Weights as 8-bit integers, activations as floats: as the package ships it.
    WEIGHTS = "weights"


class RemoteSettings(SettingsSection):
    """A model behind an OpenAI-compatible endpoint; used when the provider is `remote`."""

    base_url: str = Field(
        default="",
        description="base URL of an OpenAI-compatible service, to which /v1/embeddings is appended where it is "
        "missing; needed with provider remote",
    )
    allow_http: bool = Field(
        default=False, description="allow plain http to another machine; only for a private network"
    )
    model: str = Field(
        default="",
        max_length=256,
        description="name of the model at that service; needed with provider remote; a change takes effect by "
        "`afterturn embeddings build` and `switch`",
    )
    api_key: SecretStr = Field(
        default=SecretStr(""), description="API key of that service, sent as a bearer token; empty sends none"
    )
    dimensions: int = Field(
        default=0,
        ge=0,
        le=MOST_DIMENSIONS,
        description="numbers of a vector to ask the service for; 0 asks for none, and the model's own number is found; "
        "set it for a model that has more than 4,000, or to store fewer",
    )
    batch_texts: int = Field(
        default=64, ge=1, le=2048, description="most texts of one request; lower it to the service's own limit"
    )
    batch_characters: int = Field(
        default=131_072,
        ge=8192,
        le=4_194_304,
        description="most characters of one request; lower it to the service's own limit",
    )
    timeout_seconds: float = Field(
        default=10.0, gt=0, le=600, description="time-out of one request, in seconds; raise it for a slow service"
    )
    deadline_seconds: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="time-out of one call with all its retries, in seconds; raise it for a service that often asks "
        "to wait",
    )

    @property
    def url(self) -> str:
        """The full URL of the endpoint. Raises ValueError."""
        return endpoint_url(self.base_url, EMBEDDINGS_PATH, allow_http=self.allow_http)


def find_model_file(folder: Path) -> str:
    """Return the path of a cross-encoder's model within its folder. Raises ValueError, which names what is missing."""
    missing = [name for name in TOKENIZER_FILES if not (folder / name).is_file()]
    found = next((name for name in RERANKER_FILES if (folder / name).is_file()), None)
    if found is None:
        missing.append(RERANKER_FILES[0])
    if found is None or missing:
        raise ValueError(f"is no folder of a cross-encoder: there is no {', no '.join(missing)}")
    return found


class RerankerSettings(SettingsSection):
    """A cross-encoder that reads question and text together; without a model there is none."""

    model: str = Field(
        default="",
        max_length=1024,
        description="cross-encoder that reorders the first results: absolute path of a folder, or a model's name on "
        "the hub; empty: none; set it for a better order at more time a recall",
    )
    threads: int = Field(
        default=1,
        ge=1,
        le=64,
        description="threads of one run of the cross-encoder; raise it to shorten a call on machines with idle cores",
    )

    @field_validator("model")
    @classmethod
    def _can_be_loaded(cls, model: str) -> str:
        if model.startswith("/"):
            find_model_file(Path(model))
        elif model and not HUB_NAME.fullmatch(model):
            raise ValueError("is neither an absolute path nor a hub's name such as organisation/model")
        return model

    @property
    def folder(self) -> Path | None:
        """The folder with the model's files; None for a model from the hub."""
        return Path(self.model) if self.model.startswith("/") else None


class EmbeddingSettings(SettingsSection):
    """The sentence model and how it is run."""

    provider: Provider = Field(
        default=Provider.LOCAL,
        description="where vectors are made: `local` (in processes of the service) or `remote` (an OpenAI-compatible "
        "service); a change takes effect by `afterturn embeddings build` and `switch`",
    )
    model: str = Field(
        default="",
        max_length=1024,
        description="sentence model of provider local; empty: the bundled one, which understands English alone; a name "
        "of fastembed's list, fetched once from the hub; or the absolute path of a folder with model.onnx and its "
        "tokenizer; a change takes effect by `afterturn embeddings build` and `switch`",
    )
    remote: RemoteSettings = Field(default_factory=RemoteSettings)
    former_remote: RemoteSettings = Field(
        default_factory=RemoteSettings,
        description="the endpoint that `remote` named before: its model is asked until another one is live, and after "
        "a rollback",
    )
    variant: Variant = Field(
        default=Variant.LEAN,
        description="number format of the bundled model: `lean` (8-bit, fastest), `dynamic` (8-bit by onnxruntime) or "
        "`weights` (as shipped); set weights for the most exact vectors; a change to or from weights takes effect by "
        "`afterturn embeddings build` and `switch`",
    )
    threads: int = Field(
        default=1,
        ge=1,
        le=64,
        description="threads of one model run; raise it to shorten a call on machines with idle cores",
    )
    reranker: RerankerSettings = Field(default_factory=RerankerSettings)

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

    @field_validator("model")
    @classmethod
    def _model_is_a_folder_or_a_name(cls, model: str) -> str:
        if model.startswith("/"):
            if missing := [name for name in MODEL_FILES if not (Path(model) / name).is_file()]:
                raise ValueError(f"is a folder without a sentence model: there is no {', no '.join(missing)}")
        elif model and not HUB_NAME.fullmatch(model):
            raise ValueError("is neither an absolute path nor a name of fastembed's list, such as BAAI/bge-m3")
        return model

    @property
    def folder(self) -> Path | None:
        """The folder with the model's files; None for the bundled model and for one from the hub."""
        return Path(self.model) if self.model.startswith("/") else None
