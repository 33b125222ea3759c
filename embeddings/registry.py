"""Creates models from settings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from embeddings.local import FolderEmbedder, HubEmbedder, LocalEmbedder
from embeddings.protocol import Embedder
from embeddings.remote import RemoteEmbedder
from embeddings.rerank import CrossEncoder
from embeddings.settings import EmbeddingSettings, Provider, RerankerSettings, Variant

_REMOTE = "remote:"


class Owned(Protocol):
    """The owner's side of a model: load it once, close it once."""

    @property
    def name(self) -> str:
        """The model's name, for people to read."""
        ...

    async def load(self) -> None:
        """Make the model ready and check it. Raises EmbeddingError."""
        ...

    async def close(self) -> None:
        """Release the model; later calls are refused."""
        ...


class OwnedEmbedder(Embedder, Owned, Protocol):
    """An embedder together with its owner's side."""


def create_reranker(settings: RerankerSettings, data: Path) -> CrossEncoder | None:
    """Return the cross-encoder these settings choose, not yet loaded, or None; downloads go to `data`/models."""
    return CrossEncoder(settings, data / "models") if settings.model else None


def name_source(settings: EmbeddingSettings) -> str:
    """Return the setting that names these settings' model; '' for the bundled one."""
    return f"{_REMOTE}{settings.remote.model}" if settings.provider is Provider.REMOTE else settings.model


def find_sources(settings: EmbeddingSettings, source: str) -> Iterator[EmbeddingSettings]:
    """Yield settings by which the model of a source may be had where these settings name another one."""
    bundled = settings.model_copy(update={"provider": Provider.LOCAL, "model": ""})
    yield from (bundled.model_copy(update={"variant": variant}) for variant in Variant)
    if not source.startswith(_REMOTE):
        yield bundled.model_copy(update={"model": source})
    for remote in (settings.remote, settings.former_remote):
        if remote.model and source == f"{_REMOTE}{remote.model}":
            yield settings.model_copy(update={"provider": Provider.REMOTE, "remote": remote})


def create_embedder(settings: EmbeddingSettings, data: Path) -> OwnedEmbedder:
    """Return the embedder these settings choose, not yet loaded; a local one keeps its files in `data`/models."""
    if settings.provider is Provider.REMOTE:
        return RemoteEmbedder(settings.remote)
    if settings.folder is not None:
        return FolderEmbedder(settings, settings.folder)
    if settings.model:
        return HubEmbedder(settings, data / "models")
    return LocalEmbedder(settings, data / "models")
