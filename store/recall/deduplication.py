"""Removes duplicate texts and those the caller already has. Pure.

Facts fold into the messages they were drawn from; what one speaker said several times in the same words is one result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from store.recall.fusion import Ranking
from store.recall.pool import Candidate, CandidatePool


@dataclass(frozen=True, slots=True)
class Folded:
    """One result: a unit's index in the pool, and the turns that say it, its own first, then the latest first."""

    index: int
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recent:
    """The newest messages of the session that asks, from number `since` on: the asker has them before it."""

    session_id: UUID
    since: int

    def __contains__(self, unit: Candidate) -> bool:
        """Whether a unit is one of them."""
        return unit.session_id == self.session_id and unit.seq is not None and unit.seq >= self.since


def deduplicate_ranking(ranking: Ranking, pool: CandidatePool, recent: Recent | None = None) -> Iterator[Folded]:
    """Return the ranking's order without the facts whose source stands in the pool, and each text once.

    A source keeps its own place: it holds the fact's words and more. A text that is said several times has the place
    of the best of them, and none if one of them is among the recent.
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
            yield Folded(places[said], _collect_turns(units))


def _duplicate_key(unit: Candidate) -> object:
    """Return what is the same for units that say the same; of a text that was cut, that is unknown."""
    return (unit.kind, unit.user_id, unit.speaker, unit.text.strip()) if unit.whole else unit.unit_id


def _collect_turns(units: Sequence[Candidate]) -> tuple[str, ...]:
    first, *others = units
    others.sort(key=lambda unit: unit.occurred_at, reverse=True)
    names = (name for unit in (first, *others) for name in (unit.turn_name, *unit.turns))
    return tuple(dict.fromkeys(name for name in names if name is not None))
