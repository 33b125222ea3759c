"""Seals secrets: the database stores them in a form that only a key from the settings opens (Fernet).

A seal is bound to its place, the owner of the secret: one that was copied into another row, or whose row was changed
to send the secret elsewhere, does not open there.
"""

from collections.abc import Sequence

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from store.errors import SealBroken


class Sealer:
    """A sealer: seals with the first of its keys and opens with any, so a key is rotated by putting another first."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Keep Fernet keys (32 bytes in URL-safe base64). Raises ValueError, which shows none of them."""
        try:
            made = [Fernet(key) for key in keys]
        except ValueError:
            made = []
        if len(made) != len(keys):
            raise ValueError("a sealing key must be 32 bytes in URL-safe base64")
        self._keys = MultiFernet(made) if made else None

    def __bool__(self) -> bool:
        """Return whether there is a key to seal with."""
        return self._keys is not None

    def seal(self, secret: str, place: Sequence[str]) -> str:
        """Return the secret sealed for a place. Raises SealBroken where there is no key."""
        if self._keys is None:
            raise SealBroken("there is no sealing key: set gateway.sealing_keys")
        return self._keys.encrypt(orjson.dumps([*place, secret])).decode()

    def open(self, sealed: str, place: Sequence[str]) -> str:
        """Return a secret that was sealed for this place. Raises SealBroken."""
        if self._keys is None:
            raise SealBroken("there is no sealing key: set gateway.sealing_keys")
        try:
            found = orjson.loads(self._keys.decrypt(sealed))
        except InvalidToken:
            found = None
        if found is None:
            raise SealBroken("none of gateway.sealing_keys opens it")
        if found[:-1] != [*place]:
            raise SealBroken("it was sealed for another gateway target")
        return str(found[-1])
