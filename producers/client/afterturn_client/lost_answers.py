"""Says of a call without an answer whom it was sent to, what happened, and what to look at next."""

import httpx

#: What an error of the connection says of itself (in lower case), and what that means.
_CAUSES = (
    (
        ("certificate",),
        "its certificate is not trusted here, or is for another name (SSL_CERT_FILE may name who signed it)",
    ),
    (("ssl", "tls"), "what listens there does not speak TLS: does its address begin with http://?"),
    (
        ("name or service", "name resolution", "getaddrinfo", "nodename", "no address associated"),
        "the name of the machine is not known",
    ),
    (("refused", "connection attempts failed"), "nothing listens there: is the service running, and is this its port?"),
)
LATE = "it took too long"
_CUT = "the connection was cut"
_CUT_IN_CLEAR = "the connection was cut: where the service speaks TLS, its address begins with https://"


def find_cause(error: httpx.RequestError) -> str:
    """Return what a connection's failure means; nothing of the request is in it."""
    if isinstance(error, httpx.TimeoutException):
        return LATE
    told = " ".join(str(one).lower() for one in (error, error.__cause__, error.__context__) if one is not None)
    if isinstance(error, httpx.ProxyError):
        return "the proxy that the environment names did not let it through"
    return next((cause for signs, cause in _CAUSES if any(sign in told for sign in signs)), "")


def describe_lost(method: str, address: str, cause: str) -> str:
    """Return the message of an error: nothing of the call but its method and the service's address."""
    unclear = _CUT_IN_CLEAR if address.startswith("http://") else _CUT
    return f"{method} {address or 'to the service'} (no answer): {cause or unclear}"
