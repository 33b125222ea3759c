"""The sentence model that settings name, for a command without a service: created and loaded when it is asked for."""

from functools import cached_property
from pathlib import Path

from embeddings.errors import ModelMissing
from embeddings.registry import OwnedEmbedder, create_embedder, name_source
from embeddings.settings import EmbeddingSettings


class SettingsModel:
    """The model of these settings; close it at the end."""

    def __init__(self, settings: EmbeddingSettings, data: Path) -> None:
        """Keep the settings; files of models are in `data`/models."""
        self._settings, self._data = settings, data

    @cached_property
    def own(self) -> OwnedEmbedder | None:
        """The model, not loaded; None where its folder is not here."""
        try:
            return create_embedder(self._settings, self._data)
        except OSError:
            return None

    @property
    def source(self) -> str:
        """The setting that names the model."""
        return name_source(self._settings)

    async def load_own(self) -> OwnedEmbedder:
        """Return the model, loaded. Raises EmbeddingError."""
        if self.own is None:
            raise ModelMissing(f"the folder of the model {self.source!r} cannot be read: mend `embedding.model`")
        await self.own.load()
        return self.own

    async def close(self) -> None:
        """Close the model, if it was created."""
        if (model := self.__dict__.get("own")) is not None:
            await model.close()
