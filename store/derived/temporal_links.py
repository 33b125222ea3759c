"""Temporal links: each fact of a session points to the facts of its next turn, and to the fact that superseded it.

Within a turn extraction links them, since that depends on the turn alone; from turn to turn the projection stage
does, which sees a session's turns in their order. Each turn with facts gets one such link, from the last before it.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.log.append import append_events, order_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_version

#: The longest gap between two linked facts.
WINDOW = timedelta(hours=24)
#: Weights fall from the first, without a gap, to the second, after a whole window. A superseding fact's link weighs 1.
NEAREST, FARTHEST, SUPERSEDES = 0.99, 0.3, 1.0

# WHY the index on facts of sessions ends with the position: the last fact before another is then found in one probe.
FOLLOWED = text("""
    select a.unit_id as former, b.unit_id as later, b.event_date - a.event_date as gap,
           (select true from afterturn.agent_memory_link_t l
             where l.host_id = :host and l.bank_id = :bank and l.from_unit_id = a.unit_id
               and l.to_unit_id = b.unit_id and l.link_type = 'temporal') is not null as linked
      from unnest(cast(:turns as uuid[])) as t(turn_id),
           lateral (select u.unit_id, u.session_id, u.position, u.event_date from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.turn_id = t.turn_id
                       and u.origin = 'extraction' and u.active
                     order by u.position limit 1) b,
           lateral (select u.unit_id, u.event_date from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.session_id = b.session_id and u.seq is null
                       and u.position < b.position and u.turn_id <> t.turn_id
                       and u.origin = 'extraction' and u.active
                     order by u.position desc limit 1) a
     where b.event_date - a.event_date between interval '0' and :window""")
LINKS = text("""
    select l.from_unit_id, l.to_unit_id, l.aggregate_version, l.active, l.weight, b.turn_id as later_turn,
           b.turn_id = a.turn_id as of_one_turn
      from unnest(cast(:units as uuid[])) t(id),
           lateral (select l.* from afterturn.agent_memory_link_t l
                     where l.host_id = :host and l.bank_id = :bank and l.from_unit_id = t.id
                       and l.link_type = 'temporal' and l.to_unit_id = any(cast(:units as uuid[])) offset 0) l
      join afterturn.agent_memory_unit_t a
        on a.host_id = :host and a.bank_id = :bank and a.unit_id = l.from_unit_id
      join afterturn.agent_memory_unit_t b
        on b.host_id = :host and b.bank_id = :bank and b.unit_id = l.to_unit_id""")


async def link_turns(connection: AsyncConnection, origin: Origin, turns: Sequence[UUID]) -> None:
    """Link the last fact before each of these turns in its session to the turn's first fact, once.

    The caller holds the bank's lock for deriving writers, and the log's locks.
    """
    found = await _read_followed(connection, origin, turns)
    events = [
        _link_event(origin, (row.former, row.later), None, link_weight(row.gap)) for row in found if not row.linked
    ]
    await append_events(connection, origin.host, order_events(events))


async def build_successor_links(
    connection: AsyncConnection, origin: Origin, rows: Sequence[Row[Any]]
) -> list[Mapping[str, Any]]:
    """Return the events that link each fact to the one that superseded it, and to no other of its identity.

    Facts are also linked in the order they were said, whether or not one superseded another: within a turn by
    extraction, from turn to turn with a lower weight. So the links depend on the facts alone, not on the order in
    which sessions were read.
    """
    if len(rows) <= 1:
        return []
    arguments = {"host": origin.host, "bank": origin.bank, "units": [row.unit_id for row in rows]}
    known = {(row.from_unit_id, row.to_unit_id): row for row in await connection.execute(LINKS, arguments)}
    wanted = {(row.unit_id, row.superseded_by) for row in rows if row.superseded_by is not None}
    weights = dict.fromkeys(wanted, SUPERSEDES)
    loose = {pair: link for pair, link in known.items() if link.active and pair not in wanted and _is_superseding(link)}
    weights |= {
        pair: weight
        for pair, weight in (
            await _read_weights(connection, origin, sorted({link.later_turn for link in loose.values()}))
        ).items()
        if pair in loose
    }
    changed = [
        _link_event(origin, pair, known.get(pair), weight)
        for pair, weight in weights.items()
        if pair not in known or not known[pair].active or _weighs_otherwise(known[pair], weight)
    ]
    return changed + [_link_event(origin, pair, loose[pair], None) for pair in loose.keys() - weights.keys()]


def _is_superseding(link: Row[Any]) -> bool:
    return not link.of_one_turn and link.weight >= SUPERSEDES


def _weighs_otherwise(link: Row[Any], weight: float) -> bool:
    return not link.of_one_turn and link.weight != weight


def _link_event(
    origin: Origin, pair: tuple[UUID, UUID], known: Row[Any] | None, weight: float | None
) -> Mapping[str, Any]:
    """Return the event that gives the link of a pair this weight, or with None ends it."""
    kind, told = EventType.LINK_DELETED, dict[str, float]()
    if weight is not None:
        kind = EventType.LINK_UPDATED if known is not None and known.active else EventType.LINK_CREATED
        told = {"weight": weight}
    version = 1 if known is None else known.aggregate_version + 1
    return build_version(origin, kind, (*pair, "temporal"), version, **told)


async def _read_weights(
    connection: AsyncConnection, origin: Origin, turns: Sequence[UUID]
) -> Mapping[tuple[UUID, UUID], float]:
    """Return the weight of the link between each turn's first fact and the last fact before it, by (former, later)."""
    found = await _read_followed(connection, origin, turns) if turns else ()
    return {(row.former, row.later): link_weight(row.gap) for row in found}


async def _read_followed(connection: AsyncConnection, origin: Origin, turns: Sequence[UUID]) -> Sequence[Row[Any]]:
    arguments = {"host": origin.host, "bank": origin.bank, "turns": list(turns), "window": WINDOW}
    return (await connection.execute(FOLLOWED, arguments)).all()


def link_weight(gap: timedelta) -> float:
    """Return the weight of a link over this gap in time."""
    return round(max(FARTHEST, NEAREST - (NEAREST - FARTHEST) * (gap / WINDOW)), 4)
