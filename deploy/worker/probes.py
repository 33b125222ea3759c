"""Serves metrics and health of this machine's workers over HTTP.

Import it only when the folder of samples is known (deploy/worker/__main__.py).
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from asyncpg.exceptions import PostgresError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from sqlalchemy import NullPool, text
from sqlalchemy.exc import SQLAlchemyError

from deploy.observability.metrics import SampleFiles
from deploy.observability.samples import SERVED, WORKER_SAMPLES
from deploy.settings import Settings
from store.connections import create_engine

#: Time-out for the database, in seconds.
ANSWER_S = 3.0
PLAIN = "text/plain; charset=utf-8"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log nothing: probes come every few seconds."""


def serve_probes(settings: Settings) -> WSGIServer:
    """Serve `/metrics`, `/health/live` and `/health/ready` on a thread of their own; raises OSError.

    `live` checks nothing; `ready` is 200 while a worker can log in to the database, else 503.
    """
    routes: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]] = {
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, _render_metrics(settings)),
        "/health/live": lambda: (HTTPStatus.OK, PLAIN, b"live\n"),
        "/health/ready": lambda: _look_at_database(settings.database.url.get_secret_value()),
    }

    def answer(request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        found = routes.get(request["PATH_INFO"])
        status, kind, body = found() if found else (HTTPStatus.NOT_FOUND, PLAIN, b"no such page\n")
        start(f"{status.value} {status.phrase}", [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    worker = settings.worker
    server = make_server(worker.metrics_host, worker.metrics_port, answer, _Server, _QuietHandler)
    (settings.metrics_dir / WORKER_SAMPLES / SERVED).write_text(str(os.getpid()), encoding="ascii")
    Thread(target=server.serve_forever, name="probes", daemon=True).start()
    return server


def _render_metrics(settings: Settings) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SampleFiles([settings.metrics_dir / WORKER_SAMPLES]))
    return generate_latest(registry)


def _look_at_database(url: str) -> tuple[HTTPStatus, str, bytes]:
    async def look() -> None:
        engine = create_engine(url, timeout_s=ANSWER_S, poolclass=NullPool)
        async with asyncio.timeout(ANSWER_S), engine.connect() as connection:
            await connection.execute(text("select 1"))

    try:
        asyncio.run(look())
    except (SQLAlchemyError, PostgresError, OSError, TimeoutError) as error:
        reason = f"the database does not answer ({type(error).__name__})\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, reason.encode()
    return HTTPStatus.OK, PLAIN, b"ready\n"
