"""Keeps what rules found in texts: the same units are candidates of one question after the other.

Texts are known by their digests, and what is kept is no content: numbers, times, hashes of words.
"""

import hashlib
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


def digest_text(text: str) -> bytes:
    """Return 16 bytes that stand for a text."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


class KnownTexts(Generic[T]):
    """What is known of the texts that were read last; may be asked from several threads."""

    def __init__(self, most: int) -> None:
        """Keep what is known of at most this number of texts."""
        self._most = most
        self._known: dict[Hashable, T] = {}

    def find(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return what is known by a key, which stands for a text and all else that counts; else what `read` finds."""
        try:
            return self._known[key]
        except KeyError:
            found = read()
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[key] = found
        return found
