"""Finds the names that others use for a user, for the preview of an erasure.

The preview shows under which names the user may still be mentioned; the request can list those to be erased, too.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import bindparam, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.called_names import read_aliases
from store.schema import EVENT_STORE
from store.tenancy.languages import choose_rules, read_languages
from store.text.rules.called_names import ADDRESSED, OWN
from store.text.terms import question_terms, split_words
from store.text.word_rules import AUTO, rules_of

#: Sessions of a user that are looked through, and names of a bank that are looked up.
SESSIONS, NAMES = 1000, 1000

# The name marks of messages in the user's sessions, and the names (or else the role) under which the user spoke there.
MARKS = text("""
    with theirs as materialized (
        select u.bank_id, u.session_id, coalesce(u.name, u.role) as name from afterturn.agent_memory_unit_t u
         where u.host_id = :host and u.user_id = :user and u.active and u.seq is not null
           and u.role = 'user'
    ), sessions as materialized (
        select distinct t.bank_id, t.session_id from theirs t limit :sessions
    )
    select s.bank_id, array_agg(distinct k.term) as marks,
           (select array_agg(distinct t.name) from theirs t where t.bank_id = s.bank_id) as names
      from sessions s,
           lateral (select u.unit_id from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = s.bank_id and u.session_id = s.session_id
                       and u.seq is not null and u.active) u,
           lateral (select w.terms from afterturn.unit_word_t w
                     where w.host_id = :host and w.bank_id = s.bank_id and w.unit_id = u.unit_id) w,
           lateral jsonb_object_keys(w.terms) k(term)
     where starts_with(k.term, :addressed) or starts_with(k.term, :own)
     group by s.bank_id""")

# Also for a user who is erased already: the erasure of others' units may be requested later.
BANKS = (
    select(EVENT_STORE.c.bank_id)
    .distinct()
    .where(
        EVENT_STORE.c.host_id == bindparam("host"),
        EVENT_STORE.c.user_id == bindparam("user"),
        EVENT_STORE.c.bank_id.is_not(None),
    )
)
# Units that contain a name; units derived from them are erased with them. A term may be the stem of other words, so
# the text is searched for the name itself.
NAMING = text("""
    select distinct u.unit_id
      from unnest(cast(:terms as text[]), cast(:names as text[])) n(term, name),
           lateral (select p.unit_id from afterturn.posting_t p
                     where p.host_id = :host and p.bank_id = :bank and p.term = n.term
                     union all
                    select w.unit_id from afterturn.unit_word_t w
                     where w.host_id = :host and w.bank_id = :bank and not w.posted and w.terms ? n.term) h,
           lateral (select u.unit_id, u.content from afterturn.agent_memory_unit_t u
                     where u.host_id = :host and u.bank_id = :bank and u.unit_id = h.unit_id and u.active
                       and u.origin in ('message', 'document', 'memory') limit 1) u
     where afterturn.folded(u.content) ~ ('\\m' || n.name || '\\M')
     order by u.unit_id""")


def is_name(name: str) -> bool:
    """Return whether an erasure accepts a name: one word of letters that is no stop word."""
    return name.isalpha() and len(split_words(name)) == 1 and bool(question_terms(name, [rules_of(AUTO)]))


async def find_units_naming(
    connection: AsyncConnection, host: UUID, user: UUID, names: Sequence[str]
) -> Sequence[tuple[UUID, UUID]]:
    """Return the units (bank and unit) that contain one of the names, in banks where the user spoke."""
    banks = (await connection.execute(BANKS, {"host": host, "user": user})).scalars().all() if names else ()
    rules = await read_languages(connection, host) if banks else {}
    folded = [word for name in names for word in split_words(name)]
    found: list[tuple[UUID, UUID]] = []
    for bank in banks:
        asking = choose_rules(rules, bank).asking
        pairs = [(term, name) for name in folded for term in question_terms(name, asking)]
        place = {"host": host, "bank": bank, "terms": [term for term, _ in pairs], "names": [name for _, name in pairs]}
        found += [(bank, unit) for unit in (await connection.execute(NAMING, place)).scalars()]
    return found


async def read_user_names(connection: AsyncConnection, host: UUID, user: UUID, now: datetime) -> Sequence[str]:
    """Return the folded names by which a user is called in their sessions, besides those they spoke under."""
    arguments = {"host": host, "user": user, "sessions": SESSIONS, "addressed": ADDRESSED, "own": OWN}
    rows = (await connection.execute(MARKS, arguments)).all()
    rules = await read_languages(connection, host) if rows else {}
    found: set[str] = set()
    for row in rows:
        names = sorted({mark.partition(":")[2] for mark in row.marks})[:NAMES]
        asking = choose_rules(rules, row.bank_id).asking
        terms = {name: found_terms for name in names if (found_terms := question_terms(name, asking))}
        aliases = await read_aliases(connection, host, row.bank_id, terms, now)
        found.update(name for name, speaker in aliases.items() if speaker in row.names)
    return sorted(found)
