"""Temporal links: each fact of a session points to the facts of its next turn.

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
NEAREST, FARTHEST = 0.99, 0.3

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


async def link_turns(connection: AsyncConnection, origin: Origin, turns: Sequence[UUID]) -> None:
    """Link the last fact before each of these turns in its session to the turn's first fact, once.

    The caller holds the bank's lock for deriving writers, and the log's locks.
    """
    found = await _read_followed(connection, origin, turns)
    events = [
        build_version(
            origin, EventType.LINK_CREATED, (row.former, row.later, "temporal"), 1, weight=link_weight(row.gap)
        )
        for row in found
        if not row.linked
    ]
    await append_events(connection, origin.host, order_events(events))


async def read_weights(
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
