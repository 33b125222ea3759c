"""Names under which a service may be reached: what a setting lists, and what a request asks for."""

import ipaddress
import re

from pydantic_core import PydanticCustomError

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.IGNORECASE)
_PORT = re.compile(r"[0-9]{1,5}")


def split_port(host: str) -> tuple[str, str]:
    """Return the name of a host in lower case, without brackets and its last dot, and its port, empty without one."""
    name, _, port = host.partition("]") if host.startswith("[") else host.partition(":")
    if not host.startswith("[") and ":" in port:
        return host.lower(), ""  # an IPv6 address without brackets
    return name.lstrip("[").lower().rstrip("."), port.lstrip(":")


def is_address(name: str) -> bool:
    """Return whether a name is an IP address: such a name cannot be made to point elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def check_host_name(host: str) -> str:
    """Return a name of `api.allowed_hosts`. Raises PydanticCustomError for what no Host could be."""
    name, port = split_port(host.strip())
    bracketed = host.strip().startswith("[")
    known = is_address(name) and "]" in host if bracketed else is_address(name) or _NAME.fullmatch(name)
    if not known or (port and not _PORT.fullmatch(port)):
        flaw = (
            "must be a name or an address, with or without a port: memory.example, memory.example:8443, [fd00::1]:8443"
        )
        raise PydanticCustomError("host_name", "{flaw}", {"flaw": flaw})
    return host.strip()
