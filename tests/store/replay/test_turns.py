"""The guards of turns are made again from the log: ids, order, time and the digest of the body; and how they ended."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import TurnConflict
from store.maintenance import Pruning
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.turns import Appended, NewMessage, NewTurn
from store.replay import ReplayReport, ReplayScope, repair_scope, swap_tables, verify_log
from tests.servers import TestPostgres
from tests.workers.conftest import BANK, HOST, World, dialogue, now, open_world
from tests.workers.stages import Crew

pytestmark = pytest.mark.law("L5")

GUARDS = "select * from afterturn.turn_t order by turn_id"
PAPER = "Ann Moore keeps bees in Kyoto."
#: A turn that says who, when and what it is about: all of it counts for its digest.
SAID = NewTurn(
    "default",
    "s",
    "t",
    [NewMessage("user", "I live in Porto.", name="Ana"), NewMessage("assistant", "Noted.")],
    user_id="ana",
    occurred_at=now(),
    metadata={"channel": "mail", "tags": ["home"]},
    gateway_asked=False,
)


@pytest_asyncio.fixture(loop_scope="session")
async def world(fresh_database: TestPostgres) -> AsyncIterator[World]:
    opened = await open_world(fresh_database)
    assert isinstance((await opened.turns.append(HOST, [SAID]))[0], Appended)
    await opened.append("s", "u", messages=dialogue("I moved to Kyoto.", "Kyoto, good."), gateway=False)
    await opened.append("other", "t", bank="notes", gateway=False)
    paper = NewDocument("default", content_hash(PAPER.encode()), PAPER, title="On bees")
    assert (await Documents(opened.database, now).add(HOST, paper)).units == 1
    yield opened
    await opened.database.close()


async def guards(world: World) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in await world.sql(GUARDS)]


def wrong(report: ReplayReport) -> list[str]:
    return [one.name for one in report.derived if not one.equal]


async def mend(world: World, *, swapped: bool = False) -> None:
    """Mend what a comparison found in turns; facts are ordered by where their turns stand, and follow."""
    url = world.postgres.owner_url
    assert wrong(await verify_log(url)) in (["turns"], ["turns", "facts"])
    await (swap_tables(url) if swapped else repair_scope(url, ReplayScope(HOST)))
    assert wrong(await verify_log(url)) == []


async def pruned(world: World) -> None:
    """Work through everything, and have the ledger forget it."""
    await Crew(world).drain()
    await Pruning(world.database).ledger(now() + timedelta(hours=1), None)
    assert await world.sql("select 1 from afterturn.ledger_t") == []


DAMAGE = (
    "delete from afterturn.turn_t",
    "update afterturn.turn_t set position = position + 1, accepted_at = accepted_at - interval '1 second'",
    "update afterturn.turn_t set digest = sha256(digest), session_id = bank_id, user_id = bank_id",
    """
    insert into afterturn.turn_t (host_id, turn_id, bank_id, session_id, user_id, digest, position, accepted_at)
    select host_id, gen_random_uuid(), bank_id, session_id, user_id, digest, position, accepted_at from afterturn.turn_t
     limit 1""",
)


@pytest.mark.parametrize("damage", DAMAGE, ids=["lost", "order and time", "body and place", "unknown to the log"])
async def test_the_guards_are_made_again_from_the_log(world: World, damage: str) -> None:
    before = await guards(world)
    assert len(before) == 4
    await world.sql(damage)
    await mend(world, swapped=damage is DAMAGE[0])
    assert await guards(world) == before


async def test_a_turn_that_comes_again_after_a_rebuild_is_a_duplicate_and_another_body_a_conflict(world: World) -> None:
    [first] = await world.turns.append(HOST, [SAID])
    await world.sql("delete from afterturn.turn_t")
    await mend(world)
    assert isinstance(first, Appended)
    assert await world.turns.append(HOST, [SAID]) == [Appended(first.position, duplicate=True)]
    [other] = await world.turns.append(HOST, [NewTurn("default", "s", "t", SAID.messages)])
    assert isinstance(other, TurnConflict)


async def test_a_row_that_is_wrong_is_named_with_its_columns(world: World) -> None:
    await world.sql("update afterturn.turn_t set accepted_at = now() where session_id = turn_id")
    [turns] = [one for one in (await verify_log(world.postgres.owner_url)).derived if one.name == "turns"]
    [difference] = turns.first_differences
    assert (difference.found, list(difference.columns)) == ("both", ["accepted_at"])
    assert set(difference.key) == {"host_id", "turn_id"}


async def test_a_turn_in_no_ledger_counts_as_ended_and_is_sent_to_no_gateway(world: World) -> None:
    await pruned(world)
    before, counts = await guards(world), await world.sql("select * from afterturn.pruned_turns_t order by 2, 3")
    await world.sql("delete from afterturn.turn_t")
    await mend(world)
    again = await guards(world)
    for one, other in zip(before, again, strict=True):
        ended, told = one.pop("ended"), other.pop("ended")
        assert one == other
        assert {stage: end["status"] for stage, end in told.items()} == {
            stage: end["status"] for stage, end in ended.items()
        }
    assert await world.sql("select * from afterturn.pruned_turns_t order by 2, 3") == counts
    status = await world.turns.status(HOST, "default", "s", "t")
    assert {end.status for end in status.stages.values()} == {"done", "skipped"}
    await world.sql("update afterturn.turn_t set ended = null")
    await mend(world)
    assert (await world.turns.status(HOST, "default", "s", "t")).stages.keys() == status.stages.keys()
    assert await world.sql("select 1 from afterturn.ledger_t where stage = 'gateway'") == []


async def test_the_guard_of_an_erased_turn_knows_no_body_after_a_rebuild_either(world: World) -> None:
    [unit] = await world.sql("select unit_id from afterturn.agent_memory_unit_t where content like '%Porto%'")
    erasures = Erasures(world.database, now)
    target = ErasureTarget(Kind.UNIT, "default", str(unit.unit_id))
    assert (await erasures.run(HOST, await erasures.request(HOST, target))).done
    assert wrong(await verify_log(world.postgres.owner_url)) == []
    digests = await world.sql(
        "select data->'bodyDigest' is not null as told from afterturn.event_store_t "
        "where event_type = 'AgentSessionHistoryAppendedEvent' and bank_id = :bank order by position",
        bank=BANK,
    )
    assert [row.told for row in digests] == [False, True]
    await world.sql("delete from afterturn.turn_t")
    await mend(world)
    [again] = await world.turns.append(HOST, [SAID])
    assert isinstance(again, TurnConflict)
