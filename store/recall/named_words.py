"""Remembers which words of a bank's last questions named speakers, so that a question is known before the bank is read.

A word is known by its hash, so no name is kept.
"""

from collections import OrderedDict
from collections.abc import Collection
from uuid import UUID

#: Most banks that are remembered, those that were asked last, and most words of one.
BANKS, WORDS = 1_024, 256


class NamedWords:
    """The words that named speakers in the last questions to each bank."""

    def __init__(self) -> None:
        self._banks: OrderedDict[UUID, set[int]] = OrderedDict()

    def find(self, bank: UUID, words: Collection[str]) -> list[str] | None:
        """Return those of a question's words that named speakers of the bank lately; None if it was not asked."""
        known = self._banks.get(bank)
        return None if known is None else [word for word in words if hash(word) in known]

    def learn(self, bank: UUID, words: Collection[str], named: Collection[str]) -> None:
        """Remember that of a question's words these are the ones that name speakers."""
        known = self._banks.setdefault(bank, set())
        self._banks.move_to_end(bank)
        known.difference_update(map(hash, words))
        if len(known) + len(named) > WORDS:
            known.clear()
        known.update(map(hash, named))
        if len(self._banks) > BANKS:
            self._banks.popitem(last=False)
