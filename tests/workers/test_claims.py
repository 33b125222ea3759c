"""What a claim hands out, and what it costs when nothing came of it."""

from datetime import timedelta
from uuid import UUID

from store.ledger.ledger import Claim, Outcome, close_claim, close_claims
from store.ledger.stages import Stage
from store.memory.turns import NewMessage, NewTurn
from tests.workers.conftest import HOST, World, dialogue, turn_uuid

LEASE = timedelta(seconds=30)


async def claim(world: World, stage: Stage = Stage.EXTRACTION, streams: int = 10, rows: int = 10) -> list[Claim]:
    return await world.ledger.claim(
        stage, streams=streams, rows=rows, lease=timedelta(seconds=30), worker="test", max_attempts=5
    )


def turns(claims: list[Claim]) -> list[list[UUID]]:
    return [[row.turn_id for row in one.rows] for one in claims]


async def test_a_claim_hands_out_the_first_turns_of_a_session_in_their_order(world: World) -> None:
    for n in range(5):
        await world.append("s", f"t{n}")
    assert turns(await claim(world, rows=3)) == [[turn_uuid("s", f"t{n}") for n in range(3)]]


async def test_what_was_tried_before_is_handed_out_alone_so_a_killer_takes_nobody_along(world: World) -> None:
    for n in range(3):
        await world.append("s", f"t{n}")
    assert len((await claim(world))[0].rows) == 3
    await world.expire_leases()
    assert turns(await claim(world)) == [[turn_uuid("s", "t0")]]


async def test_a_batch_of_streams_that_was_tried_before_is_handed_out_one_by_one(world: World) -> None:
    for n in range(3):
        await world.append("s", f"t{n}")
    assert len(await claim(world, Stage.EMBEDDING)) == 3
    await world.expire_leases()
    await world.append("s", "t3")
    assert turns(await claim(world, Stage.EMBEDDING)) == [[turn_uuid("s", "t0")]]
    assert turns(await claim(world, Stage.EMBEDDING)) == [[turn_uuid("s", "t1")]]


async def test_giving_a_claim_back_unworked_counts_no_attempt(world: World) -> None:
    await world.append()
    held = await claim(world)
    await world.ledger.release(held)
    rows = await world.sql("select status, attempts from afterturn.ledger_t where stage = 'extraction'")
    assert [(row.status, row.attempts) for row in rows] == [("pending", 0)]
    assert turns(await claim(world)) == [[turn_uuid("s", "t")]]


async def test_rows_without_an_outcome_are_ready_again_and_their_attempt_was_none(world: World) -> None:
    for n in range(3):
        await world.append("s", f"t{n}")
    held = (await claim(world))[0]
    async with world.database.tenant(HOST) as connection:
        await close_claim(connection, held, [Outcome(held.rows[0].item_id)])
    assert await world.statuses(Stage.EXTRACTION) == ["done", "pending", "pending"]
    assert len((await claim(world))[0].rows) == 2


async def test_closing_together_settles_what_is_still_held_and_leaves_the_rest(world: World) -> None:
    for n in range(3):
        await world.append("s", f"t{n}")
    held = sorted(await claim(world, Stage.EMBEDDING), key=lambda one: one.rows[0].position)
    await world.sql("update afterturn.claim_t set epoch = 0 where stream_id = :s", s=held[1].stream_id)
    async with world.database.tenant(HOST) as connection:
        outcomes = [Outcome(row.item_id) for one in held for row in one.rows]
        closed = await close_claims(connection, held, outcomes)
    assert closed == [held[0], held[2]]
    assert await world.statuses(Stage.EMBEDDING) == ["done", "running", "done"]


async def test_a_large_turn_keeps_no_other_tenants_small_one_out_of_a_claim(world: World) -> None:
    other, large = UUID(int=7), [NewMessage("user", "word " * 4000)]
    await world.sql("insert into afterturn.host_t (host_id, name) values (:host, 'other')", host=other)
    for n in range(3):
        await world.append(f"large {n}", messages=large)
    await world.append("large 0", "next")
    await world.turns.append(other, [NewTurn("default", "s", "t", dialogue())])
    seen = set[int]()
    # Which tenant comes first is random.
    for _ in range(30):
        held = await world.ledger.claim(
            Stage.EXTRACTION, streams=9, rows=9, lease=LEASE, worker="test", max_attempts=5, most_bytes=4096
        )
        rows = {one.host_id: [len(claim.rows) for claim in held if claim.host_id == one.host_id] for one in held}
        assert rows.pop(other) == [1]
        assert rows in ({}, {HOST: [1]}), "of the large ones, one at most, and nothing overtakes it"
        seen.add(len(held))
        await world.ledger.release(held)
    assert seen == {1, 2}
