"""Proposals of a model to delete facts: links from the messages that they follow from."""

from typing import Any

from sqlalchemy import ARRAY, ColumnElement, FromClause, Uuid, and_, func, select, type_coerce

from store.expiry import row_lasts
from store.schema import LINK, UNIT, same_bank
from store.sql_constants import inline

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
