"""One loaded model for the whole run: making it takes seconds."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from embeddings.local import LocalEmbedder
from embeddings.settings import EmbeddingSettings


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def embedder(data_folder: Path) -> AsyncIterator[LocalEmbedder]:
    embedder = LocalEmbedder(EmbeddingSettings(), data_folder / "models")
    await embedder.load()
    yield embedder
    await embedder.close()
