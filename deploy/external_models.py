"""Which models a process uses, noted in the database when it starts.

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
from embeddings.settings import Provider
from store.database import Database
from store.database_outage import may_pass
from store.live_model import note_live_model
from store.tenancy.external_models import EMBEDDING, EXTRACTION, OutsideModel, note
from workers.extraction.llm.request import version_of

log = structlog.get_logger(__name__)

#: Without a database nothing is sent anywhere either.
TRY_AGAIN_S = 5.0


def outside_models(settings: Settings) -> Sequence[OutsideModel]:
    """Return the models that may be sent what people said."""
    embedding, enrichment, found = settings.embedding, settings.enrichment, []
    if embedding.provider is Provider.REMOTE:
        generation = str(generation_of(embedding.remote.model))
        found.append(OutsideModel(EMBEDDING, generation, _machine(embedding.remote.url)))
    if enrichment.enabled:
        found.append(OutsideModel(EXTRACTION, version_of(enrichment.model), _machine(enrichment.url)))
    return found


async def note_models(database: Database, settings: Settings, embedder: Embedder) -> None:
    """Note the models of this process, as soon as the database takes it."""
    while True:
        try:
            await note(database, outside_models(settings))
            return await note_live_model(database, embedder)
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, it is tried again
            if not may_pass(error):
                log.warning("models could not be noted", error=type(error).__name__)
            await asyncio.sleep(TRY_AGAIN_S)


@asynccontextmanager
async def noting_models(database: Database, settings: Settings, embedder: Embedder) -> AsyncGenerator[None]:
    """Note the models of this process while the block lasts."""
    task = asyncio.create_task(note_models(database, settings, embedder), name="note models")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _machine(url: str) -> str:
    return urlsplit(url).hostname or ""
