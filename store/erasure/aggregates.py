"""Erases a session, document, memory or directive: all that the log ever held of it, deleted or not.

A session ends first. Its units are taken page by page, and then the messages that its history keeps itself.
"""

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, Text, Uuid, bindparam, cast, exists, func, or_, select

from store import schema
from store.erasure.units import ERASE_EVENTS, SCRUB, SCRUB_SESSIONS, LockedBank, erase_units
from store.errors import NotFound
from store.log.append import append_events
from store.log.catalog import EventType

#: Units that one transaction erases.
PAGE_UNITS = 100

_SESSION, _UNIT, _DOC, _DIRECTIVE = schema.SESSION_HISTORY.c, schema.UNIT.c, schema.DOC.c, schema.DIRECTIVE.c
_THING = bindparam("thing", type_=Uuid)
HAS_DOCUMENT = select(exists().where(schema.in_bank(schema.DOC), _DOC.doc_id == _THING))
HAS_DIRECTIVE = select(exists().where(schema.in_bank(schema.DIRECTIVE), _DIRECTIVE.directive_id == _THING))
HAS_MEMORY = select(exists().where(schema.in_bank(schema.UNIT), _UNIT.session_id == _THING, _UNIT.origin == "memory"))


def _select_life(table: Table, thing: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """Return the query of whether an aggregate lives, and of its version in the log."""
    subject = func.concat_ws("|", table.c.host_id, table.c.bank_id, cast(thing, Text))
    version = func.afterturn.logged_version(table.c.host_id, subject).label("version")
    return select(table.c.active, version).where(schema.in_bank(table), thing == _THING)


SESSION = _select_life(schema.SESSION_HISTORY, _SESSION.session_id)
DOCUMENT = _select_life(schema.DOC, _DOC.doc_id)
DIRECTIVE = _select_life(schema.DIRECTIVE, _DIRECTIVE.directive_id)


def _select_units(of_thing: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    return (
        select(_UNIT.unit_id, _UNIT.position)
        .where(
            schema.in_bank(schema.UNIT),
            of_thing,
            _UNIT.position > bindparam("reached"),
            _UNIT.position <= bindparam("upto"),
        )
        .order_by(_UNIT.position)
    )


UNITS_OF_SESSION = _select_units(_UNIT.session_id == _THING)
# Units of a document (its pieces, and the turns that were read from it), or of a memory (all that had its id).
UNITS = _select_units(or_(_UNIT.session_id == _THING, _UNIT.doc_id == _THING))


async def begin_session(place: LockedBank) -> None:
    """End a session's history; later turns begin another of the same name. Raises NotFound."""
    session = place.erasure.target
    rows = await place.ask(SESSION, thing=session)
    if not rows:
        raise NotFound("no such session")
    if rows[0].active:
        event = place.marked(EventType.SESSION_DELETED, rows[0].version + 1, session)
        place.erasure.upto = await append_events(place.connection, place.erasure.host, [event]) or place.erasure.upto
        place.erasure.counts["sessions"] += 1


async def erase_session_page(place: LockedBank) -> bool:
    """Erase the next units of a session, and after the last of them the messages of its history; False: all is done."""
    if await _erase_units_of(place, UNITS_OF_SESSION):
        return True
    session = place.erasure.target
    await place.count("events", ERASE_EVENTS, subjects=[place.subject(session)], upto=place.erasure.upto)
    await place.count("history_messages", SCRUB_SESSIONS, sessions=[session])
    return False


async def erase_document_page(place: LockedBank) -> bool:
    """Erase the next units of a document, and after the last of them its title and text; False: all is done."""
    if await erase_memory_page(place):
        return True
    await _erase_aggregate(place, DOCUMENT, EventType.DOC_DELETED, "documents")
    return False


async def erase_memory_page(place: LockedBank) -> bool:
    """Erase the next units of a memory, ended lives of it included; False: all is done."""
    return await _erase_units_of(place, UNITS)


async def erase_directive(place: LockedBank) -> bool:
    """Erase a directive with all its versions; False: all is done."""
    await _erase_aggregate(place, DIRECTIVE, EventType.DIRECTIVE_DELETED, "directives")
    return False


async def _erase_units_of(place: LockedBank, of_target: Select[*tuple[Any, ...]]) -> bool:
    """Erase the next of these units; return whether there may be more."""
    erasure = place.erasure
    asked = {"thing": erasure.target, "reached": erasure.reached, "upto": erasure.upto}
    units = await place.ask(of_target.limit(PAGE_UNITS), **asked)
    if units:
        await erase_units(place, [row.unit_id for row in units])
        erasure.reached = units[-1].position
    return len(units) == PAGE_UNITS


async def _erase_aggregate(place: LockedBank, life: Select[*tuple[Any, ...]], end: EventType, label: str) -> None:
    thing = place.erasure.target
    [row] = await place.ask(life, thing=thing)
    if row.active:
        await place.end(end, [(thing, row.version)])
    subjects = [place.subject(thing)]
    await place.count("events", ERASE_EVENTS, subjects=subjects, upto=None)
    await place.ask(SCRUB, subjects=subjects)
    place.erasure.counts[label] += 1
