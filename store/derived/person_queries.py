"""Queries of a person's profile: the banks, the names that mean the person, the facts, ended ones, neighbours.

Each takes `host`, `now` and `banks` (whole names; null: all that the caller may see).
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from afterturn_client.contract.facts import EndedFacts
from sqlalchemy import (
    ARRAY,
    Boolean,
    ColumnElement,
    FromClause,
    Integer,
    Join,
    Select,
    Text,
    Uuid,
    all_,
    and_,
    any_,
    bindparam,
    cast,
    func,
    join,
    or_,
    select,
    text,
    tuple_,
    union,
    union_all,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.fact_states import ENDED_BY, select_proposals, tell_end
from store.expiry import row_lasts
from store.schema import BANK, ENTITY_COOCCUR, ENTITY_PROFILE, EVENT_STORE, FACT, UNIT
from store.sql_constants import ONE, inline

#: Events of a user that are looked through for the banks where turns of theirs may wait.
NEWEST_EVENTS = 500
#: The most values of one fact in a bank, the newest: those that hold, and with `history` those that they replaced.
MOST_VALUES = 64

_HOST, _NAME = bindparam("host", type_=Uuid), func.afterturn.folded(bindparam("name", type_=Text))
_SUBJECTS = bindparam("subjects", type_=ARRAY(Text))
_PERSONAL = bindparam("personal", type_=ARRAY(Text))
_ASKED_BANKS = bindparam("banks", type_=ARRAY(Text))
_UNIT, _FACT, _WROTE, _BANK = UNIT.alias("u"), FACT.alias("f"), EVENT_STORE.alias("e"), BANK.alias("b")
_PROFILE, _ALIAS = ENTITY_PROFILE.alias("p"), ENTITY_PROFILE.alias("a")

SEEN = select(_BANK.c.bank_id, _BANK.c.bank_name).where(
    _BANK.c.host_id == _HOST,
    _BANK.c.active,
    row_lasts(_BANK),
    or_(_ASKED_BANKS.is_(None), _BANK.c.bank_name == any_(_ASKED_BANKS)),
)
_WRITTEN = (
    select(_WROTE.c.bank_id)
    .where(_WROTE.c.host_id == _HOST, _WROTE.c.user_id == bindparam("user", type_=Uuid))
    .order_by(_WROTE.c.position.desc())
    .limit(inline(NEWEST_EVENTS))
    .subquery("w")
)
# The banks of a user's newest events; this reads only the end of an index, however many banks the tenant has.
SEEN_OF_USER = SEEN.where(_BANK.c.bank_id.in_(select(_WRITTEN.c.bank_id)))
_BANKS = SEEN.cte("banks").prefix_with("materialized")


def _in_banks(rows: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row is of one of the banks in view."""
    return and_(rows.c.host_id == _HOST, rows.c.bank_id == _BANKS.c.bank_id)


def _means_the_same(of: FromClause, as_one: FromClause) -> ColumnElement[bool]:
    """Return the condition that two entities of one bank have the same canonical entity."""
    return and_(_in_banks(of), of.c.canonical_id == as_one.c.canonical_id)


# The names of the same person: the name itself, the aliases of its entity, and the subjects of facts that state it as
# the speaker's own name.
SUBJECTS = union(
    select(_NAME),
    select(_ALIAS.c.folded)
    .join_from(
        _BANKS,
        _PROFILE,
        and_(
            _in_banks(_PROFILE),
            _PROFILE.c.stem == func.split_part(_NAME, inline(" "), ONE),
            _PROFILE.c.folded == _NAME,
            _PROFILE.c.kind == any_(_PERSONAL),
        ),
    )
    .join(_ALIAS, _means_the_same(_ALIAS, _PROFILE)),
    select(_FACT.c.subject).join_from(
        _BANKS,
        _FACT,
        and_(
            _in_banks(_FACT),
            _FACT.c.fact_id == bindparam("own_name"),
            _FACT.c.value == _NAME,
            _FACT.c.valid_to.is_(None),
        ),
    ),
)


def _select_facts(found: Join, *of_whom: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Return the query of a person's facts: successive ones with one value are one row.

    A row has the first date, the number of turns, and the newest of its facts.
    """
    one = (
        _BANKS.c.bank_name,
        *(_FACT.c[name] for name in ("bank_id", "fact_id", "subject", "key", "value", "valid_to", "superseded_by")),
    )
    newest_first = (_FACT.c.valid_from.desc(), _FACT.c.said.desc(), _FACT.c.position.desc(), _FACT.c.unit_id)
    stated = (
        select(
            *one,
            func.min(_FACT.c.valid_from).label("since"),
            func.count(_UNIT.c.turn_id.distinct()).label("stated"),
            func.array_agg(aggregate_order_by(_FACT.c.unit_id, *newest_first))[ONE].label("unit_id"),
        )
        .select_from(found)
        .where(
            *of_whom,
            _UNIT.c.active,
            row_lasts(_UNIT),
            ~_FACT.c.denied,
            _FACT.c.fact_id != all_(bindparam("passing", type_=ARRAY(Text))),
            or_(bindparam("history", type_=Boolean), _FACT.c.valid_to.is_(None)),
        )
        .group_by(*one)
        .cte("stated")
        .prefix_with("materialized")
    )
    # Pages are of whole facts, with their history: in the order of their identities' code points, as Python has it.
    identity = [stated.c[name].collate("C") for name in ("fact_id", "subject", "key")]
    after = [bindparam(f"after_{name}", type_=Text) for name in ("fact_id", "subject", "key")]
    page = (
        select(*(stated.c[name] for name in ("fact_id", "subject", "key")))
        .group_by(*(stated.c[name] for name in ("fact_id", "subject", "key")))
        .where(or_(after[0].is_(None), tuple_(*identity) > tuple_(*after)))
        .order_by(*identity)
        .limit(bindparam("limit", type_=Integer))
        .cte("page")
        .prefix_with("materialized")
    )
    same = [stated.c[name] for name in ("bank_id", "fact_id", "subject", "key")]
    newest = func.row_number().over(partition_by=same, order_by=stated.c.valid_to.desc().nulls_first())
    shown = (
        select(stated, newest.label("nth"))
        .join(page, and_(*(page.c[name] == stated.c[name] for name in ("fact_id", "subject", "key"))))
        .subquery("shown")
    )
    told = UNIT.alias("told")
    of_fact = told.c["metadata"]
    return (
        select(
            shown,
            tell_end(shown.c.fact_id, shown.c.valid_to).label("state"),
            select_proposals(told).label("deletion_proposed_by"),
            of_fact["subject"].astext.label("name"),
            of_fact["key"].astext.label("shown_key"),
            of_fact["value"].astext.label("shown_value"),
            of_fact["confidence"].astext.label("confidence"),
            *(told.c[name] for name in ("content", "session_name", "turn_name", "event_date", "source_memory_ids")),
        )
        .join_from(
            shown,
            told,
            and_(told.c.host_id == _HOST, told.c.bank_id == shown.c.bank_id, told.c.unit_id == shown.c.unit_id),
        )
        .outerjoin(
            ENDED_BY,
            and_(
                ENDED_BY.c.host_id == _HOST,
                ENDED_BY.c.bank_id == shown.c.bank_id,
                ENDED_BY.c.unit_id == shown.c.superseded_by,
            ),
        )
        .where(shown.c.nth <= inline(MOST_VALUES))
    )


_SAID_IN_UNIT = and_(_FACT.c.host_id == _HOST, _FACT.c.bank_id == _UNIT.c.bank_id, _FACT.c.unit_id == _UNIT.c.unit_id)
OF_USER = _select_facts(
    join(_UNIT, _BANKS, _BANKS.c.bank_id == _UNIT.c.bank_id).join(_FACT, _SAID_IN_UNIT),
    _UNIT.c.host_id == _HOST,
    _UNIT.c.user_id == bindparam("user", type_=Uuid),
    _UNIT.c.origin == inline("extraction"),
    _FACT.c.subject == any_(_SUBJECTS),
)
OF_NAME = _select_facts(
    join(_BANKS, _FACT, and_(_in_banks(_FACT), _FACT.c.subject == any_(_SUBJECTS))).join(
        _UNIT,
        and_(_UNIT.c.host_id == _HOST, _UNIT.c.bank_id == _FACT.c.bank_id, _UNIT.c.unit_id == _FACT.c.unit_id),
    )
)


def _select_around() -> Select[str, str, int]:
    """Return the query of entities that occur in units with a person; aliases count for their canonical entity."""
    person = (
        select(_ALIAS.c.bank_id, _ALIAS.c.entity_id)
        .distinct()
        .join_from(
            _BANKS,
            _PROFILE,
            and_(
                _in_banks(_PROFILE),
                _PROFILE.c.folded == any_(_SUBJECTS),
                _PROFILE.c.stem == any_(bindparam("stems", type_=ARRAY(Text))),
                _PROFILE.c.kind == any_(_PERSONAL),
            ),
        )
        .join(_ALIAS, _means_the_same(_ALIAS, _PROFILE))
        .cte("person")
        .prefix_with("materialized")
    )
    pair = ENTITY_COOCCUR.alias("c")
    sides = [
        select(person.c.bank_id, other.label("other"), pair.c.cooccur_count).join_from(
            person,
            pair,
            and_(pair.c.host_id == _HOST, pair.c.bank_id == person.c.bank_id, one == person.c.entity_id),
        )
        for one, other in (
            (pair.c.entity_id_1, pair.c.entity_id_2),
            (pair.c.entity_id_2, pair.c.entity_id_1),
        )
    ]
    pairs = union_all(*sides).cte("pairs")
    other, meant = ENTITY_PROFILE.alias("o"), ENTITY_PROFILE.alias("h")
    units = cast(func.sum(pairs.c.cooccur_count), Integer).label("units")
    return (
        select(meant.c.name, meant.c.kind, units)
        .join_from(
            pairs,
            other,
            and_(other.c.host_id == _HOST, other.c.bank_id == pairs.c.bank_id, other.c.entity_id == pairs.c.other),
        )
        .join(
            meant,
            and_(
                meant.c.host_id == _HOST,
                meant.c.bank_id == pairs.c.bank_id,
                meant.c.entity_id == other.c.canonical_id,
            ),
        )
        .where(meant.c.entity_id.not_in(select(person.c.entity_id)))
        .group_by(meant.c.name, meant.c.kind)
        .order_by(units.desc(), meant.c.name, meant.c.kind)
        .limit(bindparam("limit", type_=Integer))
    )


AROUND = _select_around()


#: Facts of each bank that are looked through, those that ended last.
MOST_ENDED = 5_000

# By the indexes of ended facts and of units with an end; banks as in SEEN. A fact expires by itself, before maintenance
# writes its end; it is deleted where it was forgotten, alone or with what it was drawn from.
COUNT_ENDED = text("""
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
    asked = {**place, "subjects": list(subjects), "user": user, "most": MOST_ENDED}
    rows = await connection.execute(COUNT_ENDED, asked)
    return tuple(EndedFacts(state=row.state, why=row.why, facts=row.facts) for row in rows)
