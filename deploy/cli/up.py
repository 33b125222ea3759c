"""`afterturn up`: the whole product in the foreground, with nothing else installed."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from deploy.cli.console import ConsoleUnavailable, create_link
from deploy.local.errors import EmbeddedError
from deploy.local.folder_lock import FolderInUse
from deploy.local.local_stack import LocalStack, PortInUse
from deploy.local.prometheus import find_alerts_page
from deploy.local.services import count_default_workers
from deploy.local.stack import Stack
from deploy.settings import LogFormat, load_settings
from deploy.settings_errors import SettingsError
from store.errors import RevisionRefused
from workers.settings import GatewayMode

EXAMPLE_TURN = {
    "session_id": "hello",
    "turn_id": "1",
    "messages": [
        {"role": "user", "content": "I moved to Ljubljana in May."},
        {"role": "assistant", "content": "Noted."},
    ],
}
EXAMPLE_QUESTION = {"query": "Where do I live?"}


def up_command(
    *,
    data: Annotated[Path | None, typer.Option(help="Data folder.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The API's port; 0 picks a free one.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Number of worker processes (default: one for every two cores).")
    ] = None,
    gateway: Annotated[
        str | None,
        typer.Option(
            metavar="self|off|URL", help="Memory Gateway that turns of the tenant `gateway.host` are delivered to."
        ),
    ] = None,
    dashboards: Annotated[
        bool, typer.Option("--dashboards", help="Also start a Prometheus, if installed, with the rules and alerts.")
    ] = False,
    plugin: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR",
            help="Also serve the memory plugin (contract v1): HOST:PORT or unix:/PATH. Callers need no key.",
        ),
    ] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="Format of log lines.")] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML or JSON file of settings.")] = None,
) -> None:
    """Run everything on this machine: PostgreSQL, Valkey, the API and workers, until Ctrl-C."""
    overrides = _collect_overrides(data, port, gateway, log_format) | {"plugin": {"listen": plugin}}
    try:
        settings = load_settings(config=config, overrides=overrides).settings
    except SettingsError as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from None
    settings = settings.model_copy(update={"data": settings.data.resolve()})
    say = _create_notifier(settings.log.format)
    try:
        stack = LocalStack(
            settings,
            worker_count=workers or count_default_workers(),
            say=say,
            ready=_print_ready,
            config=config,
            dashboards=dashboards,
        )
        status = stack.run()
    except (EmbeddedError, FolderInUse, PortInUse, RevisionRefused) as error:
        say(str(error))
        status = 1
    raise typer.Exit(status)


def _collect_overrides(
    data: Path | None, port: int | None, gateway: str | None, log_format: LogFormat | None
) -> dict[str, Any]:
    """Return the options as settings, nested like the tree; None: not given."""
    return {
        "data": data,
        "api": {"port": port},
        "gateway": _parse_gateway(gateway),
        "log": {"format": log_format},
    }


def _parse_gateway(wanted: str | None) -> dict[str, str]:
    if wanted is None:
        return {}
    if wanted in (GatewayMode.OFF, GatewayMode.SELF):
        return {"mode": wanted}
    return {"mode": GatewayMode.URL, "base_url": wanted}


def _create_notifier(log_format: LogFormat) -> Callable[[str], None]:
    def in_words(line: str) -> None:
        _print_at_once(f"afterturn: {line}", sys.stderr)

    def in_json(line: str) -> None:
        now = datetime.now(UTC).isoformat()
        record = {"timestamp": now, "level": "warning", "logger": "deploy.local.supervisor", "event": line}
        _print_at_once(json.dumps(record), sys.stderr)

    return in_json if log_format is LogFormat.JSON else in_words


def _print_ready(stack: Stack) -> None:
    """Print the READY line, then how to use the stack."""
    lines = (
        stack.ready_line(),
        "Remember something, then ask for it:",
        f"  {_format_curl(stack, 'turns', EXAMPLE_TURN)}",
        f"  {_format_curl(stack, 'recall', EXAMPLE_QUESTION)}",
        *_describe_console(stack),
        *(
            [f"Prometheus: {find_alerts_page(stack.prometheus)}; dashboards for Grafana: deploy/grafana."]
            if stack.prometheus
            else []
        ),
        f"Logs are in {stack.api_key_file.with_name('logs')}. Ctrl-C stops everything; what was remembered stays.",
    )
    _print_at_once("\n".join(lines), sys.stdout)


def _describe_console(stack: Stack) -> list[str]:
    """Return the line that says how to open the console; no line where it is not served."""
    try:
        return [f"Console (this link signs in once): {create_link(stack)}"]
    except ConsoleUnavailable:
        return []


def _print_at_once(text: str, stream: TextIO) -> None:
    """Print a line unbuffered; ignore a closed pipe."""
    try:
        print(text, file=stream, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _format_curl(stack: Stack, call: str, body: dict[str, Any]) -> str:
    key = f'"Authorization: Bearer $(cat {shlex.quote(str(stack.api_key_file))})"'
    sent = shlex.quote(json.dumps(body))
    return f"curl -sS {stack.api}/api/v1/{call} -H {key} -H 'Content-Type: application/json' -d {sent}"
