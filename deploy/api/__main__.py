"""The API process: `python -P -m deploy.api`. Exit codes: 0 stopped when told to, 2 settings or address unusable."""

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.api.plugin_address import find_address as find_plugin_address
from deploy.components.process_settings import can_start, load_process_settings, prepare_samples
from deploy.components.process_setup import forbid_core_dumps, importing
from deploy.observability.samples import API_SAMPLES
from deploy.settings import find_settings_without_effect


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the settings, check the address, serve until SIGTERM or SIGINT, and return the exit code."""
    forbid_core_dumps()
    parser = argparse.ArgumentParser(prog="deploy.api", description="serve the Afterturn API")
    parser.add_argument("--config", type=Path, help="a YAML or JSON file of settings")
    parser.add_argument("--shared", action="store_true", help="other processes of ours listen at the address, too")
    parser.add_argument("--plugin-only", action="store_true", help="serve the memory plugin alone")
    parser.add_argument("--plugin-listen", metavar="ADDR", help="where the plugin listens, before all settings")
    parser.add_argument("--plugin-tenant", metavar="NAME", help="whose memories it serves, before all settings")
    chosen = parser.parse_args(arguments)
    plugin_settings = {"listen": chosen.plugin_listen, "tenant": chosen.plugin_tenant}
    loaded = load_process_settings("deploy.api", chosen.config, {"plugin": plugin_settings})
    if loaded is None:
        return 2
    settings = loaded.settings
    for key, why in find_settings_without_effect(loaded).items():
        print(f"deploy.api: warning: {key} changes nothing here: {why}", file=sys.stderr)
    if not can_start("deploy.api", settings):
        return 2
    try:
        plugin = find_plugin_address(settings.plugin, shared=chosen.shared)
    except ValueError as error:
        print(f"deploy.api: {error}", file=sys.stderr)
        return 2
    find_address = resolve_address if chosen.shared else find_free_address
    address = None if chosen.plugin_only else find_address(settings.api.host, settings.api.port)
    if isinstance(address, OSError):
        place = f"{settings.api.host}:{settings.api.port}"
        print(
            f"deploy.api: cannot listen on {place}: {os.strerror(address.errno) if address.errno else address}",
            file=sys.stderr,
        )
        return 2
    if not prepare_samples("deploy.api", settings.metrics_dir / API_SAMPLES):
        return 2
    with importing():
        # Imported only now: prometheus_client decides at import whether processes share their samples.
        from deploy.api.process import run_api  # noqa: PLC0415
    run_api(loaded, address, plugin)
    return 0


def resolve_address(host: str, port: int) -> tuple[str, int] | OSError:
    """Return the numeric address and port of a host name, or the error when it cannot be resolved."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4]
    except OSError as error:
        return error
    return str(found[0]), int(found[1])


def find_free_address(host: str, port: int) -> tuple[str, int] | OSError:
    """Return the numeric address and port, or the error when it cannot be listened on.

    The server binds with SO_REUSEPORT and would share an address that another API uses, so this is checked first.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.create_server(address[:2], family=family) as taken:
            found = taken.getsockname()
            return str(found[0]), int(found[1])
    except OSError as error:
        return error


if __name__ == "__main__":
    sys.exit(main())
