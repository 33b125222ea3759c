"""Debian's PgBouncer in transaction mode before a PostgreSQL of the tests."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url

from deploy.local.ports import LOOPBACK, find_free_port
from tests.certificates import Certificate
from tests.packages import program
from tests.patience import wait_until
from tests.processes import spawned
from tests.tls_servers import listens

CONFIGURATION = """\
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = {address}
listen_port = {own}
auth_type = plain
auth_file = {users}
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 500
unix_socket_dir =
ignore_startup_parameters =
"""
ENCRYPTED = """\
client_tls_sslmode = require
client_tls_cert_file = {certificate}
client_tls_key_file = {key}
"""


@contextmanager
def pgbouncer(urls: Sequence[str], *, sessions: int = 2, shown: Certificate | None = None) -> Iterator[list[str]]:
    """Lend the same URLs through a pooler that has so many sessions with the server for each role.

    With a certificate, it talks to nobody in clear.
    """
    parsed = [make_url(url) for url in urls]
    own, folder = find_free_port(), Path(tempfile.mkdtemp(prefix="afterturn-pgbouncer-"))
    users, configuration = folder / "users.txt", folder / "pgbouncer.ini"
    users.write_text("".join(f'"{url.username}" "{url.password}"\n' for url in parsed))
    configuration.write_text(
        CONFIGURATION.format(
            host=parsed[0].host, port=parsed[0].port, address=LOOPBACK, own=own, users=users, sessions=sessions
        )
    )
    private = [users, configuration, *(_copy_certificate(folder, configuration, shown) if shown else ())]
    command: list[str | Path] = [program("pgbouncer", "pgbouncer"), configuration]
    if os.getuid() == 0:  # it refuses to run as root
        nobody = pwd.getpwnam("nobody")
        for path in (folder, *private):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        command[1:1] = ["-u", "nobody"]
    try:
        with spawned(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            wait_until(lambda: listens(own), "PgBouncer listens")
            yield [url.set(host=LOOPBACK, port=own).render_as_string(hide_password=False) for url in parsed]
    finally:
        shutil.rmtree(folder)


def _copy_certificate(folder: Path, configuration: Path, shown: Certificate) -> list[Path]:
    """Have the pooler show a certificate, from copies that its account can read; returns them."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    shutil.copy(shown.certificate, certificate)
    shutil.copy(shown.key, key)
    with configuration.open("a") as more:
        more.write(ENCRYPTED.format(certificate=certificate, key=key))
    return [certificate, key]
