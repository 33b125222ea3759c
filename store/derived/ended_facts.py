"""Counts the facts of a person that ended, by state and reason.

Their text is in no answer, and erased facts count no more. A fact expires by itself, before maintenance writes its end;
it is deleted where it was forgotten, alone or with what it was drawn from.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from afterturn_client.contract.facts import EndedFacts
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

#: Facts of each bank that are looked through, those that ended last.
LOOKED_AT = 5_000

# By the indexes of ended facts and of units with an end; banks as in person_queries.SEEN.
COUNTS = text("""
    with ended as materialized (
        select f.*
          from afterturn.agent_memory_bank_t b,
               lateral (
               (select u.* from afterturn.agent_memory_unit_t u
                 where u.host_id = :host and u.bank_id = b.bank_id and u.origin = 'extraction' and not u.active
                   and u.content <> '' order by u.update_ts desc limit :most)
               union all
               (select u.* from afterturn.agent_memory_unit_t u
                 where u.host_id = :host and u.bank_id = b.bank_id and u.origin = 'extraction' and u.active
                   and u.expires_at <= :now limit :most)) f
         where b.host_id = :host and b.active and (b.expires_at is null or b.expires_at > :now)
           and (cast(:banks as text[]) is null or b.bank_name = any(:banks))
           and f.metadata ? 'fact_id' and not f.metadata ? 'denied'
           and (cast(:user as uuid) is null or f.user_id = :user)
           and afterturn.folded(coalesce(nullif(f.metadata->>'subject', ''), cast(f.user_id as text))) = any(:subjects)
    ), judged as (
        select case when e.expires_at <= case when e.active then :now else e.update_ts end then 'expired'
                    else 'deleted' end as state,
               s.expires_at <= e.expires_at as ends_with_source, s.active as source_lives,
               s.aggregate_version > 1 and s.update_ts = e.update_ts and not s.metadata ? 'withdrawn' as corrected
          from ended e
          left join lateral (select s.* from afterturn.agent_memory_unit_t s
                              where s.host_id = :host and s.bank_id = e.bank_id and s.unit_id = any(e.source_memory_ids)
                              limit 1) s on true
    )
    select j.state,
           case when j.state = 'expired' then case when j.ends_with_source then 'source_expired' else 'tier' end
                when j.source_lives is not true then 'source_forgotten'
                when j.corrected then 'source_corrected'
                else 'forgotten' end as why,
           count(*) as facts
      from judged j group by 1, 2 order by 1, 2""")


async def count_ended_facts(
    connection: AsyncConnection, place: Mapping[str, Any], subjects: Sequence[str], user: UUID | None
) -> tuple[EndedFacts, ...]:
    """Return how many facts of these folded subjects ended, by state and reason; of a user's turns alone, if given.

    `place`: `host`, `now`, and `banks` by their whole names (null: all that the caller may see).
    """
    rows = await connection.execute(COUNTS, {**place, "subjects": list(subjects), "user": user, "most": LOOKED_AT})
    return tuple(EndedFacts(state=row.state, why=row.why, facts=row.facts) for row in rows)
