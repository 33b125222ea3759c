"""Files readable only by their owner: generated passwords, keys, URLs with passwords."""

import os
import secrets
from pathlib import Path


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
