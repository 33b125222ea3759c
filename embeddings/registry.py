"""From settings to an embedder."""

from pathlib import Path

from embeddings.local import LocalEmbedder
from embeddings.settings import EmbeddingSettings


def create_embedder(settings: EmbeddingSettings, data: Path) -> LocalEmbedder:
    """Return the embedder these settings choose, not yet loaded; its files are kept in `data`/models."""
    return LocalEmbedder(settings, data / "models")
