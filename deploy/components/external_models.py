"""Records a process's external models in the database at its start, so that an erasure can name them."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

import structlog

from deploy.settings import Settings
from embeddings.remote import derive_generation
from embeddings.retry import Retry, wait_evenly
from embeddings.settings import Provider
from store.concurrent_calls import run_meanwhile
from store.database import Database
from store.database_outage import may_pass
from store.tenancy.external_models import EMBEDDING, EXTRACTION, ExternalModel, note_external_models
from workers.extraction.llm.request import derive_version

log = structlog.get_logger(__name__)

#: Pause between two attempts, in seconds; without the database nothing is sent to a model either.
RETRY_INTERVAL_S = 5.0


def list_external_models(settings: Settings) -> Sequence[ExternalModel]:
    """Return the models on other machines that stored texts may be sent to."""
    embedding, enrichment, found = settings.embedding, settings.enrichment, []
    remotes = [embedding.remote] if embedding.provider is Provider.REMOTE else []
    for remote in (*remotes, embedding.former_remote):
        if remote.base_url:
            generation = str(derive_generation(remote.model, remote.dimensions))
            found.append(ExternalModel(EMBEDDING, generation, _parse_host(remote.url)))
    if enrichment.enabled:
        found.append(ExternalModel(EXTRACTION, derive_version(enrichment.model), _parse_host(enrichment.url)))
    return found


async def record_models(database: Database, settings: Settings) -> None:
    """Record the external models of this process in the database; retry until it succeeds."""

    async def record() -> None:
        await note_external_models(database, list_external_models(settings))

    def again(error: Exception) -> float:
        """Return a minimal wait of 0 seconds: every error is retried."""
        if not may_pass(error):
            log.warning("models_not_recorded", error=type(error).__name__)
        return 0.0

    await Retry(wait_evenly(RETRY_INTERVAL_S)).call(record, again)


def record_models_meanwhile(database: Database, settings: Settings) -> AbstractAsyncContextManager[object]:
    """Record the external models of this process in the background while the block runs."""
    return run_meanwhile(record_models(database, settings), "note models")


def _parse_host(url: str) -> str:
    return urlsplit(url).hostname or ""
