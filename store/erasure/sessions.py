"""Erases a session: ends its history, then takes its units page by page, and the messages that the history keeps."""

from sqlalchemy import bindparam, func, select

from store import schema
from store.erasure.units import ERASE_EVENTS, SCRUB_SESSIONS, LockedBank, erase_units
from store.errors import NotFound
from store.log.append import append_events
from store.log.catalog import EventType

#: Units that one transaction erases.
PAGE_UNITS = 100
_SESSION, _UNIT = schema.SESSION_HISTORY.c, schema.UNIT.c
_SUBJECT = func.concat_ws("|", _SESSION.host_id, _SESSION.bank_id, _SESSION.session_id)
SESSION = select(_SESSION.active, func.afterturn.logged_version(_SESSION.host_id, _SUBJECT).label("version")).where(
    schema.in_bank(schema.SESSION_HISTORY), _SESSION.session_id == bindparam("session")
)
UNITS_OF_SESSION = (
    select(_UNIT.unit_id, _UNIT.position)
    .where(
        schema.in_bank(schema.UNIT),
        _UNIT.session_id == bindparam("session"),
        _UNIT.position > bindparam("reached"),
        _UNIT.position <= bindparam("upto"),
    )
    .order_by(_UNIT.position)
)


async def begin_session(place: LockedBank) -> None:
    """End a session's history; later turns begin another of the same name. Raises NotFound."""
    session = place.erasure.target
    rows = await place.ask(SESSION, session=session)
    if not rows:
        raise NotFound("no such session")
    if rows[0].active:
        data = {"sessionId": str(session)}
        event = place.marked(EventType.SESSION_DELETED, (session,), data, rows[0].version + 1)
        place.erasure.upto = await append_events(place.connection, place.erasure.host, [event]) or place.erasure.upto
        place.erasure.counts["sessions"] += 1


async def erase_session_page(place: LockedBank) -> bool:
    """Erase the next units of a session, and after the last of them the messages that its history keeps itself."""
    erasure = place.erasure
    arguments = {"session": erasure.target, "reached": erasure.reached, "upto": erasure.upto}
    units = await place.ask(UNITS_OF_SESSION.limit(PAGE_UNITS), **arguments)
    if units:
        await erase_units(place, [row.unit_id for row in units])
        erasure.reached = units[-1].position
    if len(units) == PAGE_UNITS:
        return True
    subjects = [place.subject(erasure.target)]
    await place.count("events", ERASE_EVENTS, subjects=subjects, upto=erasure.upto)
    await place.count("history_messages", SCRUB_SESSIONS, sessions=[erasure.target])
    return False
