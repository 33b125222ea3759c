"""From settings to an embedder."""

from pathlib import Path
from typing import Protocol

from embeddings.local import LocalEmbedder
from embeddings.protocol import Embedder
from embeddings.remote import RemoteEmbedder
from embeddings.settings import EmbeddingSettings, Provider


class OwnedEmbedder(Embedder, Protocol):
    """An embedder as its owner sees it: made ready once, let go once."""

    async def load(self) -> None:
        """Make ready, and find out what is wrong. Raises EmbeddingError."""
        ...

    async def close(self) -> None:
        """Let go; calls afterwards are refused."""
        ...


def create_embedder(settings: EmbeddingSettings, data: Path) -> OwnedEmbedder:
    """Return the embedder these settings choose, not yet loaded; a local one keeps its files in `data`/models."""
    if settings.provider is Provider.REMOTE:
        return RemoteEmbedder(settings.remote)
    return LocalEmbedder(settings, data / "models")
