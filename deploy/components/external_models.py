"""Records a process's external models in the database at its start.

Those of other machines, so that an erasure can name them; and the sentence model: its vectors direct readers are shown.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import structlog

from deploy.settings import Settings
from embeddings.protocol import Embedder
from embeddings.remote import generation_of
from embeddings.retry import Retry, evenly
from embeddings.settings import Provider
from store.database import Database
from store.database_outage import may_pass
from store.live_model import note_live_model
from store.tenancy.external_models import EMBEDDING, EXTRACTION, OutsideModel, note_external_models
from workers.extraction.llm.request import version_of

log = structlog.get_logger(__name__)

#: Without a database nothing is sent anywhere either.
RETRY_INTERVAL_S = 5.0


def list_external_models(settings: Settings) -> Sequence[OutsideModel]:
    """Return the models that may be sent what people said."""
    embedding, enrichment, found = settings.embedding, settings.enrichment, []
    if embedding.provider is Provider.REMOTE:
        generation = str(generation_of(embedding.remote.model))
        found.append(OutsideModel(EMBEDDING, generation, _parse_host(embedding.remote.url)))
    if enrichment.enabled:
        found.append(OutsideModel(EXTRACTION, version_of(enrichment.model), _parse_host(enrichment.url)))
    return found


async def record_models(database: Database, settings: Settings, embedder: Embedder) -> None:
    """Note the models of this process, as soon as the database takes it."""

    async def record() -> None:
        await note_external_models(database, list_external_models(settings))
        await note_live_model(database, embedder)

    def again(error: Exception) -> float:
        """Try again at once, after any error of the driver."""
        if not may_pass(error):
            log.warning("models_not_recorded", error=type(error).__name__)
        return 0.0

    await Retry(evenly(RETRY_INTERVAL_S)).call(record, again)


@asynccontextmanager
async def record_models_meanwhile(database: Database, settings: Settings, embedder: Embedder) -> AsyncGenerator[None]:
    """Note the models of this process while the block lasts."""
    task = asyncio.create_task(record_models(database, settings, embedder), name="note models")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _parse_host(url: str) -> str:
    return urlsplit(url).hostname or ""
