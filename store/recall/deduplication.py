"""Removes duplicates from a ranking, and texts that the caller already has. Pure.

A fact is a duplicate of its source message; equal texts of one speaker are one result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from store.recall.fusion import Ranking
from store.recall.pool import Candidate, CandidatePool


@dataclass(frozen=True, slots=True)
class DistinctUnit:
    """One result: a unit's index in the pool, and the turns of all duplicates, its own first, then the latest first.

    `said_last` is the latest time of a duplicate.
    """

    index: int
    turns: tuple[str, ...]
    said_last: datetime = field(compare=False)


@dataclass(frozen=True, slots=True)
class RecentMessages:
    """The newest messages of the session that asks, from number `since` on, which the caller has in its context."""

    session_id: UUID
    since: int

    def __contains__(self, unit: Candidate) -> bool:
        """Return whether a unit is one of these messages."""
        return unit.session_id == self.session_id and unit.seq is not None and unit.seq >= self.since


def deduplicate_ranking(
    ranking: Ranking, pool: CandidatePool, recent: RecentMessages | None = None
) -> Iterator[DistinctUnit]:
    """Yield the ranking's units, each text once, without facts whose source is in the pool.

    A source keeps its own rank: it holds the fact's words and more. Duplicates have the rank of the best of them; they
    are left out if one of them is `recent`.
    """
    present = {candidate.unit_id for candidate in pool.candidates}
    alike: dict[object, list[Candidate]] = {}
    places: dict[object, int] = {}
    for index in ranking.order:
        unit = pool.candidates[index]
        if not unit.sources or present.isdisjoint(unit.sources):
            key = _duplicate_key(unit)
            alike.setdefault(key, []).append(unit)
            places.setdefault(key, index)
    for said, units in alike.items():
        if recent is None or not any(unit in recent for unit in units):
            last = units[0] if len(units) == 1 else max(units, key=lambda unit: unit.occurred_at)
            yield DistinctUnit(places[said], _collect_turns(units), last.occurred_at)


def _duplicate_key(unit: Candidate) -> object:
    """Return the key that duplicates share; a unit whose text is cut has a key of its own."""
    return (unit.kind, unit.user_id, unit.speaker, unit.text.strip()) if unit.whole else unit.unit_id


def _collect_turns(units: Sequence[Candidate]) -> tuple[str, ...]:
    first, *others = units
    if not others and not first.turns:
        return () if first.turn_name is None else (first.turn_name,)
    others.sort(key=lambda unit: unit.occurred_at, reverse=True)
    names = (name for unit in (first, *others) for name in (unit.turn_name, *unit.turns))
    return tuple(dict.fromkeys(name for name in names if name is not None))
