"""A database that saw a chaos run's turns and no faults, and copies of it to do something to."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest_asyncio
from sqlalchemy import text

from deploy.lab.chaos import undisturbed
from deploy.lab.chaos.database_observer import DatabaseObserver, open_observer
from deploy.lab.chaos.knowledge import PlannedDirective, PlannedDocument, plan_knowledge
from deploy.lab.chaos.talk import make_conversations
from tests.servers import TestPostgres

SESSIONS = make_conversations(24, seed=1)
CHANGES = [change for lane in plan_knowledge(400, seed=1) for change in lane]
PAPERS = [change for change in CHANGES if isinstance(change, PlannedDocument)]
RULES = [change for change in CHANGES if isinstance(change, PlannedDirective)]
#: What the gateway's stage leaves of turns that it took; the undisturbed run hands them to none.
HANDED_OVER = """
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, status,
                                    next_attempt_at, accepted_at, updated_at)
    select host_id, 'gateway', item_id, session_id, bank_id, session_id, turn_id, position, 'flushed', next_attempt_at,
           accepted_at, updated_at
      from afterturn.ledger_t where stage = 'extraction' and item_id = turn_id returning 1"""
TURNS = sorted((turn for session in SESSIONS for turn in session), key=lambda turn: turn.number)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ingested(servers: tuple[TestPostgres, object]) -> AsyncIterator[TestPostgres]:
    """A database with some turns in it, through every stage, to which nobody is connected."""
    database = await servers[0].create(f"chaos_{uuid4().hex}")
    await undisturbed.ingest_undisturbed(database.app_url, database.operator_url, TURNS, PAPERS, RULES)
    async with open_observer(database.owner_url) as observer:
        assert await observer.query(text(HANDED_OVER))
    yield database
    await database.drop()


@pytest_asyncio.fixture(loop_scope="session")
async def copied(ingested: TestPostgres) -> AsyncIterator[TestPostgres]:
    """A copy of it."""
    copy = await ingested.create(f"chaos_{uuid4().hex}", template=ingested.database)
    yield copy
    await copy.drop()


@pytest_asyncio.fixture(loop_scope="session")
async def observer(copied: TestPostgres) -> AsyncIterator[DatabaseObserver]:
    """An observer of a copy of it."""
    async with open_observer(copied.owner_url) as observer:
        yield observer
