"""What others call a user whose erasure is considered: an erasure goes by the user's id and leaves what others said.

So who erases learns under which names the user may still be spoken of.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.called_names import read_aliases
from store.tenancy.languages import read_languages, rules_of_bank
from store.text.rules.called_names import ADDRESSED, OWN
from store.text.terms import question_terms

#: Sessions of a user that are looked through, and names of a bank that are looked up.
SESSIONS, NAMES = 1000, 1000

# The marks that stand with the messages of the user's sessions, and the names under which the user spoke there, or the
# role.
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


async def read_user_names(connection: AsyncConnection, host: UUID, user: UUID, now: datetime) -> Sequence[str]:
    """Return what a user is called in the user's sessions, folded, beside the names the user spoke under."""
    arguments = {"host": host, "user": user, "sessions": SESSIONS, "addressed": ADDRESSED, "own": OWN}
    rows = (await connection.execute(MARKS, arguments)).all()
    rules = await read_languages(connection, host) if rows else {}
    found: set[str] = set()
    for row in rows:
        names = sorted({mark.partition(":")[2] for mark in row.marks})[:NAMES]
        asking = rules_of_bank(rules, row.bank_id).asking
        terms = {name: found_terms for name in names if (found_terms := question_terms(name, asking))}
        aliases = await read_aliases(connection, host, row.bank_id, terms, now)
        found.update(name for name, speaker in aliases.items() if speaker in row.names)
    return sorted(found)
