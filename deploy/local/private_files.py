"""Files readable only by their owner: generated passwords, keys, URLs with passwords."""

import os
import secrets
from pathlib import Path

from deploy.local.folder_lock import NAME as LOCK

IGNORE_FILE = ".gitignore"


def ensure_password(folder: Path, name: str) -> str:
    """Return the password in the file of this name; create both at the first call."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / name
    if not path.exists():
        write_private(path, secrets.token_urlsafe(24))
    return path.read_text(encoding="ascii")


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, atomically."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


def hide_from_git(data: Path) -> None:
    """Keep a data folder's keys and contents out of git, wherever it lies; a folder that holds other things stays."""
    ours = (data / LOCK).exists() or not any(data.iterdir())
    if ours and not (data / ".git").exists() and not (data / IGNORE_FILE).exists():
        (data / IGNORE_FILE).write_text("# Keys, passwords, and what is remembered.\n*\n", encoding="utf-8")
