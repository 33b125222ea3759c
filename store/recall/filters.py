"""Builds the filters of a question as conditions on units, which every arm applies."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import (
    ARRAY,
    Boolean,
    ColumnElement,
    FromClause,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB

from store import identity
from store.recall.query import RecallQuery
from store.schema import DOC, TIME, same_bank
from store.sql_constants import inline

_ONLY_SESSION, _NOT_SESSION, _USER = (bindparam(name, type_=Uuid) for name in ("only_session", "not_session", "user"))
_IN_SESSIONS, _EARLIER = (bindparam(name, type_=ARRAY(Uuid)) for name in ("in_sessions", "earlier"))
KINDS, _ROLES, _TAGS = (bindparam(name, type_=ARRAY(Text)) for name in ("kinds", "roles", "tags"))
_BEGIN, _END, AS_OF, KNOWN_AT, ENDED_BY = (
    bindparam(name, type_=TIME) for name in ("begin", "end", "as_of", "known_at", "ended_by")
)
_SAID = bindparam("said", type_=Boolean)
#: The parameter has no type of its own: as JSONB it would be encoded again, and it is JSON text already.
_METADATA = cast(bindparam("metadata"), JSONB)
_DOC = DOC.alias("o")


def filter_conditions(unit: FromClause) -> ColumnElement[bool]:
    """Return the filters as one condition on unit rows; a filter whose parameter is null is true."""
    return and_(asks_for_kind(unit.c.fact_type), conditions_of_any_kind(unit))


def conditions_of_any_kind(unit: FromClause) -> ColumnElement[bool]:
    """Return the filters without the filter by kind."""
    return and_(unit.c.active, _other_conditions(unit))


def conditions_of_ended(unit: FromClause) -> ColumnElement[bool]:
    """Return the filters without the condition that the unit is active, for units that have ended."""
    return and_(asks_for_kind(unit.c.fact_type), _other_conditions(unit))


def asks_for_kind(kind: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that the question asks for units of this kind."""
    return _where_asked(KINDS, kind == any_(KINDS))


def known_by_then(row: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row was last written by `known_at`."""
    return _where_asked(KNOWN_AT, row.c.update_ts <= KNOWN_AT)


def happened_at(unit: FromClause) -> ColumnElement[datetime]:
    """Return when the event of a unit occurred, if that is known, else when it was said: as in `unit_by_occurrence`."""
    moment: ColumnElement[datetime] = case(
        (unit.c.occurred_start.is_(None), unit.c.event_date), else_=unit.c.occurred_start
    )
    return moment


def has_not_expired(row: FromClause) -> ColumnElement[bool]:
    """Return the condition that a unit or a bank has not expired by `ended_by`."""
    return or_(row.c.expires_at.is_(None), row.c.expires_at > ENDED_BY)


def _other_conditions(unit: FromClause) -> ColumnElement[bool]:
    at = case((_SAID, unit.c.event_date), else_=happened_at(unit))
    metadata = _with_document(unit)
    return and_(
        _where_asked(_ONLY_SESSION, unit.c.session_id == _ONLY_SESSION),
        _where_asked(_IN_SESSIONS, unit.c.session_id == any_(_IN_SESSIONS)),
        _where_asked(_ROLES, unit.c.role == any_(_ROLES)),
        _where_asked(_BEGIN, at >= _BEGIN),
        _where_asked(_END, at < _END),
        _where_asked(_NOT_SESSION, unit.c.session_id.is_distinct_from(_NOT_SESSION)),
        _where_asked(AS_OF, happened_at(unit) <= AS_OF),
        _where_asked(KNOWN_AT, unit.c.update_ts <= KNOWN_AT, unit.c.unit_id == any_(_EARLIER)),
        _where_asked(_TAGS, func.jsonb_exists_any(metadata.op("->")(inline("tags")), _TAGS)),
        _where_asked(_METADATA, metadata.contains(_METADATA)),
        _where_asked(_USER, unit.c.user_id == _USER),
        _where_asked(ENDED_BY, has_not_expired(unit)),
    )


def _where_asked(parameter: ColumnElement[Any], *either: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that one of these holds, or that the parameter is null."""
    return or_(parameter.is_(None), *either)


def _with_document(unit: FromClause) -> ColumnElement[Any]:
    """Return a unit's metadata merged with that of its document, which is stored once."""
    document = select(_DOC.c["metadata"]).where(same_bank(_DOC, unit, "doc_id")).scalar_subquery()
    metadata: ColumnElement[Any] = func.coalesce(document, func.jsonb_build_object()).concat(unit.c["metadata"])
    return metadata


def own_session(query: RecallQuery, bank: UUID) -> UUID | None:
    """Return the id of the session that asks, None if the question names none."""
    return None if query.session_name is None else identity.session_id(bank, query.session_name)


def filter_parameters(
    query: RecallQuery, bank: UUID, earlier: Collection[UUID] = (), ended_by: datetime | None = None
) -> Mapping[str, Any]:
    """Return the parameters of `filter_conditions`; `earlier` are units known at `known_at` that were changed later.

    Units that expired by `ended_by` are not found; it is None for a bank in which none did.
    """
    session = own_session(query, bank)
    return {
        "kinds": list(query.kinds) or None,
        "only_session": session if query.only_session else None,
        "not_session": session if query.exclude_session else None,
        "in_sessions": [identity.session_id(bank, name) for name in query.sessions] or None,
        "roles": list(query.roles) or None,
        "begin": query.begin,
        "end": query.end,
        "said": True if query.time_of == "said" and (query.begin or query.end) else None,
        "as_of": query.as_of,
        "known_at": query.known_at,
        "earlier": list(earlier) or None,
        "tags": list(query.tags) or None,
        "metadata": orjson.dumps(dict(query.metadata)).decode() if query.metadata else None,
        "user": query.user,
        "ended_by": ended_by,
    }


def is_filtered(filters: Mapping[str, Any]) -> bool:
    """Return whether any filter is set; if none is, the arms need not read the units' own rows.

    A forgotten unit has neither words nor vectors, so it is not found without filters either.
    """
    return any(value is not None for value in filters.values())
