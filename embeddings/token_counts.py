"""Counts of tokens, remembered: the questions to one memory bring the same texts again."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

#: About 3 MB.
MOST = 32_768


class TokenCounts:
    """Counts the tokens of texts, and of the last ones counted remembers how many: by their hash, never the text.

    May be called from several threads.
    """

    def __init__(self, count: Callable[[Sequence[str]], Sequence[int]], most: int = MOST) -> None:
        """Count what is new by `count`, one number a text."""
        self._count = count
        self._most = most
        self._known: OrderedDict[int, int] = OrderedDict()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in order."""
        keys = [hash(text) for text in texts]
        found = {key: self._known.pop(key, None) for key in keys}
        new = {key: text for key, text in zip(keys, texts, strict=True) if found[key] is None}
        known = {key: tokens for key, tokens in found.items() if tokens is not None}
        if new:
            known |= dict(zip(new, self._count(list(new.values())), strict=True))
        self._known.update(known)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return [known[key] for key in keys]
