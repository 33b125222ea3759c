"""Appends events of stages and commands, each at most once, and projects them in the same transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.log.refusals import translate_refusals

APPEND_EVENTS = text("select afterturn.append_events(:host, cast(:events as jsonb), '{}', :if_absent)")
ADMIT_CALL = text("select afterturn.admit_call(:host, cast(:banks as uuid[]), cast(:about as uuid[]))")
VERSIONS = text("""
    select s.subject, afterturn.logged_version(:host, s.subject) as version
      from unnest(cast(:subjects as text[])) s(subject)""")


async def append_events(
    connection: AsyncConnection,
    host: UUID,
    events: Sequence[Mapping[str, Any]],
    *,
    if_absent: bool = False,
) -> int | None:
    """Append events made by `build_offer` or `build_command`, in their order, inside the tenant's transaction.

    Returns the last position.

    An event whose id the log knows is the same event again and changes nothing; None means that nothing was new.
    A version that another event took raises ConcurrencyError, unless `if_absent`: then the first writer's event stays,
    as stages need that append what exists at most once. Writers that may meet on an aggregate order their events
    (`order_events`).

    Raises ConcurrencyError, VersionGap (its predecessor is not in the log), MissingParent, or QuotaExceeded (of banks
    that begin); the transaction has then failed and must write nothing.
    """
    if not events:
        return None
    arguments = {
        "host": host,
        "events": orjson.dumps(events).decode(),
        "if_absent": if_absent,
    }
    with translate_refusals():
        row = await connection.execute(APPEND_EVENTS, arguments)
    position: int | None = row.scalar()
    return position


async def admit_call(
    connection: AsyncConnection, host: UUID, banks: Sequence[UUID] = (), about: Sequence[UUID] = ()
) -> None:
    """Judge the call's authority, before this transaction writes something that is not an event, into these banks.

    `about`: users and sessions that it concerns. Raises AuthorityEnded, ErasedMeanwhile; ResourceBusy.
    """
    with translate_refusals():
        await connection.execute(ADMIT_CALL, {"host": host, "banks": list(banks), "about": list(about)})


def order_events(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return events by the aggregate that each belongs to, those of one aggregate in the order they were given.

    Writers that may meet on several aggregates append in this order: two that wrote them in different orders would
    deadlock, each waiting for the row of an aggregate that the other one holds.
    """
    return sorted(events, key=lambda event: str(event["subject"]))


async def read_versions(connection: AsyncConnection, host: UUID, subjects: Sequence[str]) -> dict[str, int]:
    """Return the version that each aggregate (by its id) has in the log; 0 for one that does not exist."""
    found = await connection.execute(VERSIONS, {"host": host, "subjects": list(subjects)})
    return {row.subject: row.version or 0 for row in found}
