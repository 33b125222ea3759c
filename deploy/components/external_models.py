"""Records a process's external models in the database at its start.

Models on other machines are recorded so that an erasure can name them; the sentence model, so that direct readers of
the database know whose vectors they see.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

import structlog

from deploy.settings import Settings
from embeddings.protocol import Embedder
from embeddings.remote import derive_generation
from embeddings.retry import Retry, wait_evenly
from embeddings.settings import Provider
from store.concurrent_calls import run_meanwhile
from store.database import Database
from store.database_outage import may_pass
from store.tenancy.external_models import EMBEDDING, EXTRACTION, ExternalModel, note_external_models, note_live_model
from workers.extraction.llm.request import derive_version

log = structlog.get_logger(__name__)

#: Pause between two attempts, in seconds; without the database nothing is sent to a model either.
RETRY_INTERVAL_S = 5.0


def list_external_models(settings: Settings) -> Sequence[ExternalModel]:
    """Return the models on other machines that stored texts may be sent to."""
    embedding, enrichment, found = settings.embedding, settings.enrichment, []
    if embedding.provider is Provider.REMOTE:
        generation = str(derive_generation(embedding.remote.model))
        found.append(ExternalModel(EMBEDDING, generation, _parse_host(embedding.remote.url)))
    if enrichment.enabled:
        found.append(ExternalModel(EXTRACTION, derive_version(enrichment.model), _parse_host(enrichment.url)))
    return found


async def record_models(database: Database, settings: Settings, embedder: Embedder) -> None:
    """Record the models of this process in the database; retry until it succeeds."""

    async def record() -> None:
        await note_external_models(database, list_external_models(settings))
        await note_live_model(database, embedder)

    def again(error: Exception) -> float:
        """Return a minimal wait of 0 seconds: every error is retried."""
        if not may_pass(error):
            log.warning("models_not_recorded", error=type(error).__name__)
        return 0.0

    await Retry(wait_evenly(RETRY_INTERVAL_S)).call(record, again)


def record_models_meanwhile(
    database: Database, settings: Settings, embedder: Embedder
) -> AbstractAsyncContextManager[object]:
    """Record the models of this process in the background while the block runs."""
    return run_meanwhile(record_models(database, settings, embedder), "note models")


def _parse_host(url: str) -> str:
    return urlsplit(url).hostname or ""
