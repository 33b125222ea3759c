"""The plugin over a real database, served over HTTP on the test's own loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID, uuid4

import httpx
from starlette.requests import Request

from deploy.api.http_server import serve_application
from deploy.local.ports import find_free_port
from embeddings.protocol import Embedder
from producers.notifications import Notifier
from producers.plugin.app import PluginApp
from producers.plugin.bank_store import BankPluginStore, EraseQueue, PluginParts
from producers.settings import ApiSettings, PluginSettings
from store.database import Database
from store.erasure import Erasures
from store.plugin.memories import PluginMemories
from store.plugin.namespaces import Namespaces
from store.plugin.search import PluginSearch
from store.recall.settings import RecallSettings
from tests.patience import PATIENCE_S, until
from tests.producers.words import WordEmbedder


def parts_of(
    database: Database,
    notifier: Notifier,
    clock: Callable[[], datetime],
    settings: PluginSettings | None = None,
    embedder: Embedder | None = None,
) -> PluginParts:
    chosen = settings or PluginSettings()
    return PluginParts(
        Namespaces(database, clock),
        PluginMemories(database, clock),
        PluginSearch(database, embedder or WordEmbedder(), RecallSettings(), clock, chosen.near),
        EraseQueue(Erasures(database, clock), chosen.erase_after),
        notifier.notify,
        chosen,
    )


@asynccontextmanager
async def serving(parts: PluginParts, host: UUID, port: int | None = None) -> AsyncIterator[str]:
    """Serve the plugin of one tenant, at a port of its own where none is named, and lend its URL."""

    async def store_of(_request: Request) -> BankPluginStore:
        return BankPluginStore(host, parts)

    settings, port, ending = ApiSettings(), port or find_free_port(), asyncio.Event()
    app = PluginApp(store_of, settings)
    task = asyncio.create_task(serve_application(app, "127.0.0.1", port, settings, ending))
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:

            async def listens() -> bool:
                try:
                    return (await client.get("/v1/health")).status_code > 0
                except httpx.TransportError:
                    return False

            await until(listens, "the plugin listens")
        yield url
    finally:
        ending.set()
        await task
        await parts.erasing.close()


def fresh(prefix: str = "workspace") -> str:
    return f"{prefix}:{uuid4().hex}"
