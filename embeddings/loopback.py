"""Host names that mean this machine."""

import ipaddress


def is_loopback(name: str) -> bool:
    """Return whether a host name means this machine itself."""
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
