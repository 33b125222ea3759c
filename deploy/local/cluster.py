"""Creates and locates the PostgreSQL cluster of a data folder.

An ordinary user's cluster is DIR/pg. PostgreSQL refuses to run as root, and the user `nobody` cannot
reach a folder under a private one, so root's cluster lies in /var/lib/afterturn/<12 hex of the folder's real
path>/pg and DIR/pg is a link to it. The link connects the two: a folder that was moved keeps its data,
and one that was emptied gets a new cluster in <12 hex>.2 (nothing is deleted unasked). A file beside the
cluster also names its data folder, for the case that the link is gone.
"""

import hashlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from deploy.local.child import Account, wrap_command
from deploy.local.errors import FolderUnusable, StartFailed
from deploy.local.private_files import ensure_password, write_private
from deploy.local.wheels import SYSTEM_FOLDER, find_postgres_binaries

MAJOR = "18"
SUPERUSER = "postgres"
#: The account of the operating system that runs root's cluster.
ACCOUNT = "nobody"
HEX_DIGITS = 12
OWNER_FILE = "data-folder"
#: The built-in locale provider compares texts byte by byte, which makes every index on text faster.
INITDB_OPTIONS = (
    "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=builtin", "--no-instructions",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cluster:
    """A PostgreSQL data folder, the account that owns it, the folder of its passwords, and the link to it."""

    folder: Path
    account: Account | None
    passwords: Path
    link: Path | None = None

    def create(self, *, durable: bool = True) -> None:
        """Create the cluster if it does not exist, atomically; raises EmbeddedError."""
        version = self.folder / "PG_VERSION"
        if self.link is not None:
            (self.folder.parent / OWNER_FILE).write_bytes(os.fsencode(self.link.parent))
        if not version.exists():
            self._initialise(() if durable else ("--no-sync",))
        if self.link is not None and not self.link.is_symlink():
            self.link.symlink_to(self.folder)
        found = version.read_text(encoding="ascii").strip()
        if found != MAJOR:
            raise FolderUnusable(
                f"{self.folder} was made by PostgreSQL {found}; this is {MAJOR}: dump it with the old one"
            )

    def remove(self) -> None:
        """Delete the cluster and its passwords permanently."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.passwords, ignore_errors=True)
        if self.folder.parent.parent == SYSTEM_FOLDER:
            shutil.rmtree(self.folder.parent, ignore_errors=True)

    def _initialise(self, options: tuple[str, ...]) -> None:
        half = self.folder.with_name("pg.half")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(mode=0o700)
        if self.account is not None:
            os.chown(half, self.account.uid, self.account.gid)
        self._run_initdb(half, options)
        half.rename(self.folder)

    def _run_initdb(self, half: Path, options: tuple[str, ...]) -> None:
        with self._password_file() as password_file:
            argv = (
                str(find_postgres_binaries(self.account) / "initdb"),
                f"--pgdata={half}",
                f"--username={SUPERUSER}",
                f"--pwfile={password_file}",
                *INITDB_OPTIONS,
                *options,
            )
            done = subprocess.run(
                wrap_command(argv, self.account, signal.SIGKILL),
                capture_output=True,
                text=True,
                cwd="/",
                env=server_environment(),
                check=False,
            )
        if done.returncode:
            raise StartFailed(f"initdb ended with {done.returncode}\n{done.stderr.strip()}")

    @contextmanager
    def _password_file(self) -> Iterator[Path]:
        """Yield a file with the superuser's password for initdb, readable only by its account."""
        path = self.folder.with_name("pg.password")
        write_private(path, ensure_password(self.passwords, SUPERUSER))
        try:
            if self.account is not None:
                os.chown(path, self.account.uid, self.account.gid)
            yield path
        finally:
            path.unlink()


def server_environment() -> dict[str, str]:
    """Return the whole environment of a server process: none of our variables, and no PG* variable of the user's."""
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def find_cluster(data: Path) -> Cluster:
    """Return the cluster of an existing data folder, or the place for a new one; raises FolderUnusable."""
    here = data.resolve() / "pg"
    if here.is_symlink():
        folder = here.resolve()
        return Cluster(folder, _find_owner(folder), folder.parent / "passwords", here)
    if here.is_dir():
        return Cluster(here, _find_owner(here), here.parent / "passwords")
    if os.geteuid() == 0:
        return _place_cluster(here)
    return Cluster(here, None, here.parent / "passwords")


def list_cluster_folders() -> Iterator[tuple[Path, Path | None]]:
    """Yield each folder of this user below /var/lib/afterturn, and its cluster's data folder (None: not recorded)."""
    for home in SYSTEM_FOLDER.glob("[0-9a-f]" * HEX_DIGITS + "*"):
        try:
            mine = home.stat().st_uid == os.geteuid()
            said: Path | None = Path(os.fsdecode((home / OWNER_FILE).read_bytes())) if mine else None
        except FileNotFoundError:
            mine, said = home.is_dir(), None
        if mine:
            yield home, said


def _find_owner(folder: Path) -> Account | None:
    """Return the account that an existing cluster runs as, its owner; None: the current user."""
    try:
        status = folder.stat()
    except OSError as error:
        raise FolderUnusable(
            f"the data folder's database {folder} is gone or not yours; "
            "remove the link `pg` in the data folder to begin with an empty memory"
        ) from error
    if os.geteuid() == 0:
        return Account(status.st_uid, status.st_gid)
    if status.st_uid != os.geteuid():
        raise FolderUnusable(f"{folder} belongs to user {status.st_uid}; you are user {os.geteuid()}")
    return None


def _place_cluster(link: Path) -> Cluster:
    """Return a place for root's cluster of a data folder that has none yet, and create its folders."""
    name = hashlib.sha256(str(link.parent).encode()).hexdigest()[:HEX_DIGITS]
    homes = (SYSTEM_FOLDER / f"{name}{suffix}" for suffix in chain([""], (f".{n}" for n in count(2))))
    home = next(home for home in homes if not (home / "pg").exists())
    home.mkdir(parents=True, exist_ok=True)
    for folder in (SYSTEM_FOLDER, home):
        folder.chmod(0o755)
    account = pwd.getpwnam(ACCOUNT)
    return Cluster(home / "pg", Account(account.pw_uid, account.pw_gid), home / "passwords", link)
