"""One replay for each family of events: a whole life, an end, a second life, and old events delivered again."""

from uuid import UUID

import pytest

from store.database import Database
from store.log.catalog import Aggregate, EventType
from store.replay import ReplayScope, verify_log
from tests.servers import TestPostgres
from tests.store.log.test_append import append, event
from tests.store.log.test_projectors import project_again

E, A = EventType, Aggregate
PARENTS = (E.BANK_CREATED, E.UNIT_RETAINED, E.ENTITY_CREATED)
#: Each family's events in the order of their versions, and its table's place in a report.
FAMILIES = {
    A.BANK: (0, (E.BANK_CREATED, E.BANK_UPDATED, E.BANK_DELETED, E.BANK_CREATED, E.BANK_UPDATED)),
    A.DOC: (1, (E.DOC_CREATED, E.DOC_UPDATED, E.DOC_DELETED, E.DOC_CREATED)),
    A.UNIT: (2, (E.UNIT_RETAINED, E.UNIT_UPDATED, E.UNIT_UPDATED, E.UNIT_DELETED, E.UNIT_RETAINED)),
    A.ENTITY: (3, (E.ENTITY_CREATED, E.ENTITY_UPDATED, E.ENTITY_DELETED, E.ENTITY_CREATED)),
    A.UNIT_ENTITY: (4, (E.UNIT_ENTITY_LINKED, E.UNIT_ENTITY_UNLINKED, E.UNIT_ENTITY_LINKED)),
    A.LINK: (5, (E.LINK_CREATED, E.LINK_UPDATED, E.LINK_DELETED, E.LINK_CREATED)),
    A.DIRECTIVE: (6, (E.DIRECTIVE_CREATED, E.DIRECTIVE_UPDATED, E.DIRECTIVE_DELETED, E.DIRECTIVE_CREATED)),
    A.REFLECTION: (7, (E.REFLECTION_CREATED, E.REFLECTION_UPDATED, E.REFLECTION_DELETED, E.REFLECTION_CREATED)),
    A.SESSION: (
        8,
        (
            *(E.SESSION_CREATED, E.SESSION_APPENDED, E.SESSION_COMPACTED, E.SESSION_APPENDED, E.SESSION_DELETED),
            *(E.SESSION_CREATED, E.SESSION_APPENDED),
        ),
    ),
}


@pytest.mark.law("L5")
@pytest.mark.parametrize("family", Aggregate)
async def test_a_family_replays_to_what_is_live(
    database: Database, postgres: TestPostgres, host: UUID, family: Aggregate
) -> None:
    place, life = FAMILIES[family]
    parents = [event(host, kind) for kind in PARENTS if kind not in life and family is not A.BANK]
    if parents:
        await append(database, host, parents)
    for version, kind in enumerate(life, 1):
        await append(database, host, [event(host, kind, version, text=f"text {version}")])
    await project_again(database, host, *life)
    report = await verify_log(postgres.owner_url, ReplayScope(host))
    assert report.equal
    assert report.tables[place].rows_live == 1
    assert report.events == len(parents) + len(life)
