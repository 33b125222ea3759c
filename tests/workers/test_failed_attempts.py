"""Every attempt that failed stays on record beside its row, which tells of the last one alone."""

from datetime import timedelta
from typing import Any

import orjson
import pytest

from store.ledger.ledger import Claim, Outcome
from store.ledger.listing import Backlog
from store.ledger.quarantine import Quarantine
from store.ledger.stages import Stage
from tests.workers.conftest import HOST, World, turn_uuid
from tests.workers.stages import Crew

LEASE = timedelta(seconds=30)
NOW = timedelta(0)
WRONG = (("timeout", "slow"), ("database", "OperationalError"), ("internal", "ValueError"))


async def claimed(world: World, stage: Stage = Stage.EXTRACTION, lease: timedelta = LEASE) -> Claim:
    [claim] = await world.ledger.claim(stage, streams=8, rows=8, lease=lease, worker="w", max_attempts=4)
    return claim


async def told(world: World) -> list[tuple[str, dict[str, Any]]]:
    notes = await Backlog(world.database).history(HOST, turn_uuid("s", "t"))
    return [(note.event, orjson.loads(note.payload)) for note in notes]


async def failed(world: World) -> list[tuple[int, str, str]]:
    facts = [fact for event, fact in await told(world) if event == "attempt_failed"]
    return [(fact["attempt"], fact["category"], fact["reason"]) for fact in facts]


async def put_off(world: World) -> None:
    """Fail three times, each time for another reason."""
    for category, reason in WRONG:
        claim = await claimed(world)
        await world.ledger.end([claim], [Outcome(claim.rows[0].item_id, "pending", category, reason, NOW)])


async def test_a_row_that_ends_dead_tells_of_every_attempt_in_order(world: World) -> None:
    await world.append()
    await put_off(world)
    claim = await claimed(world)
    await world.ledger.end([claim], [Outcome(claim.rows[0].item_id, "dead", "embedding", "Broken")])
    causes = [*WRONG, ("embedding", "Broken")]
    assert await failed(world) == [(n, *cause) for n, cause in enumerate(causes, start=1)]
    [*_, (_, last)] = await told(world)
    assert (last["stage"], last["item"]) == ("extraction", str(claim.rows[0].item_id))


async def test_the_true_causes_stand_beside_exhausted_and_stay_when_it_is_tried_again(world: World) -> None:
    """The last attempt killed its worker: of that one nobody could tell."""
    await world.append()
    await put_off(world)
    await claimed(world, lease=NOW)
    assert await world.ledger.claim(Stage.EXTRACTION, streams=8, rows=8, lease=LEASE, worker="w", max_attempts=4) == []
    causes = [(n, *cause) for n, cause in enumerate(WRONG, start=1)]
    [row] = [row for row in await Backlog(world.database).of_turn(turn_uuid("s", "t")) if row.stage is Stage.EXTRACTION]
    assert (row.status, row.category, await failed(world)) == ("dead", "exhausted", causes)
    await Quarantine(world.database, "ops").retry([row])
    await Crew(world).drain(Stage.EXTRACTION)
    assert await world.statuses(Stage.EXTRACTION) == ["done"]
    assert await failed(world) == causes
    [(event, was)] = (await told(world))[len(causes) :]
    assert (event, was["category"]) == ("operator_retried", "exhausted")


async def test_of_what_goes_well_is_given_back_or_is_skipped_nothing_is_told(world: World) -> None:
    await world.append(gateway=False)
    await world.ledger.release([await claimed(world)])
    claim = await claimed(world, Stage.EMBEDDING)
    await world.ledger.end([claim], [Outcome(claim.rows[0].item_id, "skipped", "refused", "no use")])
    await Crew(world).drain()
    assert await told(world) == []


@pytest.mark.law("L2")
async def test_who_lost_its_claim_tells_nothing(world: World) -> None:
    await world.append()
    late = await claimed(world, lease=NOW)
    await claimed(world)
    assert not await world.ledger.end([late], [Outcome(late.rows[0].item_id, "dead", "internal", "Broken")])
    assert await told(world) == []
