"""The state of a fact that answers show, the fact by which it has it, and messages that propose its deletion.

No state is stored: each follows from facts. A fact that was deleted or has expired is in no answer: these two states
are counted alone (`person_queries.count_ended_facts`).
"""

from typing import Any

from afterturn_client.contract.facts import FactState
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    FromClause,
    Text,
    Uuid,
    and_,
    case,
    cast,
    func,
    null,
    or_,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy.sql.expression import ScalarSelect

from store.expiry import row_lasts
from store.schema import FACT, LINK, UNIT, same_bank
from store.sql_constants import ONE, inline

#: The fact that another ended by.
ENDED_BY = FACT.alias("ended_by")
_NEWER = FACT.alias("newer")
_IN_TIME = ("valid_from", "said", "position", "unit_id")


def judge_end(*, is_denied: bool, is_opposite: bool) -> FactState:
    """Return the state of a fact that another one ended: a denial, one of the opposite kind, or another value."""
    return FactState.CONTRADICTED if is_denied or is_opposite else FactState.SUPERSEDED


def tell_end(fact_id: ColumnElement[Any], until: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the expression of a fact's state by ENDED_BY, which is joined to it; null for one that was not ended."""
    contradicted = or_(ENDED_BY.c.denied, ENDED_BY.c.fact_id != fact_id)
    return case(
        (until.is_(None), inline(FactState.ACTIVE.value)),
        (ENDED_BY.c.unit_id.is_(None), cast(null(), Text)),
        (contradicted, inline(FactState.CONTRADICTED.value)),
        else_=inline(FactState.SUPERSEDED.value),
    )


def tell_state(fact: FromClause) -> ColumnElement[Any]:
    """Return the expression of the state of a row of FACT by ENDED_BY, which is joined to it; null: no such row."""
    return case(
        (fact.c.fact_id.is_(None), cast(null(), Text)),
        (fact.c.consolidated_by.is_not(None), inline(FactState.CONSOLIDATED.value)),
        else_=tell_end(fact.c.fact_id, fact.c.valid_to),
    )


def ended_by(fact: FromClause) -> ColumnElement[bool]:
    """Return the condition by which ENDED_BY is joined to facts."""
    return same_bank(ENDED_BY, fact) & (ENDED_BY.c.unit_id == fact.c.superseded_by)


def select_newest_statement(fact: FromClause) -> ScalarSelect[Any]:
    """Return the newest fact that holds and says the same as a fact, if it is newer."""
    same = [_NEWER.c[name] == fact.c[name] for name in ("fact_id", "subject", "key", "value")]
    newer = tuple_(*(_NEWER.c[name] for name in _IN_TIME)) > tuple_(*(fact.c[name] for name in _IN_TIME))
    return (
        select(_NEWER.c.unit_id)
        .where(same_bank(_NEWER, fact), *same, _NEWER.c.valid_to.is_(None), ~_NEWER.c.denied, newer)
        .order_by(*(_NEWER.c[name].desc() for name in _IN_TIME))
        .limit(ONE)
        .scalar_subquery()
    )


#: The type of the link from a message to a fact that it proposes to delete.
PROPOSES = "prevents"

_MESSAGE = UNIT.alias("proposing")


def select_proposals(fact: FromClause) -> ColumnElement[Any]:
    """Return the messages that propose to delete a fact, by its unit; takes `now`."""
    found = (
        select(LINK.c.from_unit_id)
        .join(_MESSAGE, and_(same_bank(_MESSAGE, LINK), _MESSAGE.c.unit_id == LINK.c.from_unit_id))
        .where(
            same_bank(LINK, fact),
            LINK.c.to_unit_id == fact.c.unit_id,
            LINK.c.link_type == inline(PROPOSES),
            LINK.c.active,
            fact.c.origin == inline("extraction"),
            _MESSAGE.c.origin == inline("message"),
            _MESSAGE.c.active,
            row_lasts(_MESSAGE),
        )
        .order_by(LINK.c.from_unit_id)
        .correlate(fact)
    )
    return type_coerce(func.array(found.scalar_subquery()), ARRAY(Uuid()))
