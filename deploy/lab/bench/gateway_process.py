"""A Memory Gateway that confirms every call at once, in a process of its own: its cost is not counted as ours."""

import argparse
import asyncio
import socket
import sys
from typing import Any

import uvloop

from deploy.api.http_server import serve_application
from deploy.local import Child
from deploy.local.ports import LOOPBACK
from producers.settings import ApiSettings

ANSWER = b'{"status": "ok"}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]


async def confirm_request(_scope: Any, receive: Any, send: Any) -> None:
    """Read any request completely and confirm it."""
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


def describe_gateway(port: int) -> Child:
    """Return the description of the gateway's process."""
    return Child(
        name="gateway",
        argv=(sys.executable, "-P", "-m", "deploy.lab.bench.gateway_process", "--port", str(port)),
        ready=lambda _pid: _is_listening(port),
    )


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="deploy.lab.bench.gateway_process")
    parser.add_argument("--port", type=int, required=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(
            serve_application(confirm_request, LOOPBACK, parser.parse_args().port, ApiSettings(), asyncio.Event())
        )
