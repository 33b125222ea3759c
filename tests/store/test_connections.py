"""How a URL says which PostgreSQL is meant and how the connection is secured."""

import ast
import ssl
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError
from sqlalchemy import event

from store.connections import TlsMode, create_engine, is_local, tls_mode
from store.errors import InvalidDatabaseUrl
from store.settings import DatabaseSettings
from tests.certificates import Authority
from tests.parsed import parse_with
from tests.tables import each_row

AWAY = "postgresql+asyncpg://app:secret@db.example:5432/afterturn"
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("deploy", "workers", "producers", "store", "embeddings")
#: Calls that make an engine, a connection or a pool.
OPENING = frozenset({"create_async_engine", "asyncpg.connect", "create_pool"})


class SeenError(Exception):
    """The driver's arguments were seen; nothing is to be connected to."""


async def given_to_the_driver(url: str) -> Any:
    """Return what the driver would be given as `ssl`."""
    seen: dict[str, Any] = {}

    def look(_dialect: object, _record: object, _arguments: object, named: dict[str, Any]) -> None:
        seen.update(named)
        raise SeenError

    engine = create_engine(url)
    event.listen(engine.sync_engine, "do_connect", look)
    with pytest.raises(SeenError):
        async with engine.connect():
            pass
    assert not {"sslmode", "sslrootcert", "sslcert", "sslkey"} & set(seen)
    return seen["ssl"]


@each_row(
    "host",
    ["localhost", "127.0.0.1", "127.8.9.1", "[::1]"],
)
def test_a_connection_that_stays_on_this_machine_is_not_encrypted_unless_the_url_says_so(host: str) -> None:
    assert tls_mode(f"postgresql+asyncpg://app:pw@{host}:5432/x") is TlsMode.DISABLE
    assert tls_mode(f"postgresql+asyncpg://app:pw@{host}:5432/x?sslmode=verify-full") is TlsMode.VERIFY_FULL


def test_a_folder_of_sockets_is_this_machine() -> None:
    assert is_local("postgresql+asyncpg://app@/x?host=/run/postgresql")


@each_row(
    "url",
    [
        AWAY,
        "postgresql+asyncpg://app:127.0.0.1@db.example/x",
        "postgresql+asyncpg://127.0.0.1:localhost@db.example/127.0.0.1",
        "postgresql+asyncpg://app:pw@127.0.0.1.example.com/x",
        "postgresql+asyncpg://app:pw@10.0.0.7/x",
        "postgresql+asyncpg://app:pw@localhost/x?host=db.example",
        "postgresql+asyncpg://app:pw@/x?host=127.0.0.1:5432&host=db.example:5432",
        "postgresql://app:pw@db.example/x",
    ],
)
def test_any_other_machine_must_prove_its_name_unless_the_url_says_otherwise(url: str) -> None:
    assert tls_mode(url) is TlsMode.VERIFY_FULL
    assert not is_local(url)


@each_row("name", ["ssl", "sslmode"])
@each_row("mode", list(TlsMode))
def test_ssl_and_sslmode_are_both_obeyed(name: str, mode: TlsMode) -> None:
    assert tls_mode(f"{AWAY}?{name}={mode}") is mode


@each_row(
    "url,flaw",
    [
        (f"{AWAY}?sslmode=verify_full", "not one of disable, allow, prefer, require, verify-ca, verify-full"),
        (f"{AWAY}?ssl=true", "not one of"),
        (f"{AWAY}?ssl=require&sslmode=disable", "contradict"),
        (f"{AWAY}?sslmode=require&sslmode=disable", "once"),
        (f"{AWAY}?sslmode=disable&sslrootcert=ca.pem", "need sslmode=require or stricter"),
        (f"{AWAY}?sslkey=client.key", "sslkey without sslcert"),
        (f"{AWAY}?sslrootcert=/no/such/file", "sslrootcert that cannot be used (No such file or directory)"),
        (f"{AWAY}?sslcert=/no/such/file", "sslcert that cannot be used (No such file or directory)"),
        (f"{AWAY}?sslcrl=gone.pem", "parameter behind its ? that is not known"),
        ("mysql://app:secret@db.example/x", "must begin with postgresql+asyncpg://"),
        ("secret", "must be a URL of the form"),
        ("postgresql+asyncpg://app:secret@db.example:port/x", "must be a URL of the form"),
        ("postgresql+asyncpg://app:secret@/x", "names no host"),
        (f"{AWAY}?host=a:1&host=b:2&port=3", "do not match"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_with_the_reason_and_without_the_url(url: str, flaw: str) -> None:
    with pytest.raises(InvalidDatabaseUrl) as refused:
        create_engine(url)
    assert flaw in str(refused.value)
    with pytest.raises(ValidationError) as of_settings:
        DatabaseSettings(url=SecretStr(url))
    [detail] = of_settings.value.errors(include_input=False)
    assert flaw in detail["msg"]
    for shown in (str(refused.value), detail["msg"]):
        assert "secret" not in shown
        assert "db.example" not in shown


async def test_the_certificates_of_a_url_are_checked_as_libpq_would(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    expected = {
        "sslmode=require": (ssl.CERT_NONE, False),
        f"sslmode=require&sslrootcert={authority.certificate}": (ssl.CERT_REQUIRED, False),
        f"sslmode=verify-ca&sslrootcert={authority.certificate}": (ssl.CERT_REQUIRED, False),
        f"sslmode=verify-full&sslrootcert={authority.certificate}": (ssl.CERT_REQUIRED, True),
        "sslmode=require&sslrootcert=system": (ssl.CERT_REQUIRED, True),
        "": (ssl.CERT_REQUIRED, True),
    }
    for query, checked in expected.items():
        context = await given_to_the_driver(f"{AWAY}?{query}")
        assert (context.verify_mode, context.check_hostname) == checked, query


async def test_modes_that_leave_it_to_the_server_reach_the_driver_as_they_are() -> None:
    assert await given_to_the_driver(f"{AWAY}?sslmode=prefer") == "prefer"
    assert await given_to_the_driver(f"{AWAY}?ssl=allow") == "allow"
    assert await given_to_the_driver(f"{AWAY}?ssl=disable") is False


def test_no_engine_and_no_connection_is_made_beside_the_one_function() -> None:
    found = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path, tree in parse_with((ROOT / package).rglob("*.py"), *OPENING)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        # The laboratory makes faults: half a statement is what no engine sends.
        and not path.is_relative_to(ROOT / "deploy" / "lab")
        # The client is a package of its own, which has nothing of ours; its store writes to the platform's database.
        and not path.is_relative_to(ROOT / "producers" / "client")
        and _called(node.func) in OPENING
    ]
    assert found == ["store/connections.py"]


def _called(function: ast.expr) -> str:
    name = ast.unparse(function)
    return name if name == "asyncpg.connect" else name.rpartition(".")[2]
