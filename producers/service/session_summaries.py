"""Summarises long sessions: the older messages become one summary, the newest stay as they are.

The cut never parts a call from its output. Messages are read page by page, without a connection while they are
analysed; the summary is one event under the session's lock. Killed before it, nothing has changed; asked again after
it, there is nothing to do.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from producers import metrics
from producers.service.prepared_turns import READ_ITEMS, restore_item
from producers.turns.history import cut_history
from store.memory.session_digests import SessionDigests
from store.memory.session_history import KeptMessage, SessionHistory
from store.memory.session_summaries import SessionPlace, SessionSummaries, SessionSummary, SummaryLimits
from store.off_loop import run_off_loop
from store.text.session_digest import DigestEntry, SaidMessage, digest_messages, merge_entries

#: How often a summary is begun again because another was written meanwhile.
TRIES = 3


class Digester(Protocol):
    """Selects the entries of a summary from messages."""

    async def digest(self, place: SessionPlace, messages: Sequence[SaidMessage]) -> Sequence[DigestEntry]:
        """Return the entries. Never raises for the messages' sake."""
        ...

    async def find_digested(
        self, place: SessionPlace, span: tuple[int, int], until: float | None
    ) -> tuple[int, Sequence[DigestEntry]]:
        """Return the number of the first message of a span that is to be read, and the entries of those before.

        `until`: when to end, by `time.monotonic`; None: never.
        """
        ...


@dataclass(frozen=True, slots=True)
class RuleDigester:
    """Selects entries by rules; what a session's digest has read, `digests` tells."""

    digests: SessionDigests | None = None

    async def digest(self, _place: SessionPlace, messages: Sequence[SaidMessage]) -> Sequence[DigestEntry]:
        """Return the entries that the rules find."""
        return await run_off_loop(sum(len(one.content) for one in messages), digest_messages, messages)

    async def find_digested(
        self, place: SessionPlace, span: tuple[int, int], until: float | None
    ) -> tuple[int, Sequence[DigestEntry]]:
        """Return the first message that the session's digest, extended meanwhile, has not read, and what it tells."""
        first, end = span
        if self.digests is None:
            return first, ()
        await self.digests.extend(place, until)
        digest = await self.digests.read(place)
        if digest.next_seq <= first:
            return first, ()
        return min(digest.next_seq, end), [one for one in digest.entries if first <= one.seq < end]


@dataclass(frozen=True, slots=True)
class Summariser:
    """Writes the summaries of sessions that need one; `limits` says when, by tenant and bank."""

    summaries: SessionSummaries
    sessions: SessionHistory
    limits: Callable[[UUID, UUID], SummaryLimits]
    digester: Digester = RuleDigester()

    async def find_due(self, host: UUID, sessions: Sequence[tuple[UUID, UUID]]) -> list[SessionPlace]:
        """Return those of a tenant's sessions (bank and id) that are to be summarised."""
        banks = defaultdict[UUID, list[UUID]](list)
        for bank, session in sessions:
            banks[bank].append(session)
        return [
            SessionPlace(host, bank, one)
            for bank, those in banks.items()
            for one in await self.summaries.find_due(host, bank, those, self.limits(host, bank))
        ]

    async def summarise(self, place: SessionPlace, until: float | None = None) -> "Summarised":
        """Summarise a session if it is due. `until`: when to give up, by `time.monotonic`; nothing is written then."""
        limits = self.limits(place.host, place.bank)
        for _ in range(TRIES):
            if not await self.summaries.find_due(place.host, place.bank, [place.session], limits):
                return Summarised(0, 0)
            seen = await self.summaries.read(place)
            if seen is None:
                return Summarised(0, 0)
            kept_from = await self._choose_cut(place, limits)
            first = await self.summaries.find_first(place, seen)
            if kept_from is None or kept_from <= first:
                return Summarised(0, 0)
            entries = await self._digest(place, (first, kept_from), seen, until)
            if entries is None:
                return Summarised(0, kept_from - first)
            if await self.summaries.write(place, seen, kept_from, entries):
                metrics.SUMMARIES.inc()
                return Summarised(kept_from - first, 0)
        return Summarised(0, 1)

    async def _choose_cut(self, place: SessionPlace, limits: SummaryLimits) -> int | None:
        """Return the number of the first message that stays as it is; None: there is no place to cut."""
        kept = await self.sessions.newest(*place, READ_ITEMS)
        shown = cut_history([restore_item(one) for one in kept], _count_fitting(kept, limits))
        return kept[len(kept) - len(shown)].seq if shown else None

    async def _digest(
        self, place: SessionPlace, span: tuple[int, int], seen: SessionSummary, until: float | None
    ) -> Sequence[DigestEntry] | None:
        (_, end), (first, digested) = span, await self.digester.find_digested(place, span, until)
        entries = merge_entries([*seen.entries, *digested]) if digested else list(seen.entries)
        while first < end:
            if until is not None and time.monotonic() >= until:
                return None
            page = await self.summaries.read_messages(place, first, end)
            if not page:
                break
            entries = merge_entries([*entries, *await self.digester.digest(place, page)])
            first = page[-1].seq + 1
        return entries


@dataclass(frozen=True, slots=True)
class Summarised:
    """How many messages were summarised, and how many are left for another time."""

    messages: int
    left: int


def _count_fitting(kept: Sequence[KeptMessage], limits: SummaryLimits) -> int:
    """Return how many of the newest messages stay: those of a prepared turn, within half of the bytes; one at least."""
    size = 0
    for number, one in enumerate(reversed(kept[-limits.items :])):
        size += one.size
        if size > limits.most_bytes // 2:
            return max(1, number)
    return limits.items
