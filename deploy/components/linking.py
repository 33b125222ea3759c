"""Creates semantic links, for workers and for `afterturn maintenance`."""

from collections.abc import Callable
from datetime import datetime

from deploy.settings import Settings
from embeddings.protocol import Embedder
from store.database import Database
from store.derived.nearest_units import Nearness
from store.derived.semantic_links import NearLinks
from workers.maintenance import Task, linking_task


def create_linking_task(
    settings: Settings, database: Database, embedder: Embedder, clock: Callable[[], datetime]
) -> Task:
    """Return the task that links texts by their stored vectors of this embedder's generation; no model is called."""
    chosen = settings.maintenance.semantic_links
    nearness = Nearness(database, embedder.generation, chosen.most, chosen.least)
    return linking_task(database, NearLinks(database, nearness, embedder.name, settings.recall, clock), chosen)
