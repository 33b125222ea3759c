"""Parses and checks the memory plugin's address and tenant."""

import socket
from dataclasses import dataclass
from pathlib import Path

from deploy.local.ports import find_bind_error, find_free_port
from embeddings.loopback import is_loopback
from producers.settings import PluginSettings

#: Where `afterturn plugin` listens unless it is told otherwise: the contract's own default.
LISTEN = "127.0.0.1:9100"
UNIX = "unix:"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A numeric address with a port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: Path | None = None

    @property
    def url(self) -> str:
        """The URL that callers get as MEMORY_PLUGIN_URL."""
        if self.path is not None:
            return f"{UNIX}{self.path}"
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    @property
    def listen(self) -> str:
        """The value of `plugin.listen` that names this address."""
        return self.url.removeprefix("http://")

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can reach the address."""
        return self.path is not None or is_loopback(self.host)


def parse_listen(listen: str) -> ListenAddress:
    """Return the address that `plugin.listen` names; for port 0 choose a free one.

    Raises ValueError whose text says what to write.
    """
    if listen.startswith(UNIX):
        path = Path(listen.removeprefix(UNIX))
        if not path.is_absolute() or not path.parent.is_dir():
            raise ValueError(f"plugin.listen: {listen} must be unix:/PATH in a folder that is there")
        return ListenAddress(path=path)
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the last port
        raise ValueError(f"plugin.listen: {listen} must be HOST:PORT (127.0.0.1:9100) or unix:/PATH")
    try:
        found = socket.getaddrinfo(host.strip("[]") or "0.0.0.0", int(port), type=socket.SOCK_STREAM)[0][4]  # noqa: S104
    except OSError as error:
        raise ValueError(f"plugin.listen: {listen} names no address ({error.strerror})") from None
    return ListenAddress(str(found[0]), int(found[1]) or find_free_port())


def find_address(settings: PluginSettings, *, shared: bool = False) -> ListenAddress | None:
    """Return the address where the plugin is to listen; None when it has no listener of its own.

    Raises ValueError for settings with which it cannot start.
    """
    if not settings.listen:
        return None
    if not settings.tenant:
        raise ValueError("plugin.tenant: the plugin has no keys: say whose memories it serves (--tenant NAME)")
    address = parse_listen(settings.listen)
    error = None if shared or address.path is not None else find_bind_error(address.port, address.host)
    if error:
        raise ValueError(
            f"plugin.listen: {address.host}:{address.port}: {error.strerror}: choose another address of this machine"
        )
    return address


def find_warning(settings: PluginSettings, address: ListenAddress) -> str | None:
    """Return a warning when the plugin can be reached from other machines without a token, else None."""
    if address.is_local or settings.token.get_secret_value():
        return None
    return (
        f"the memory plugin listens at {address.url}, beyond this machine, and asks for no token: any caller "
        "reads and writes the memories of its tenant; set plugin.token, or listen on loopback"
    )
