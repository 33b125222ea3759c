"""Functions of a replay and of pruning, each called by name, as the role that owns the tables."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.log.catalog import EventType
from store.memory.turns import TurnStore
from tests.store.conftest import NOON, new_host, rows, turn
from tests.store.log.test_append import append, event
from tests.store.sql.conftest import by_owner, value

E = EventType
SHADOW = "shadow_of_test"
MAKE = "select afterturn.make_shadow(:schema)"
STEP = "select afterturn.replay_step(:schema, :host, null, 9223372036854775807, 1000)"
#: A step resolves names in the shadow for the rest of its transaction.
BACK = "set local search_path to afterturn, public"

pytestmark = pytest.mark.law("L5")


@pytest.fixture
async def host(lonely: Database) -> UUID:
    host = await new_host(lonely)
    await TurnStore(lonely, lambda: NOON).append(host, [turn("t1", "said"), turn("t2", "said too")])
    await append(lonely, host, [event(host, E.BANK_CREATED), event(host, E.UNIT_RETAINED)])
    await append(lonely, host, [event(host, E.ENTITY_CREATED), event(host, E.UNIT_ENTITY_LINKED)])
    return host


async def replay(owner: AsyncConnection, host: UUID) -> None:
    """Fill a shadow with a tenant's log."""
    await by_owner(owner, MAKE, schema=SHADOW)
    await by_owner(owner, STEP, schema=SHADOW, host=host)
    await by_owner(owner, BACK)


async def test_erased_since_says_whether_an_erasure_changed_since_the_shadow_was_made(
    owner: AsyncConnection, host: UUID
) -> None:
    call = "select afterturn.erased_since(:schema, :host)"
    assert await by_owner(owner, call, schema=SHADOW, host=host) == [(True,)]  # there is no shadow
    await replay(owner, host)
    assert await by_owner(owner, call, schema=SHADOW, host=None) == [(False,)]
    await by_owner(
        owner,
        "insert into erasure_t (host_id, erasure_id, kind, target_id, upto, requested_at, updated_at) "
        "values (:host, :erasure, 'user', :erasure, 0, now(), now())",
        host=host,
        erasure=uuid4(),
    )
    assert await by_owner(owner, call, schema=SHADOW, host=host) == [(True,)]
    assert await by_owner(owner, call, schema=SHADOW, host=None) == [(True,)]
    assert await by_owner(owner, call, schema=SHADOW, host=uuid4()) == [(False,)]


async def test_in_scope_takes_a_row_of_the_host_and_bank_and_of_any_where_none_is_given(owner: AsyncConnection) -> None:
    host, bank, other = uuid4(), uuid4(), uuid4()
    call = "select afterturn.in_scope(:host, :bank, :of_host, :of_bank)"

    async def is_in_scope(of_host: UUID | None, of_bank: UUID | None) -> bool:
        return bool((await by_owner(owner, call, host=host, bank=bank, of_host=of_host, of_bank=of_bank))[0][0])

    assert await is_in_scope(None, None)
    assert await is_in_scope(host, None)
    assert await is_in_scope(host, bank)
    assert not await is_in_scope(other, None)
    assert not await is_in_scope(host, other)


async def test_apply_shadow_corrects_rows_of_its_tenant_alone(
    lonely: Database, owner: AsyncConnection, host: UUID
) -> None:
    other = await new_host(lonely)
    await TurnStore(lonely, lambda: NOON).append(other, [turn("t1", "said")])
    await replay(owner, host)
    await by_owner(owner, "update agent_memory_unit_t set content = 'wrong' where content = 'said'")
    await by_owner(owner, "update agent_memory_entity_t set mention_count = 7")
    call = "select name, changed from afterturn.apply_shadow(:schema, :host, null) where changed > 0"
    assert await by_owner(owner, call, schema=SHADOW, host=host) == [("agent_memory_unit_t", 1)]
    assert await by_owner(owner, call, schema=SHADOW, host=host) == []
    wrong = "select host_id from agent_memory_unit_t where content = 'wrong'"
    assert await by_owner(owner, wrong) == [(other,)]
    assert await by_owner(owner, "select mention_count from agent_memory_entity_t") == [(7,)]


async def test_carry_counts_gives_the_shadow_what_was_counted(owner: AsyncConnection, host: UUID) -> None:
    await by_owner(owner, "update agent_memory_entity_t set mention_count = 7")
    await by_owner(owner, "update agent_memory_unit_entity_t set counted = true")
    await replay(owner, host)
    counts = f"""
        select n.mention_count, l.counted
          from {SHADOW}.agent_memory_entity_t n join {SHADOW}.agent_memory_unit_entity_t l using (host_id, entity_id)"""
    assert await by_owner(owner, counts) == [(0, False)]
    for _ in range(2):
        await by_owner(owner, "select afterturn.carry_counts(:schema)", schema=SHADOW)
        assert await by_owner(owner, counts) == [(7, True)]


async def test_finish_shadow_gives_the_shadow_policies_grants_and_foreign_keys(
    owner: AsyncConnection, host: UUID
) -> None:
    await replay(owner, host)
    about = """
        select (select count(*) from pg_policies p where p.schemaname = :schema and p.tablename = t),
               (select count(*) from pg_constraint n where n.conrelid = c.oid), c.relforcerowsecurity,
               (select array_agg(a::text order by a::text) from unnest(c.relacl) a where a::text not like 'afterturn=%')
          from unnest(afterturn.event_backed()) t
          join pg_class c on c.oid = format('%I.%I', cast(:schema as text), t)::regclass order by t"""
    live = await by_owner(owner, about, schema="afterturn")
    assert await by_owner(owner, about, schema=SHADOW) != live
    await by_owner(owner, "select afterturn.finish_shadow(:schema)", schema=SHADOW)
    assert await by_owner(owner, about, schema=SHADOW) == live


async def test_swap_shadow_puts_the_shadow_in_the_place_of_the_live_tables(owner: AsyncConnection, host: UUID) -> None:
    await replay(owner, host)
    await by_owner(owner, "select afterturn.finish_shadow(:schema)", schema=SHADOW)
    await by_owner(owner, "update agent_memory_unit_t set content = 'wrong' where content = 'said'")
    texts = "select content from {}.agent_memory_unit_t order by content"
    viewed = texts.format("hindsight")
    assert ("wrong",) in await by_owner(owner, viewed)
    await by_owner(owner, "select afterturn.swap_shadow(:schema)", schema=SHADOW)
    assert await by_owner(owner, viewed) == [("as it was",), ("said",), ("said too",)]
    assert await by_owner(owner, texts.format("afterturn")) == await by_owner(owner, viewed)
    assert ("wrong",) in await by_owner(owner, texts.format("afterturn_before"))
    assert await by_owner(owner, "select count(*) from pg_tables where schemaname = :schema", schema=SHADOW) != [(0,)]


async def test_rebuild_turns_makes_the_guards_what_the_log_implies(owner: AsyncConnection, host: UUID) -> None:
    guards = "select host_id, turn_id, digest, position from turn_t order by position"
    before = await by_owner(owner, guards)
    assert len(before) == 2
    rebuild = "select afterturn.rebuild_turns(:host, null)"
    await by_owner(owner, "delete from turn_t where position = :first", first=before[0][3])
    await by_owner(owner, "update turn_t set accepted_at = now()")
    await by_owner(
        owner,
        "insert into turn_t select host_id, gen_random_uuid(), bank_id, session_id, user_id, digest, 0, accepted_at "
        "from turn_t limit 1",
    )
    await by_owner(owner, rebuild, host=uuid4())  # a tenant without a log
    assert len(await by_owner(owner, guards)) == 2
    for _ in range(2):
        await by_owner(owner, "drop table if exists pg_temp.logged_turn")
        await by_owner(owner, rebuild, host=host)
        assert await by_owner(owner, guards) == before
        assert await by_owner(owner, "select distinct accepted_at from turn_t") == [(NOON,)]


async def test_restore_guards_adds_what_the_log_implies_and_nothing_twice(
    lonely: Database, owner: AsyncConnection, host: UUID
) -> None:
    restore, bank = "select afterturn.restore_guards(:host, :bank)", identity.bank_id(host, "home")
    assert await value(lonely, host, restore, host=host, bank=bank) == 0
    await by_owner(owner, "select set_config('afterturn.host', :host, false)", host=str(host))
    await by_owner(owner, "delete from afterturn.ledger_t")
    await by_owner(owner, "delete from afterturn.turn_t")
    await owner.commit()
    assert await value(lonely, host, restore, host=host, bank=bank) == 2
    opened = "select status from ledger_t where stage = 'projection'"
    assert await rows(lonely, host, opened) == [("pending",), ("pending",)]
    assert await value(lonely, host, restore, host=host, bank=bank) == 0
