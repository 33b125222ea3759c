"""A memory of the plugin is written in one call, with its vector, and never behind the deletion of its namespace."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from store import identity
from store.database import Database
from store.errors import NotFound
from store.log.envelope import Origin
from store.memory.memories import NewMemory, prepare_memory
from store.memory.turn_writes import append_arguments
from store.plugin.memories import APPEND, PluginMemories, PluginMemory, name_memory
from store.plugin.namespaces import NamespaceChange, Namespaces
from store.plugin.vectors import normalise_vector
from store.tenancy.languages import rules_for_writing
from tests.store.conftest import NOON, blocked, new_host, rows

SPACE = "workspace:first"
SHARE = text("select pg_advisory_xact_lock_shared(afterturn.lock_key('bank', :bank))")
TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-01"
ALL_OF_IT = """
    select u.content, v.dimension from agent_memory_unit_t u left join plugin_vector_t v using (session_id)
     where u.active order by v.dimension"""
KILL_WHO_WAITS = """
    select pg_terminate_backend(a.pid) from pg_stat_activity a
     where a.datname = current_database() and a.usename = current_user and a.wait_event_type = 'Lock'"""
VECTORS = "select digest, norm, dimension from plugin_vector_t"


async def new_namespace(database: Database) -> UUID:
    host = await new_host(database)
    await Namespaces(database, lambda: NOON).upsert(host, SPACE, "workspace", NamespaceChange(frozenset()))
    return host


async def test_the_call_appends_a_memory_with_its_vector_once(database: Database) -> None:
    host, memory_id = await new_namespace(database), uuid4()
    bank, name, vector = identity.bank_id(host, SPACE), name_memory(memory_id), normalise_vector([3.0, 4.0])
    turn = identity.turn_id(identity.memory_session(bank, name), "0")
    origin = Origin(host, bank, identity.user_id(host, None), NOON)
    prepared = prepare_memory(origin, NewMemory(SPACE, name, "I like tea"), turn, rules_for_writing({}, bank))
    _, (offered,), _ = append_arguments(host, [prepared], wait=True)
    about = ([vector.digest], [vector.norm], [2], vector.numbers, [TRACEPARENT], True, [None])
    [([outcome], [position])] = await database.fetch(APPEND, host, [offered], *about)
    assert outcome == "accepted"
    assert position > 0
    [([again], [first])] = await database.fetch(APPEND, host, [offered], [None], [None], [0], [], [None], True, [None])
    assert (again, first) == ("duplicate", position)
    assert await rows(database, host, VECTORS) == [(vector.digest, 5.0, 2)]
    assert set(await rows(database, host, "select traceparent from ledger_t")) == {(TRACEPARENT,)}
    assert await rows(database, host, "select content, seq from agent_memory_unit_t") == [("I like tea", 0)]


async def test_who_deletes_a_namespace_waits_for_its_writers_and_none_writes_behind(database: Database) -> None:
    host = await new_namespace(database)
    namespaces, memories = Namespaces(database, lambda: NOON), PluginMemories(database, lambda: NOON)
    async with database.tenant(host) as writer:
        await writer.execute(SHARE, {"bank": identity.bank_id(host, SPACE)})
        ending = asyncio.create_task(namespaces.begin_end(host, SPACE))
        await blocked(database, host)
        assert await namespaces.of(host, [SPACE])
    await ending
    memory = PluginMemory(None, "too late", "fact", "agent")
    with pytest.raises(NotFound):
        await memories.write(host, SPACE, memory)
    assert await rows(database, host, "select content from agent_memory_unit_t") == []


async def test_memories_that_come_together_share_calls_and_the_same_one_is_one(database: Database) -> None:
    host, same = await new_namespace(database), uuid4()
    memories = PluginMemories(database, lambda: NOON)
    offered = [
        PluginMemory(None, f"says {n}", "fact", "agent", vector=normalise_vector([1.0, n / 8]) if n % 2 else None)
        for n in range(32)
    ]
    again = [PluginMemory(same, f"the same, {n}", "fact", "agent") for n in range(4)]
    elsewhere = memories.write(host, "workspace:none", PluginMemory(None, "nowhere", "fact", "agent"))
    first, *others = await asyncio.gather(
        elsewhere, *(memories.write(host, SPACE, one) for one in (*offered, *again)), return_exceptions=True
    )
    assert isinstance(first, NotFound)
    assert others[32:] == [same] * 4
    assert len({*others}) == 33
    named = "select u.content, v.dimension from agent_memory_unit_t u left join plugin_vector_t v using (session_id)"
    found = dict(await rows(database, host, named))
    assert len([content for content in found if content.startswith("the same, ")]) == 1
    assert {n for n in range(32) if found[f"says {n}"] == 2} == {n for n in range(32) if n % 2}
    [(calls,)] = await rows(
        database, host, "select count(distinct xid) from event_store_t where event_type like '%UnitRetained%'"
    )
    assert calls < 6


@pytest.mark.parametrize(
    "held",
    [
        pytest.param("select pg_advisory_xact_lock(afterturn.lock_key('entities', :bank))", id="before it is written"),
        pytest.param("select from plugin_vector_t where session_id = :session for update", id="at its old vector"),
    ],
)
async def test_of_a_replacement_that_is_cut_off_nothing_is_there(database: Database, held: str) -> None:
    host, memory_id = await new_namespace(database), uuid4()
    memories = PluginMemories(database, lambda: NOON)
    first, second = (
        PluginMemory(memory_id, f"says {numbers}", "fact", "agent", vector=normalise_vector(numbers))
        for numbers in ([1.0, 0.0], [0.0, 1.0, 0.0])
    )
    await memories.write(host, SPACE, first)
    before = await rows(database, host, ALL_OF_IT)
    bank = identity.bank_id(host, SPACE)
    place = {"bank": bank, "session": identity.memory_session(bank, name_memory(memory_id))}
    async with database.tenant(host) as holder:
        await holder.execute(text(held), {name: place[name] for name in place if f":{name}" in held})
        writing = asyncio.create_task(memories.write(host, SPACE, second))
        await blocked(database, host)
        await rows(database, host, KILL_WHO_WAITS)
        with pytest.raises(DBAPIError):
            await writing
    assert await rows(database, host, ALL_OF_IT) == before
    assert await memories.write(host, SPACE, second) == memory_id
    assert await rows(database, host, ALL_OF_IT) == [(second.content, 3)]


async def test_no_memory_is_replaced_behind_the_deletion_of_its_namespace(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, memory_id = await new_namespace(database), uuid4()
    namespaces, memories = Namespaces(database, lambda: NOON), PluginMemories(database, lambda: NOON)
    first, second = (PluginMemory(memory_id, content, "fact", "agent") for content in ("as it was", "too late"))
    await memories.write(host, SPACE, first)
    append = memories._append  # the deletion comes between the two transactions of a write

    async def append_and_delete(*arguments: Any) -> tuple[str, int | None]:
        found = await append(*arguments)
        await namespaces.begin_end(host, SPACE)
        return found

    monkeypatch.setattr(memories, "_append", append_and_delete)
    with pytest.raises(NotFound):
        await memories.write(host, SPACE, second)
    assert await rows(database, host, "select content from agent_memory_unit_t where active") == [("as it was",)]


async def test_a_replaced_memory_keeps_the_vector_of_its_newest_version_alone(database: Database) -> None:
    host, memory_id = await new_namespace(database), uuid4()
    moments = iter(NOON + timedelta(seconds=n) for n in range(1000))
    memories = PluginMemories(database, lambda: next(moments))
    for numbers in ([1.0, 0.0], [0.0, 1.0, 0.0]):
        memory = PluginMemory(memory_id, f"says {numbers}", "fact", "agent", vector=normalise_vector(numbers))
        assert await memories.write(host, SPACE, memory) == memory_id
    assert await rows(database, host, VECTORS) == [(memory.vector and memory.vector.digest, 1.0, 3)]
    await memories.write(host, SPACE, PluginMemory(memory_id, "says nothing of it", "fact", "agent"))
    assert await rows(database, host, VECTORS) == []
    await memories.forget(host, SPACE, memory_id)
    assert await memories.write(host, SPACE, PluginMemory(memory_id, "again", "fact", "agent")) == memory_id
    living = "select content from agent_memory_unit_t where active"
    assert await rows(database, host, living) == [("again",)]
