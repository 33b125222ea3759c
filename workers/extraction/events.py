"""Builds the events of an extraction: entities, mentions, facts with their evidence.

All of it is derived from the turn alone, ids and times included, so a second extraction of the same turn adds nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid5

from store import identity
from store.derived.postings import UnitTerms
from store.derived.said_facts import FACT_KIND, analyse_fact, fact_ends_at, fact_metadata, fact_unit_id
from store.log.catalog import EventType
from store.log.envelope import Origin, build_offer, build_version
from store.memory.turn_messages import TurnMessage
from store.retention import TierRetention
from store.text.rules import VERSION, ExtractedFact, Extraction, Mention, Tier
from store.text.rules.extract import format_entity_name
from store.text.word_rules import WordRules

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExtractedEvents:
    """The events and words to write for one turn. Turns share `entities`, which are written first, sorted."""

    turn_id: UUID
    entities: Mapping[str, Event] = field(repr=False)
    events: Sequence[Event] = field(repr=False)
    words: Sequence[UnitTerms] = field(repr=False)
    #: The tier of each fact: how long it is worth keeping.
    tiers: Sequence[Tier]

    @property
    def facts(self) -> int:
        """The number of facts."""
        return len(self.tiers)


def follow_up_id(turn: UUID, version: str = VERSION) -> UUID:
    """Return the id of the ledger rows by which a turn's facts are embedded and counted."""
    return uuid5(turn, f"facts:{version}")


def reading_id(turn: UUID, version: str) -> UUID:
    """Return the id of the ledger row by which another version of an extractor reads a turn."""
    return uuid5(turn, f"reading:{version}")


def summary_id(turn: UUID) -> UUID:
    """Return the id of the ledger row by which the session of a turn is summarised."""
    return uuid5(turn, "session summary")


def list_subjects(events: Sequence[Event], unit: UUID) -> frozenset[str]:
    """Return the subjects of the events derived from one message: its mentions, its facts, and the links of both."""
    data = {event["subject"]: event["data"] for event in events}
    drawn = {str(one["unitId"]) for one in data.values() if str(unit) in one.get("sourceMemoryIds", ())}
    mine = {str(unit), *drawn}
    return frozenset(
        subject
        for subject, one in data.items()
        if not mine.isdisjoint({one.get("unitId"), one.get("fromUnitId"), one.get("toUnitId")})
    )


def derive_events(
    origin: Origin,
    turn: Sequence[TurnMessage],
    found: Extraction,
    version: str = VERSION,
    *,
    rules: WordRules,
    retention: TierRetention,
) -> ExtractedEvents:
    """Return the events and words for what a version of an extractor found in one turn, which has messages.

    `found` numbers the messages of `turn` from 0, not by their ordinals, in which erased messages leave gaps.
    `rules`: how the bank's words are analysed; `retention`: how long its passing facts hold.
    """
    by_ordinal = dict(enumerate(turn))
    entities = [_entity_event(origin, entity.normalised, entity.name, entity.kind.value) for entity in found.entities]
    facts = {fact_unit_id(turn[0].turn_id, fact, version): fact for fact in found.facts}
    return ExtractedEvents(
        turn_id=turn[0].turn_id,
        entities={event["subject"]: event for event in entities},
        events=[
            *_mention_events(origin, by_ordinal, found.mentions, version),
            *(
                _fact_event(origin, unit, fact, by_ordinal[fact.ordinal], version, retention=retention)
                for unit, fact in facts.items()
            ),
            *(_link_event(origin, unit, by_ordinal[fact.ordinal].unit_id, "semantic") for unit, fact in facts.items()),
            *(_link_event(origin, first, second, "temporal") for first, second in pairwise(_in_order(facts))),
            *(
                _link_event(origin, first, second, "entity")
                for first, second in _pair_by_mentions(by_ordinal, found.mentions)
            ),
        ],
        words=[_fact_words(unit, fact, by_ordinal[fact.ordinal], rules) for unit, fact in facts.items()],
        tiers=[fact.tier for fact in facts.values()],
    )


def _entity_event(origin: Origin, normalised: str, name: str, kind: str) -> Event:
    entity = identity.entity_id(origin.bank, normalised)
    about = {"kind": kind, "normalised": normalised}
    return build_version(origin, EventType.ENTITY_CREATED, (entity,), 1, canonicalName=name, metadata=about)


def _mention_events(
    origin: Origin, by_ordinal: Mapping[int, TurnMessage], mentions: Sequence[Mention], version: str
) -> list[Event]:
    """Return one event for each pair of unit and entity: how often and where the unit names the entity."""
    places: dict[tuple[UUID, UUID], list[Mention]] = defaultdict(list)
    for mention in mentions:
        if mention.entity is not None:
            unit = by_ordinal[mention.ordinal].unit_id
            places[unit, identity.entity_id(origin.bank, mention.entity)].append(mention)
    return [
        build_version(
            origin,
            EventType.UNIT_ENTITY_LINKED,
            (unit, entity),
            1,
            mentions=len(named),
            place=_find_place(named),
            **_usual_name_and_kind(named),
            spans=[[m.span.start, m.span.end] for m in named if m.span is not None],
            extractor=version,
        )
        for (unit, entity), named in places.items()
    ]


def _fact_event(
    origin: Origin, unit: UUID, fact: ExtractedFact, source: TurnMessage, version: str, *, retention: TierRetention
) -> Event:
    at = source.event_date.isoformat()
    data = {
        "unitId": str(unit),
        "content": fact.statement,
        "factType": FACT_KIND,
        "origin": "extraction",
        "eventDate": at,
        "mentionedAt": at,
        "sourceMemoryIds": [str(source.unit_id)],
        "sessionId": str(source.session_id),
        "sessionName": source.session_name,
        "turnId": str(source.turn_id),
        "turnName": source.turn_name,
        "metadata": fact_metadata(fact, version),
    }
    if ends := fact_ends_at(fact, source.event_date, source.expires_at, retention):
        data["expiresAt"] = ends.isoformat()
    return build_offer(origin, EventType.UNIT_RETAINED, (unit,), data)


def _find_place(named: Sequence[Mention]) -> int:
    """Return where the unit first names the entity: 1 plus the characters before it, 0 for the speaker."""
    return min(0 if mention.span is None else 1 + mention.span.start for mention in named)


def _usual_name_and_kind(named: Sequence[Mention]) -> dict[str, str]:
    """Return the name and the kind that these mentions give their entity most often; of equals, the first."""
    names = Counter(format_entity_name(mention) for mention in named)
    kinds = Counter(mention.kind.value for mention in named)
    return {"name": names.most_common(1)[0][0], "kind": kinds.most_common(1)[0][0]}


def _in_order(facts: Mapping[UUID, ExtractedFact]) -> list[UUID]:
    """Return the facts' units in the order in which they were said."""
    return sorted(facts, key=lambda unit: (facts[unit].ordinal, facts[unit].span, unit))


def _pair_by_mentions(by_ordinal: Mapping[int, TurnMessage], mentions: Sequence[Mention]) -> list[tuple[UUID, UUID]]:
    """Return pairs (earlier, later) of neighbouring messages that name the same entity; speakers do not count."""
    named: dict[str, list[int]] = defaultdict(list)
    for mention in mentions:
        if mention.entity is not None and mention.span is not None and mention.ordinal not in named[mention.entity]:
            named[mention.entity].append(mention.ordinal)
    pairs = {pair for ordinals in named.values() for pair in pairwise(sorted(ordinals))}
    return [(by_ordinal[first].unit_id, by_ordinal[second].unit_id) for first, second in sorted(pairs)]


def _link_event(origin: Origin, unit: UUID, other: UUID, kind: str) -> Event:
    """Return the event that links two units.

    `kind`: semantic (a fact and its message), temporal (a fact and the next), entity (two messages that name it).
    """
    return build_version(origin, EventType.LINK_CREATED, (unit, other, kind), 1, weight=1.0)


def _fact_words(unit: UUID, fact: ExtractedFact, source: TurnMessage, rules: WordRules) -> UnitTerms:
    terms = analyse_fact(fact, source.event_date, rules)
    return UnitTerms(unit, terms.counts, terms.length)
