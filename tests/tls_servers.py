"""Servers before a PostgreSQL for tests of TLS: Debian's stunnel, and one that refuses to encrypt and listens on."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from deploy.local.ports import LOOPBACK, find_free_port
from tests.certificates import Certificate
from tests.packages import program
from tests.patience import wait_until
from tests.processes import spawned

SSL_REQUEST_BYTES = 8
REFUSED = b"N"
STUNNEL = """\
foreground = yes
syslog = no
pid =
[{protocol}]
accept = {host}:{port}
connect = {host}:{behind}
protocol = {protocol}
cert = {certificate}
key = {key}
{more}
"""


@contextmanager
def stunnel(
    folder: Path, behind: int, shown: Certificate, *, clients: Path | None = None, protocol: str = "pgsql"
) -> Iterator[int]:
    """Encrypt a clear server on a port of its own, and lend that; with `clients`, only those that authority signed."""
    port, configuration = find_free_port(), folder / "stunnel.conf"
    more = f"CAfile = {clients}\nverifyChain = yes" if clients else ""
    text = STUNNEL.format(
        host=LOOPBACK,
        port=port,
        behind=behind,
        certificate=shown.certificate,
        key=shown.key,
        more=more,
        protocol=protocol,
    )
    configuration.write_text(text.replace("protocol = tls\n", ""))
    with spawned([program("stunnel4", "stunnel4"), configuration], stderr=subprocess.DEVNULL):
        wait_until(lambda: listens(port), "stunnel listens")
        yield port


class Refusing:
    """Answers that it does not encrypt, and keeps whatever it is sent all the same."""

    def __init__(self) -> None:
        self.asked = 0
        self.in_clear = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(SSL_REQUEST_BYTES)
        if len(first) == SSL_REQUEST_BYTES and first.endswith(b"\x04\xd2\x16\x2f"):
            self.asked += 1
            writer.write(REFUSED)
            first = b""
        self.in_clear += first + await reader.read(4096)
        writer.close()


@asynccontextmanager
async def refusing() -> AsyncGenerator[tuple[Refusing, int]]:
    """Lend such a server and its port."""
    server = Refusing()
    listening = await asyncio.start_server(server.serve, LOOPBACK, 0)
    async with listening:
        yield server, listening.sockets[0].getsockname()[1]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
