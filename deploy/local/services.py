"""Describes the API and the workers as child processes: command lines and environment."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.api.plugin_address import ListenAddress
from deploy.components.bootstrap import HOST, BootstrapKeys
from deploy.local import Child, PostgresEndpoint, survivors
from deploy.local.child import LOGS
from deploy.local.http_probe import fetch_answer
from deploy.local.ports import LOOPBACK
from deploy.settings import Settings
from workers.settings import GatewayMode, sealing_keys

ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104  (recognised, not bound)
LIVE, READY = "/health/live", "/health/ready"
#: Text in the API's readiness answer while its model loads.
LOADING = b"is being loaded"
HEALTH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Services:
    """What the processes of a stack must know about it: settings, addresses, credentials."""

    settings: Settings
    port: int
    database: PostgresEndpoint
    broker_url: str = field(repr=False)
    credentials: BootstrapKeys
    config: Path | None = None
    plugin: ListenAddress | None = None

    @property
    def address(self) -> str:
        """Return the address a client on this machine uses."""
        host = self.settings.api.host
        return LOOPBACK if host in ANY_ADDRESS else host

    @property
    def api_url(self) -> str:
        """Return the API's base URL."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}"

    @property
    def sealing_keys(self) -> str:
        """Return the sealing keys, separated by commas: those of the settings, then the one created for this stack."""
        own = sealing_keys(self.settings.gateway.sealing_keys)
        return ",".join(dict.fromkeys([*own, self.credentials.sealing_key]))

    def environment(self) -> dict[str, str]:
        """Return our environment with this stack's settings added, and without the URL of the database's owner."""
        settings = self.settings
        told = {
            survivors.MARK: str(settings.data),
            "AFTERTURN_DATA": str(settings.data),
            "AFTERTURN_METRICS_DIR": str(settings.metrics_dir),
            "PROMETHEUS_MULTIPROC_DIR": str(settings.metrics_dir),
            "AFTERTURN_DATABASE__URL": self.database.app_url,
            "AFTERTURN_DATABASE__OPERATOR_URL": self.database.operator_url,
            "AFTERTURN_BROKER__URL": self.broker_url,
            "AFTERTURN_API__HOST": settings.api.host,
            "AFTERTURN_API__PORT": str(self.port),
            "AFTERTURN_API__CONSOLE__ENABLED": json.dumps(settings.api.console.enabled is not False),
            "AFTERTURN_LOG__FORMAT": settings.log.format.value,
        }
        ours = {name: value for name, value in os.environ.items() if name != "AFTERTURN_DATABASE__OWNER_URL"}
        file = {"AFTERTURN_CONFIG": str(self.config.absolute())} if self.config else {}
        return ours | file | told | self._gateway_environment() | self._memory_plugin()

    def log(self, name: str) -> Path:
        """Return the log file of a process; it does not use our output, which may have no reader."""
        return self.settings.data / LOGS / f"{name}.log"

    def is_live(self) -> bool:
        """Return whether the API answers."""
        return self._fetch_answer(LIVE) is not None

    def is_loading(self) -> bool:
        """Return whether the API still loads its model, so that its first answers would be slow."""
        return LOADING in (self._fetch_answer(READY) or b"")

    def _fetch_answer(self, path: str) -> bytes | None:
        return fetch_answer(self.address, self.port, path, HEALTH_SECONDS)

    def _memory_plugin(self) -> dict[str, str]:
        if self.plugin is None:
            return {}
        tenant = self.settings.plugin.tenant or HOST
        return {"AFTERTURN_PLUGIN__LISTEN": self.plugin.listen, "AFTERTURN_PLUGIN__TENANT": tenant}

    def _gateway_environment(self) -> dict[str, str]:
        gateway = self.settings.gateway
        told = {
            "AFTERTURN_GATEWAY__MODE": gateway.mode.value,
            "AFTERTURN_GATEWAY__SEALING_KEYS": self.sealing_keys,
        }
        if gateway.mode is GatewayMode.URL:
            told["AFTERTURN_GATEWAY__BASE_URL"] = gateway.base_url
        if gateway.mode is GatewayMode.SELF:
            told["AFTERTURN_GATEWAY__BASE_URL"] = self.api_url
            told["AFTERTURN_GATEWAY__USER_ID"] = self.credentials.gateway_user
            told["AFTERTURN_GATEWAY__USER_KEY"] = self.credentials.gateway_key
        return told


def describe_api(services: Services) -> Child:
    """Return the description of the API's process."""
    return Child(
        name="api",
        argv=(sys.executable, "-P", "-m", "deploy.api"),
        environment=services.environment(),
        log=services.log("api"),
        ready=lambda _pid: services.is_live(),
    )


def count_default_workers() -> int:
    """Return the default number of workers: one per two cores.

    Measured on two cores: a second worker gained 15 %, and calls took twice as long.
    """
    return max(1, (os.cpu_count() or 1) // 2)


def describe_workers(services: Services, count: int) -> Sequence[Child]:
    """Return the descriptions of `count` worker processes."""
    argv = (sys.executable, "-P", "-m", "deploy.worker")
    environment = services.environment()
    names = [f"worker-{n}" for n in range(1, count + 1)]
    return [Child(name=name, argv=argv, environment=environment, log=services.log(name)) for name in names]
