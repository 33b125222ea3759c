"""Words that wait, opened once: what a recall read of a bank where very many wait, the next need not read again.

While turns come in at full speed, thousands of units wait to be carried into the index of words, and each recall would
open every one of them. What is remembered here is exact: each look is at one moment, brings what has come since the
last one, and tells how many wait in all; where that is another number, something was carried or ended, and the ids of
those that still wait are asked for. Words are remembered by hashes alone. Pure.
"""

from array import array
from collections.abc import Collection, Mapping
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from store.recall.lexical import POSTING, Postings

_TF_BITS = 32


class Opened:
    """The words of one bank's units that wait; `seen` is what the next look has to be told (None: nothing is known)."""

    def __init__(self) -> None:
        self.seen: str | None = None
        self._slots: dict[UUID, int] = {}
        self._units: list[tuple[UUID, int]] = []
        self._places: NDArray[np.void] = np.zeros(1024, dtype=POSTING)
        self._waits: NDArray[np.bool_] = np.zeros(1024, dtype=np.bool_)
        #: By the hash of a term: the slots of the units that hold it, each with how often.
        self._terms: dict[int, array[int]] = {}

    def __len__(self) -> int:
        """Return how many units wait, as far as is known."""
        return len(self._slots)

    @property
    def looked_at(self) -> int:
        """How many were ever taken: a mark for `keep`."""
        return len(self._units)

    @property
    def worn(self) -> bool:
        """Whether most of what is remembered waits no longer."""
        return len(self._units) > 2 * len(self._slots) + 1000

    def take(self, unit: UUID, version: int, place: tuple[UUID, int], length: int, terms: Mapping[str, int]) -> None:
        """Take a unit that waits; `version` differs when its words do."""
        known = self._slots.get(unit)
        if known is not None and self._units[known][1] == version:
            return
        if known is not None:
            self._waits[known] = False
        slot = self._slots[unit] = len(self._units)
        self._units.append((unit, version))
        if slot == len(self._places):
            self._places = np.concatenate((self._places, np.zeros_like(self._places)))
            self._waits = np.concatenate((self._waits, np.zeros_like(self._waits)))
        self._places[slot] = (place[0].bytes, place[1], 0, length)
        self._waits[slot] = True
        for term, tf in terms.items():
            self._terms.setdefault(hash(term), array("Q")).append(slot << _TF_BITS | tf)

    def keep(self, waiting: Collection[UUID], mark: int) -> None:
        """Forget all that does not wait any more, of those that were taken before the mark."""
        gone = [unit for unit, slot in self._slots.items() if slot < mark and unit not in waiting]
        for unit in gone:
            self._waits[self._slots.pop(unit)] = False

    def postings(self, term: str) -> Postings:
        """Return the postings that a term would have in the index of words."""
        slots, tf = self._of(term)
        found = self._places[slots]
        found["tf"] = tf
        return found

    def units(self, term: str, most: int) -> list[UUID]:
        """Return some units that hold a term."""
        return [self._units[slot][0] for slot in self._of(term)[0][:most]]

    def _of(self, term: str) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        packed = np.array(self._terms.get(hash(term), ()), dtype=np.int64)
        slots = (packed >> _TF_BITS).astype(np.intp)
        there = self._waits[slots]
        return slots[there], (packed & (1 << _TF_BITS) - 1)[there]
