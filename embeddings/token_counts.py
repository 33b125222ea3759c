"""Caches how many tokens texts have, by their hash."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

#: Most cached token counts, about 3 MB.
_MOST_COUNTS = 32_768


class TokenCounts:
    """A cache of token counts: keeps the last `most` counts by the text's hash, and no text.

    May be called from several threads.
    """

    def __init__(self, count: Callable[[Sequence[str]], Sequence[int]], most: int = _MOST_COUNTS) -> None:
        """Start empty; `count` returns the number of tokens of each text that is not in the cache."""
        self._count = count
        self._most = most
        self._known: OrderedDict[int, int] = OrderedDict()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each text's number of tokens, in order."""
        keys = [hash(text) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        known = {key: tokens for key in by_key if (tokens := self._known.pop(key, None)) is not None}
        new = {key: text for key, text in by_key.items() if key not in known}
        if new:
            known |= dict(zip(new, self._count(list(new.values())), strict=True))
        self._known.update(known)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return [known[key] for key in keys]
