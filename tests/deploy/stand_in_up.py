"""`afterturn up` with a tiny API and sleeping workers in the places of the real ones."""

import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import typer

from deploy.cli import up
from deploy.local import Child, services
from deploy.local.local_stack import LocalStack, StackFactories

API = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["AFTERTURN_API__PORT"])), Handler).serve_forever()
"""


#: Ports that somebody takes before the API listens on them: so many as FIRST_COME says.
FIRST_COME = int(os.environ.get("FIRST_COME", "0"))
TAKEN: list[socket.socket] = []


def api(told: services.Services) -> Child:
    if len(TAKEN) < FIRST_COME:
        TAKEN.append(socket.create_server(("127.0.0.1", told.port)))
    return replace(services.describe_api(told), argv=(sys.executable, "-P", "-c", API))


def workers(told: services.Services, count: int) -> Sequence[Child]:
    return [replace(worker, argv=("sleep", "600")) for worker in services.describe_workers(told, count)]


if __name__ == "__main__":
    stack = partial(LocalStack, parts=StackFactories(api=api, workers=workers))
    setattr(up, "LocalStack", stack)  # noqa: B010  (a stand-in is not the type it stands for)
    typer.run(up.up_command)
