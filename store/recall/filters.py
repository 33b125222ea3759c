"""The filters of a question, applied by every arm."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from store import identity
from store.recall.query import RecallQuery

#: What a unit carries: its own metadata, and that of its document, which is kept once.
METADATA = """(coalesce((select o.metadata from afterturn.agent_memory_doc_t o
                           where o.host_id = {unit}.host_id and o.bank_id = {unit}.bank_id
                             and o.doc_id = {unit}.doc_id), jsonb_build_object()) || {unit}.metadata)"""

_KIND = "(cast(:kinds as text[]) is null or {unit}.fact_type = any(cast(:kinds as text[])))"


def filter_conditions(unit: str) -> str:
    """Return the filters as SQL over the unit row of that alias; each falls away where its parameter is null."""
    return f"{_KIND.format(unit=unit)} and {conditions_of_any_kind(unit)}"


def conditions_of_any_kind(unit: str) -> str:
    """Return the same without the filter by kind."""
    return f"{unit}.active and {_other_conditions(unit)}"


def conditions_of_ended(unit: str) -> str:
    """Return the same as `filter_conditions` for a unit that is there no more."""
    return f"{_KIND.format(unit=unit)} and {_other_conditions(unit)}"


def _other_conditions(unit: str) -> str:
    metadata = METADATA.format(unit=unit)
    return f"""(cast(:only_session as uuid) is null or {unit}.session_id = cast(:only_session as uuid))
      and (cast(:in_sessions as uuid[]) is null or {unit}.session_id = any(cast(:in_sessions as uuid[])))
      and (cast(:roles as text[]) is null or {unit}.role = any(cast(:roles as text[])))
      and (cast(:begin as timestamptz) is null or cast(:begin as timestamptz) <=
           case when cast(:said as boolean) then {unit}.event_date
                else coalesce({unit}.occurred_start, {unit}.event_date) end)
      and (cast(:end as timestamptz) is null or cast(:end as timestamptz) >
           case when cast(:said as boolean) then {unit}.event_date
                else coalesce({unit}.occurred_start, {unit}.event_date) end)
      and (cast(:not_session as uuid) is null or {unit}.session_id is distinct from cast(:not_session as uuid))
      and (cast(:as_of as timestamptz) is null
           or coalesce({unit}.occurred_start, {unit}.event_date) <= cast(:as_of as timestamptz))
      and (cast(:known_at as timestamptz) is null or {unit}.update_ts <= cast(:known_at as timestamptz)
           or {unit}.unit_id = any(cast(:earlier as uuid[])))
      and (cast(:tags as text[]) is null
           or jsonb_exists_any({metadata}->'tags', cast(:tags as text[])))
      and (cast(:metadata as jsonb) is null or {metadata} @> cast(:metadata as jsonb))
      and (cast(:user as uuid) is null or {unit}.user_id = cast(:user as uuid))
      and (cast(:ended_by as timestamptz) is null or {unit}.expires_at is null
           or {unit}.expires_at > cast(:ended_by as timestamptz))"""


def own_session(query: RecallQuery, bank: UUID) -> UUID | None:
    """Return the id of the session that asks, None when the question names none."""
    return None if query.session_id is None else identity.session_id(bank, query.session_id)


def filter_parameters(
    query: RecallQuery, bank: UUID, earlier: Collection[UUID] = (), ended_by: datetime | None = None
) -> Mapping[str, Any]:
    """Return the parameters of `filter_conditions`; `earlier` are units that were changed since, and known before.

    `ended_by`: what has ended by then is not found; None where nothing of the bank has.
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
    """Say whether the question filters anything: else the arms need not look at the units themselves.

    A forgotten unit has neither words nor vectors, so no filter is needed to pass it over.
    """
    return any(value is not None for value in filters.values())
