"""Opens every database engine: parses the URL and secures its connections.

A URL names its TLS as libpq does, by `sslmode` (or `ssl`), `sslrootcert`, `sslcert` and `sslkey`. Without a mode, a
connection that stays on this machine is not encrypted, and one to any other machine is `verify-full`: nothing is sent
to a server that cannot prove its name. Weaker modes to another machine are used only where the URL says so.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from embeddings.loopback import is_loopback
from store.errors import InvalidDatabaseUrl

DRIVER = "postgresql+asyncpg"
SCHEMES = frozenset({DRIVER, "postgresql", "postgres"})
CERTIFICATES = ("sslrootcert", "sslcert", "sslkey")
#: What a URL may name behind its `?`. Anything else is refused, so that no parameter is ignored in silence.
PARAMETERS = frozenset({"ssl", "sslmode", *CERTIFICATES, "host", "port", "target_session_attrs"})
#: As in libpq: the authorities that the operating system trusts.
SYSTEM = "system"
#: The session setting by which the owner's row policies let a session work on every tenant's rows.
EVERY_HOST = {"afterturn.every_host": "on"}
#: Settings of every session of ours, by which the server notices a client that is gone: within 30 s where its machine
#: or the network is, and within 5 s of a statement where its process is.
LIVENESS: Mapping[str, str] = MappingProxyType(
    {
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "4",
        "tcp_user_timeout": "30000",
        "client_connection_check_interval": "5s",
    }
)
NOTHING: Mapping[str, Any] = MappingProxyType({})
#: Connect arguments of sessions that a pooler in transaction mode may lend to others between two transactions:
#: statements have no names and are sent anew each time.
NAMELESS: Mapping[str, Any] = MappingProxyType(
    {"statement_cache_size": 0, "prepared_statement_cache_size": 0, "prepared_statement_name_func": str}
)


class TlsMode(StrEnum):
    """The security of a connection, by the names of libpq's `sslmode`."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


#: The server decides whether these are encrypted, and its certificate is not checked.
ADVISORY = frozenset({TlsMode.ALLOW, TlsMode.PREFER})


def create_engine(
    url: str | URL, *, timeout_s: float = 10.0, driver: Mapping[str, Any] = NOTHING, **options: Any
) -> AsyncEngine:
    """Return an engine whose connections are secured as the URL says; nothing is opened yet.

    `driver` are asyncpg's connect arguments, `options` those of SQLAlchemy's engine. Errors never show parameters.
    Raises InvalidDatabaseUrl.
    """
    address = _parse_url(url)
    arguments = {"timeout": timeout_s, **driver, "ssl": _tls_argument(address)}
    # An error that quoted its parameters would quote what people said.
    plain = address.difference_update_query(["ssl", "sslmode", *CERTIFICATES])
    return create_async_engine(plain, hide_parameters=True, connect_args=arguments, **options)


def create_owner_engine(
    url: str | URL, *, timeout_s: float = 10.0, driver: Mapping[str, Any] = NOTHING, **options: Any
) -> AsyncEngine:
    """Return an engine for the role that owns the tables, whose sessions work on every tenant's rows.

    Row policies apply to the owner as to the service's roles: as the owner, a session of `create_engine` sees only the
    rows of the tenant that its transaction names. Otherwise as `create_engine`.
    """
    settings = {**LIVENESS, **driver.get("server_settings", NOTHING), **EVERY_HOST}
    return create_engine(url, timeout_s=timeout_s, driver={**driver, "server_settings": settings}, **options)


def check_url(url: str) -> None:
    """Raise InvalidDatabaseUrl, whose text repeats no part of the URL, where `create_engine` would."""
    _tls_argument(_parse_url(url))


def tls_mode(url: str) -> TlsMode:
    """Return the TLS mode of connections to this URL. Raises InvalidDatabaseUrl."""
    return _tls_mode(_parse_url(url))


def is_local(url: str) -> bool:
    """Return whether connections to this URL stay on this machine. Raises InvalidDatabaseUrl."""
    return _stays_here(_parse_url(url))


def _parse_url(url: str | URL) -> URL:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):  # their texts quote the URL, password included
        raise InvalidDatabaseUrl(f"must be a URL of the form {DRIVER}://user:password@host:port/name") from None
    if address.drivername not in SCHEMES:
        raise InvalidDatabaseUrl(f"must begin with {DRIVER}://")
    if set(address.query) - PARAMETERS:
        known = ", ".join(sorted(PARAMETERS))
        raise InvalidDatabaseUrl(f"has a parameter behind its ? that is not known; known are {known}")
    if not all(_url_hosts(address)):
        raise InvalidDatabaseUrl("names no host")
    return address.set(drivername=DRIVER)


def _url_hosts(address: URL) -> list[str]:
    """Return every host that the driver may connect to."""
    try:
        _, arguments = address.set(drivername=DRIVER).get_dialect()().create_connect_args(address)
    except (ArgumentError, ValueError):
        raise InvalidDatabaseUrl("names hosts and ports that do not match") from None
    hosts = arguments.get("host") or ""
    return [hosts] if isinstance(hosts, str) else list(hosts)


def _stays_here(address: URL) -> bool:
    """Return whether every host is a folder of Unix sockets or this machine's loopback."""
    return all(host.startswith("/") or is_loopback(host) for host in _url_hosts(address))


def _tls_mode(address: URL) -> TlsMode:
    said = {_single_value(address, name) for name in ("ssl", "sslmode") if name in address.query}
    if len(said) > 1:
        raise InvalidDatabaseUrl("has ssl= and sslmode= that contradict each other; give one of them")
    if not said:
        return TlsMode.DISABLE if _stays_here(address) else TlsMode.VERIFY_FULL
    try:
        return TlsMode(said.pop())
    except ValueError:
        raise InvalidDatabaseUrl(f"has an sslmode that is not one of {', '.join(TlsMode)}") from None


def _single_value(address: URL, name: str) -> str:
    said = address.query[name]
    if not isinstance(said, str):
        raise InvalidDatabaseUrl(f"must give {name}= once")
    return said


def _tls_argument(address: URL) -> ssl.SSLContext | str | bool:
    """Return the `ssl` argument of asyncpg for this URL."""
    mode = _tls_mode(address)
    files = {name: _single_value(address, name) for name in CERTIFICATES if name in address.query}
    if mode is TlsMode.DISABLE or mode in ADVISORY:
        if files:
            raise InvalidDatabaseUrl(f"names {' and '.join(files)}, which need sslmode=require or stricter")
        return False if mode is TlsMode.DISABLE else mode.value
    if "sslkey" in files and "sslcert" not in files:
        raise InvalidDatabaseUrl("names sslkey without sslcert")
    return _tls_context(mode, files)


def _tls_context(mode: TlsMode, files: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authorities = files.get("sslrootcert")
    context.check_hostname = mode is TlsMode.VERIFY_FULL or authorities == SYSTEM
    if mode is TlsMode.REQUIRE and authorities is None:
        context.verify_mode = ssl.CERT_NONE
    elif authorities is None or authorities == SYSTEM:
        context.load_default_certs()
    else:
        with _report_unreadable("sslrootcert"):
            context.load_verify_locations(Path(authorities).expanduser())
    if "sslcert" in files:
        certificate, key = Path(files["sslcert"]).expanduser(), files.get("sslkey")
        with _report_unreadable("sslcert" if key is None else "sslcert and sslkey"):
            # A key behind a password is refused here: without one given, OpenSSL would ask for it on the terminal.
            context.load_cert_chain(certificate, Path(key).expanduser() if key else None, password="")
    return context


@contextmanager
def _report_unreadable(names: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # SSLError is one
        reason = error.strerror or type(error).__name__
        raise InvalidDatabaseUrl(f"names files by {names} that cannot be used ({reason})") from None
