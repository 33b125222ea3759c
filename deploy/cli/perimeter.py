"""`afterturn plugin perimeter`: serve the perimeter's HTTP routes in front of a memory plugin."""

import asyncio
import ipaddress
import os
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
import uvloop

from deploy.cli.output import exit_with, print_json
from deploy.cli.plugin_environment import (
    EmbedderOption,
    WorkspacesOption,
    create_model,
    describe_workspaces,
    make_tree,
    open_embedder,
    open_engine,
    plugin_address,
)
from deploy.cli.processes import ConfigOption
from deploy.local.ports import find_bind_error, find_free_port
from deploy.observability import logs
from deploy.settings import LogSettings
from producers.perimeter.audit import AuditFile
from producers.perimeter.breaker import CircuitBreaker
from producers.perimeter.callers import CallerFile
from producers.perimeter.client import PluginAddress, PluginClient
from producers.perimeter.errors import PerimeterError
from producers.perimeter.perimeter import Perimeter
from producers.settings import ApiSettings
from store.errors import InvalidDatabaseUrl
from store.text.redaction import Redaction

#: Seconds that one request to the plugin may take where MEMORY_PLUGIN_TIMEOUT is not set.
TIMEOUT = "2s"
#: How long the plugin's first health is waited for, in seconds.
BOOT_S = 5.0
LAST_PORT = 65_535

log = structlog.get_logger("afterturn.perimeter")


def perimeter_command(
    *,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")] = (
        "127.0.0.1:9101"
    ),
    keys: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help='Callers, re-read at each call: `{"keys": [{"sha256": ..., "workspace": ...}]}`, digests of keys.',
        ),
    ],
    audit: Annotated[
        Path, typer.Option(metavar="FILE", help="File that records writes to an organisation's namespace.")
    ],
    redaction: Annotated[
        Redaction, typer.Option(help="Which secrets are replaced in texts: all, keys (no runs of base64), or off.")
    ] = Redaction.ALL,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Serve agents the six memory tools of MCP at /mcp, too (off by default).")
    ] = False,
    recall_memory: Annotated[
        bool,
        typer.Option(
            "--recall-memory", help="With --mcp: also serve the older recall_memory, whose scopes are LOCAL and TEAM."
        ),
    ] = False,
    embedder: EmbedderOption = False,
    config: ConfigOption = None,
    workspaces: WorkspacesOption = None,
) -> None:
    """Serve a platform's workspace routes in front of a memory plugin, with access control, until Ctrl-C.

    `GET /workspaces/{id}/v2/namespaces` and `.../memories`, `DELETE .../memories/{memory_id}` and
    `.../namespaces/{name}`. MEMORY_PLUGIN_URL names the plugin; without it every call is answered 503. Prints one line
    of JSON when it listens. With --embedder, a plugin that searches by vectors alone is searched by a query's meaning;
    `--config` and AFTERTURN_EMBEDDING__* name the model: one of fastembed's list, a folder, or an endpoint.

    **Example:** `afterturn plugin perimeter --keys keys.json --audit audit.jsonl --workspaces tree.yaml`
    """
    if recall_memory and not mcp:
        raise exit_with("--recall-memory is a tool of --mcp: give both", 2)
    model = create_model(config) if embedder else None
    host, port = _parse_address(listen)
    if error := find_bind_error(port, host):
        raise exit_with(f"--listen {listen}: {error.strerror}: choose another address of this machine", 1)
    described = describe_workspaces(workspaces)
    database = os.environ.get("DATABASE_URL", "")
    if not database and "workspaces" not in described:
        raise exit_with("DATABASE_URL is required, or --workspaces with the tree itself", 2)
    address = _plugin_address()
    logs.configure_logging(LogSettings())
    if not ipaddress.ip_address(host).is_loopback:
        log.warning("keys_unencrypted", next_step="put a proxy with TLS in front, and listen on loopback")

    # Imported only now: it loads prometheus_client, for which `afterturn plugin`, an importer, sets a folder first.
    from producers.perimeter.http import create_perimeter_app  # noqa: PLC0415

    async def run() -> None:
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(open_engine(database))
            plugin = await _open_plugin(stack, address)
            tree = make_tree(workspaces, described, engine)
            vectors = await stack.enter_async_context(open_embedder(model))
            perimeter = Perimeter(plugin, tree, AuditFile(audit), redaction=redaction, embedder=vectors)
            app = create_perimeter_app(perimeter, CallerFile(keys), tools=mcp, legacy=recall_memory)
            await _serve_app(app, host, port)

    try:
        # uvloop, as in the API: on asyncio's own loop, Granian aborts one process in six when it ends.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    except InvalidDatabaseUrl as error:
        raise exit_with(f"DATABASE_URL {error}", 2) from None
    except PerimeterError as error:
        raise exit_with(str(error), 2) from None


def _parse_address(listen: str) -> tuple[str, int]:
    """Return the numeric address and the port of `--listen`; exits 2 for anything else."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]").replace("localhost", "127.0.0.1")
    with suppress(ValueError):
        ipaddress.ip_address(host)
        if port.isascii() and port.isdigit() and int(port) <= LAST_PORT:
            return host, int(port) or find_free_port()
    raise exit_with(f"--listen {listen}: give an address and a port, like 127.0.0.1:9101", 2)


def _plugin_address() -> PluginAddress | None:
    """Return the validated address of the plugin, None when there is none; exits 2 for an invalid URL."""
    address = plugin_address(TIMEOUT)
    try:
        return address if address is None or address.target else None
    except PerimeterError as error:
        raise exit_with(str(error), 2) from None


async def _open_plugin(stack: AsyncExitStack, address: PluginAddress | None) -> PluginClient | None:
    """Return a client of the plugin, which need not be reachable yet; None without an address."""
    if address is None:
        log.warning("no_memory_plugin", next_step="set MEMORY_PLUGIN_URL")
        return None
    plugin = await stack.enter_async_context(PluginClient(address, breaker=CircuitBreaker()))
    try:
        async with asyncio.timeout(BOOT_S):
            health = await plugin.health()
    except (PerimeterError, TimeoutError) as error:
        log.warning("memory_plugin_unavailable", error=type(error).__name__)
    else:
        log.info("memory_plugin", status=health.status, capabilities=list(health.capabilities))
    return plugin


async def _serve_app(app: Any, host: str, port: int) -> None:
    ending, loop = asyncio.Event(), asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, ending.set)
    telling = asyncio.create_task(_tell_when_ready(host, port))
    try:
        # Imported only now: prometheus_client decides at import whether processes share their samples.
        from deploy.api.http_server import serve_application  # noqa: PLC0415

        await serve_application(app, host, port, ApiSettings(), ending)
    finally:
        telling.cancel()


async def _tell_when_ready(host: str, port: int) -> None:
    """Print the perimeter's URL as JSON once the server listens."""
    while True:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            break
    shown = f"[{host}]" if ":" in host else host
    print_json({"perimeter": f"http://{shown}:{port}"})
