"""Erases a single document, memory or directive: all that the log ever held of it, deleted or not."""

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, Text, Uuid, bindparam, cast, exists, func, or_, select

from store import schema
from store.erasure.sessions import PAGE_UNITS
from store.erasure.units import ERASE_EVENTS, SCRUB, LockedBank, erase_units
from store.log.catalog import EventType

_UNIT, _DOC, _DIRECTIVE = schema.UNIT.c, schema.DOC.c, schema.DIRECTIVE.c
_THING = bindparam("thing", type_=Uuid)
HAS_DOCUMENT = select(exists().where(schema.in_bank(schema.DOC), _DOC.doc_id == _THING))
HAS_DIRECTIVE = select(exists().where(schema.in_bank(schema.DIRECTIVE), _DIRECTIVE.directive_id == _THING))
HAS_MEMORY = select(exists().where(schema.in_bank(schema.UNIT), _UNIT.session_id == _THING, _UNIT.origin == "memory"))
# Units of a document (its pieces, and the turns that were read from it), or of a memory (all that had its id).
UNITS = (
    select(_UNIT.unit_id, _UNIT.position)
    .where(
        schema.in_bank(schema.UNIT),
        or_(_UNIT.session_id == _THING, _UNIT.doc_id == _THING),
        _UNIT.position > bindparam("reached"),
        _UNIT.position <= bindparam("upto"),
    )
    .order_by(_UNIT.position)
    .limit(PAGE_UNITS)
)


def _select_life(table: Table, thing: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """Return the query of whether a thing lives, and of its version in the log."""
    subject = func.concat_ws("|", table.c.host_id, table.c.bank_id, cast(thing, Text))
    version = func.afterturn.logged_version(table.c.host_id, subject).label("version")
    return select(table.c.active, version).where(schema.in_bank(table), thing == _THING)


DOCUMENT = _select_life(schema.DOC, _DOC.doc_id)
DIRECTIVE = _select_life(schema.DIRECTIVE, _DIRECTIVE.directive_id)


async def erase_document_page(place: LockedBank) -> bool:
    """Erase the next units of a document, and after the last of them its title and text; False: all is done."""
    if await erase_memory_page(place):
        return True
    await _erase_aggregate(place, DOCUMENT, EventType.DOC_DELETED, "docId", "documents")
    return False


async def erase_memory_page(place: LockedBank) -> bool:
    """Erase the next units of a memory, ended lives of it included; False: all is done."""
    erasure = place.erasure
    units = await place.ask(UNITS, thing=erasure.target, reached=erasure.reached, upto=erasure.upto)
    if units:
        await erase_units(place, [row.unit_id for row in units])
        erasure.reached = units[-1].position
    return len(units) == PAGE_UNITS


async def erase_directive(place: LockedBank) -> bool:
    """Erase a directive with all its versions; False: all is done."""
    await _erase_aggregate(place, DIRECTIVE, EventType.DIRECTIVE_DELETED, "directiveId", "directives")
    return False


async def _erase_aggregate(
    place: LockedBank, life: Select[*tuple[Any, ...]], end: EventType, field: str, label: str
) -> None:
    thing = place.erasure.target
    [row] = await place.ask(life, thing=thing)
    if row.active:
        await place.end(end, [(thing, row.version)], field)
    subjects = [place.subject(thing)]
    await place.count("events", ERASE_EVENTS, subjects=subjects, upto=None)
    await place.ask(SCRUB, subjects=subjects)
    place.erasure.counts[label] += 1
