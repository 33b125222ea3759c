"""Serves metrics and health of this machine's workers over HTTP.

Import it only when the folder of samples is known (deploy/worker/__main__.py).
"""

import asyncio
import errno
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from deploy.components.database_fitness import DATABASE_ERRORS, explain_failure, try_url
from deploy.observability.metrics import SampleFiles, is_served_elsewhere
from deploy.observability.process_metrics import ProcessGauges
from deploy.observability.samples import SERVED, WORKER_SAMPLES
from deploy.settings import Settings
from store.settings import DatabaseSettings

#: Time-out for the database, in seconds.
ANSWER_S = 3.0
#: How long a worker may take from listening to naming itself as the one that serves, in seconds.
WORKERS_START_S = 3.0
#: Pause between attempts to take over the port, in seconds.
TAKE_OVER_S = 2.0
PLAIN = "text/plain; charset=utf-8"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log nothing: probes come every few seconds."""


def serve_probes(settings: Settings) -> bool:
    """Serve `/metrics`, `/health/live` and `/health/ready` on a thread of their own.

    `live` checks nothing; `ready` is 200 while a worker can log in to the database, else 503. Where another worker of
    the same folder `data` serves the port, that one answers for all: then this returns False, and this process takes
    the port over when the other one has ended. Raises OSError where the port belongs to another program.
    """
    deadline = time.monotonic() + WORKERS_START_S
    while True:
        try:
            _listen(settings)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if is_served_elsewhere(settings.metrics_dir / WORKER_SAMPLES):
                Thread(target=_take_over, args=(settings,), name="probes", daemon=True).start()
                return False
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return True


def _take_over(settings: Settings) -> None:
    """Serve as soon as the port is free."""
    while True:
        time.sleep(TAKE_OVER_S)
        with suppress(OSError):
            _listen(settings)
            return


def _listen(settings: Settings) -> None:
    routes: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]] = {
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, _render_metrics(settings)),
        "/health/live": lambda: (HTTPStatus.OK, PLAIN, b"live\n"),
        "/health/ready": lambda: _look_at_database(settings.database),
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


def _render_metrics(settings: Settings) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    folder = settings.metrics_dir / WORKER_SAMPLES
    registry.register(ProcessGauges({"worker": folder}))
    registry.register(SampleFiles([folder]))
    return generate_latest(registry)


def _look_at_database(settings: DatabaseSettings) -> tuple[HTTPStatus, str, bytes]:
    try:
        asyncio.run(try_url(settings.url.get_secret_value(), pooled=settings.transaction_pooling, timeout_s=ANSWER_S))
    except DATABASE_ERRORS as error:
        reason = f"database.url: {explain_failure(error, 'database.url').what}\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, reason.encode()
    return HTTPStatus.OK, PLAIN, b"ready\n"
