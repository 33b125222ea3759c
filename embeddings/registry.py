"""Creates models from settings."""

from pathlib import Path
from typing import Protocol

from embeddings.local import FolderEmbedder, HubEmbedder, LocalEmbedder
from embeddings.protocol import Embedder
from embeddings.remote import RemoteEmbedder
from embeddings.rerank import CrossEncoder
from embeddings.settings import EmbeddingSettings, Provider, RerankerSettings


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


def create_embedder(settings: EmbeddingSettings, data: Path) -> OwnedEmbedder:
    """Return the embedder these settings choose, not yet loaded; a local one keeps its files in `data`/models."""
    if settings.provider is Provider.REMOTE:
        return RemoteEmbedder(settings.remote)
    if settings.folder is not None:
        return FolderEmbedder(settings, settings.folder)
    if settings.model:
        return HubEmbedder(settings, data / "models")
    return LocalEmbedder(settings, data / "models")
