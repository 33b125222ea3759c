"""Projections: what an event does to its row, what it does to others, and what a late or repeated one does not."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from store.database import Database
from store.log.catalog import EventType
from store.memory.turns import Appended, TurnStore
from tests.store.conftest import rows, turn
from tests.store.log.samples import sample, uuid_of
from tests.store.log.test_append import BANK, append, event

E = EventType
PROJECT_AGAIN = text("""
    select afterturn.project(array_agg(e order by e.position))
      from afterturn.event_store_t e where e.event_type = any(:types)""")


@pytest.fixture
async def bank(database: Database, host: UUID) -> UUID:
    await append(database, host, [event(host, E.BANK_CREATED)])
    return host


async def one(database: Database, host: UUID, query: str) -> Any:
    [[value]] = await rows(database, host, query)
    return value


async def project_again(database: Database, host: UUID, *types: EventType) -> None:
    """Deliver events of the log once more, as an old message would."""
    async with database.tenant(host) as connection:
        await connection.execute(PROJECT_AGAIN, {"types": list(types)})


LIVES = [
    (E.DOC_CREATED, E.DOC_UPDATED, E.DOC_DELETED, "agent_memory_doc_t"),
    (E.UNIT_RETAINED, E.UNIT_UPDATED, E.UNIT_DELETED, "agent_memory_unit_t"),
    (E.ENTITY_CREATED, E.ENTITY_UPDATED, E.ENTITY_DELETED, "agent_memory_entity_t"),
    (E.DIRECTIVE_CREATED, E.DIRECTIVE_UPDATED, E.DIRECTIVE_DELETED, "agent_memory_directive_t"),
    (E.REFLECTION_CREATED, E.REFLECTION_UPDATED, E.REFLECTION_DELETED, "agent_memory_reflection_t"),
]


@pytest.mark.law("L2")
@pytest.mark.parametrize("names", LIVES)
async def test_a_life_and_a_second_one(
    database: Database, bank: UUID, names: tuple[EventType, EventType, EventType, str]
) -> None:
    created, updated, deleted, table = names
    state = f"select aggregate_version, active, to_jsonb(t)::text like '%changed%' from {table} t"
    await append(database, bank, [event(bank, created)])
    assert await rows(database, bank, state) == [(1, True, False)]
    await append(database, bank, [event(bank, updated, 2, text="changed")])
    assert await rows(database, bank, state) == [(2, True, True)]
    await project_again(database, bank, created)
    assert await rows(database, bank, state) == [(2, True, True)]
    await append(database, bank, [event(bank, deleted, 3)])
    assert await rows(database, bank, state) == [(3, False, True)]
    await project_again(database, bank, created, updated, deleted)
    assert await rows(database, bank, state) == [(3, False, True)]
    await append(database, bank, [event(bank, created, 4)])
    assert await rows(database, bank, state) == [(4, True, False)]


@pytest.mark.parametrize("names", LIVES)
async def test_a_whole_life_in_one_call_ends_as_one_by_one(
    database: Database, bank: UUID, names: tuple[EventType, EventType, EventType, str]
) -> None:
    created, updated, deleted, table = names
    life = [
        (created, 1, "a"),
        (updated, 2, "b"),
        (updated, 3, "c"),
        (deleted, 4, "c"),
        (created, 5, "d"),
        (updated, 6, "e"),
    ]
    await append(database, bank, [event(bank, kind, version, text=said) for kind, version, said in life])
    assert await rows(
        database, bank, f"select aggregate_version, active, to_jsonb(t)::text like '%\"e\"%' from {table} t"
    ) == [(6, True, True)]


@pytest.mark.law("L2")
async def test_a_mention_that_was_unlinked_stays_so_until_it_is_linked_again(database: Database, bank: UUID) -> None:
    alive = "select removed_at is null from agent_memory_unit_entity_t"
    await append(database, bank, [event(bank, E.UNIT_RETAINED), event(bank, E.ENTITY_CREATED)])
    await append(database, bank, [event(bank, E.UNIT_ENTITY_LINKED)])
    await append(database, bank, [event(bank, E.UNIT_ENTITY_UNLINKED, 2)])
    assert await one(database, bank, alive) is False
    await project_again(database, bank, E.UNIT_ENTITY_LINKED)
    assert await one(database, bank, alive) is False
    assert await rows(database, bank, "select * from hindsight.agent_memory_unit_entity_t") == []
    await append(database, bank, [event(bank, E.UNIT_ENTITY_LINKED, 3)])
    await project_again(database, bank, E.UNIT_ENTITY_UNLINKED)
    assert await one(database, bank, alive) is True


@pytest.fixture
async def family(database: Database, bank: UUID) -> UUID:
    """Two units, one of them from a document, an entity both name, a link between them, and one of everything else."""
    unit = event(bank, E.UNIT_RETAINED)
    child = event(bank, E.UNIT_RETAINED, key="b")
    child["data"]["docId"] = str(uuid_of("doc a"))
    await append(
        database,
        bank,
        [
            event(bank, E.DOC_CREATED),
            unit,
            child,
            event(bank, E.ENTITY_CREATED),
            event(bank, E.UNIT_ENTITY_LINKED),
            event(bank, E.UNIT_ENTITY_LINKED, key="b-a"),
            event(bank, E.LINK_CREATED, key="a-b"),
            event(bank, E.DIRECTIVE_CREATED),
            event(bank, E.REFLECTION_CREATED),
            event(bank, E.SESSION_CREATED),
        ],
    )
    return bank


ALIVE = """
    select (select count(*) from agent_memory_doc_t where active),
           (select count(*) from agent_memory_unit_t where active),
           (select count(*) from agent_memory_entity_t where active),
           (select count(*) from agent_memory_unit_entity_t where removed_at is null),
           (select count(*) from agent_memory_link_t where active),
           (select count(*) from agent_memory_directive_t where active)
         + (select count(*) from agent_memory_reflection_t where active)
         + (select count(*) from agent_session_history_t where active)"""


@pytest.mark.parametrize(
    "end, alive",
    [
        (E.BANK_DELETED, (0, 0, 0, 0, 0, 0)),
        (E.DOC_DELETED, (0, 1, 1, 1, 0, 3)),
        (E.UNIT_DELETED, (1, 1, 1, 1, 0, 3)),
        (E.ENTITY_DELETED, (1, 2, 0, 0, 1, 3)),
    ],
)
async def test_an_end_takes_along_what_hangs_on_it(
    database: Database, family: UUID, end: EventType, alive: tuple[int, ...]
) -> None:
    assert await rows(database, family, ALIVE) == [(1, 2, 1, 2, 1, 3)]
    await append(database, family, [event(family, end, 2)])
    assert await rows(database, family, ALIVE) == [alive]


async def test_a_child_of_a_deleted_bank_is_born_dead_and_a_revived_bank_is_empty(
    database: Database, family: UUID
) -> None:
    await append(database, family, [event(family, E.BANK_DELETED, 2)])
    await append(
        database, family, [event(family, E.UNIT_RETAINED, key="late"), event(family, E.DOC_CREATED, key="late")]
    )
    assert await rows(database, family, ALIVE) == [(0, 0, 0, 0, 0, 0)]
    await append(database, family, [event(family, E.BANK_CREATED, 3)])
    assert await rows(database, family, ALIVE) == [(0, 0, 0, 0, 0, 0)]
    await append(database, family, [event(family, E.UNIT_RETAINED, 2, key="late")])
    assert await rows(database, family, ALIVE) == [(0, 1, 0, 0, 0, 0)]


async def test_a_mention_in_a_forgotten_unit_is_none(database: Database, family: UUID) -> None:
    await append(database, family, [event(family, E.UNIT_DELETED, 2), event(family, E.ENTITY_CREATED, key="new")])
    await append(database, family, [event(family, E.UNIT_ENTITY_LINKED, key="a-new")])
    assert await rows(database, family, ALIVE) == [(1, 1, 2, 1, 0, 3)]


async def test_a_mention_of_an_ended_entity_is_none(database: Database, family: UUID) -> None:
    await append(database, family, [event(family, E.ENTITY_DELETED, 2), event(family, E.UNIT_RETAINED, key="new")])
    await append(database, family, [event(family, E.UNIT_ENTITY_LINKED, key="new-a")])
    assert await rows(database, family, ALIVE) == [(1, 3, 0, 0, 1, 3)]


async def test_a_turn_said_in_a_deleted_bank_begins_it_anew(database: Database, turns: TurnStore, host: UUID) -> None:
    await turns.append(host, [turn("t1", "before", bank="home")])
    [bank] = [b for (b,) in await rows(database, host, "select bank_id from agent_memory_bank_t")]
    deleted = event(host, E.BANK_DELETED, 2)
    text_of = {**deleted, "bank": str(bank), "subject": f"{host}|{bank}"}
    await append(database, host, [text_of])
    assert await rows(database, host, "select messages from hindsight.agent_session_history_t where active") == []
    answers = await turns.append(host, [turn("t2", "after", "yes"), turn("t3", "later")])
    assert all(isinstance(a, Appended) for a in answers)
    [[messages]] = await rows(database, host, "select messages from hindsight.agent_session_history_t where active")
    assert [m["content"] for m in messages] == ["after", "yes", "later"]
    versions = await rows(
        database,
        host,
        "select aggregate_type, aggregate_version, payload->>'id' = id::text, "
        "payload->'data'->>'newAggregateVersion' = aggregate_version::text from hindsight.event_store_t "
        "where aggregate_type in ('AgentMemoryBank', 'AgentSessionHistory') and aggregate_version > 2 "
        "order by nonce",
    )
    assert versions == [
        ("AgentMemoryBank", 3, True, True),
        ("AgentSessionHistory", 3, True, True),
        ("AgentSessionHistory", 4, True, True),
        ("AgentSessionHistory", 5, True, True),
    ]
    assert await rows(database, host, "select content, seq from agent_memory_unit_t where active order by seq") == [
        ("after", 1),
        ("yes", 2),
        ("later", 3),
    ]


async def test_a_history_shows_what_was_compacted_and_what_was_said_since(
    database: Database, turns: TurnStore, host: UUID
) -> None:
    await turns.append(host, [turn(f"t{n}", f"q{n}", f"a{n}") for n in range(3)])
    [[bank, session]] = await rows(database, host, "select bank_id, session_id from agent_session_history_t")
    fields = sample(E.SESSION_COMPACTED, text="in short")
    compacted = event(host, E.SESSION_COMPACTED, 5)
    compacted = {**compacted, "bank": str(bank), "subject": f"{host}|{bank}|{session}"}
    compacted["data"] |= fields | {"sessionId": str(session)}
    await append(database, host, [compacted])
    await turns.append(host, [turn("t9", "q9")])
    [[messages, metadata]] = await rows(
        database, host, "select messages, metadata from hindsight.agent_session_history_t"
    )
    assert [m["content"] for m in messages] == ["in short", "q9"]
    assert metadata == {"short": True}
    assert await one(database, host, "select count(*) from agent_memory_unit_t where active") == 7


async def test_words_that_came_with_an_appended_history_stand_in_their_place(database: Database, bank: UUID) -> None:
    await append(database, bank, [event(bank, E.SESSION_CREATED, text="zero")])
    await append(
        database,
        bank,
        [event(bank, E.SESSION_APPENDED, 2, text="one"), event(bank, E.SESSION_APPENDED, 3, text="three")],
    )
    await append(database, bank, [event(bank, E.SESSION_APPENDED, 4, text="five")])
    [[messages, count]] = await rows(
        database,
        bank,
        "select messages, (select message_count from agent_session_history_t) from hindsight.agent_session_history_t",
    )
    assert [m["content"] for m in messages] == ["zero", "one", "and more", "three", "and more", "five", "and more"]
    assert count == 7


async def test_another_text_loses_the_words_and_vectors_of_the_old_one(database: Database, bank: UUID) -> None:
    await append(database, bank, [event(bank, E.UNIT_RETAINED), event(bank, E.REFLECTION_CREATED, key="r")])
    async with database.tenant(bank) as connection:
        word = {"h": bank, "b": BANK, "u": uuid_of("unit a")}
        await connection.execute(
            text("insert into unit_word_t values (:h, :b, :u, null, null, 1, '{\"word\": 1}')"), word
        )
        await connection.execute(text("select * from post_words(:h, :b, 10, true)"), {"h": bank, "b": BANK})
        for unit in (uuid_of("unit a"), uuid_of("reflection r")):
            await connection.execute(
                text("insert into unit_vector_t values (:h, :b, :u, 0, 1, array_fill(0.05, array[384])::halfvec)"),
                {"h": bank, "b": BANK, "u": unit},
            )
    kept = "select (select count(*) from posting_t), (select count(*) from unit_vector_t)"
    await append(database, bank, [event(bank, E.UNIT_UPDATED, 2), event(bank, E.REFLECTION_UPDATED, 2, key="r")])
    assert await rows(database, bank, kept) == [(1, 2)]
    await append(database, bank, [event(bank, E.UNIT_UPDATED, 3, text="new")])
    assert await rows(database, bank, kept) == [(0, 1)]
    await append(database, bank, [event(bank, E.REFLECTION_UPDATED, 3, key="r", text="new")])
    assert await rows(database, bank, kept) == [(0, 0)]


async def test_a_mention_that_comes_back_before_it_was_counted_out_counts_as_often_as_it_says(
    database: Database, bank: UUID
) -> None:
    await append(database, bank, [event(bank, E.UNIT_RETAINED), event(bank, E.ENTITY_CREATED)])
    await append(database, bank, [event(bank, E.UNIT_ENTITY_LINKED)])
    async with database.tenant(bank) as connection:
        await connection.execute(text("update agent_memory_unit_entity_t set counted = true"))
        await connection.execute(text("update agent_memory_entity_t set mention_count = 2"))
    linked = event(bank, E.UNIT_ENTITY_LINKED, 3)
    linked["data"]["mentions"] = 5
    await append(database, bank, [event(bank, E.UNIT_ENTITY_UNLINKED, 2), linked])
    assert await one(database, bank, "select mention_count from agent_memory_entity_t") == 5
