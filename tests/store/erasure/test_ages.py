"""What was said is erased by its age, where somebody chose one: for good, in order, and what is young stays."""

from datetime import UTC, datetime, timedelta

import pytest

from store.erasure import Kind
from store.memory.turns import NewMessage, NewTurn, TurnStore
from store.replay import ReplayScope, verify_log
from tests.store.erasure.conftest import Scene
from tests.store.erasure.dump import dump, lines_with
from tests.workers.conftest import BANK, HOST
from tests.workers.maintenance.conftest import Yard

pytestmark = pytest.mark.law("L11")

NOW = datetime.now(UTC)


async def say(scene: Scene, days_ago: int, *names: str, bank: str = "default") -> None:
    turns = [
        NewTurn(
            bank,
            "s",
            name,
            [NewMessage("user", f"{name} moved from Kyoto to Lisbon."), NewMessage("assistant", "I see")],
        )
        for name in names
    ]
    await TurnStore(scene.world.database, lambda: NOW - timedelta(days=days_ago)).append(HOST, turns)


async def left(scene: Scene) -> str:
    return "\n".join(lines_with(await dump(scene.world.postgres), "Grimpen", "Xanthippe", "Zebedee"))


async def test_old_turns_and_what_was_drawn_from_them_are_gone_and_young_ones_stay(scene: Scene) -> None:
    await say(scene, 40, "Grimpen", "Xanthippe")
    await say(scene, 1, "Zebedee")
    await scene.crew.drain()
    erasure = await scene.erasures.request_old_turns(HOST, BANK, NOW - timedelta(days=30))
    assert erasure is not None
    receipt = await scene.erasures.run(HOST, erasure)
    assert (receipt.done, receipt.kind, receipt.counts["turns"]) == (True, Kind.AGE, 2)
    await scene.crew.drain()
    told = await left(scene)
    assert "Zebedee" in told
    assert "Grimpen" not in told
    assert "Xanthippe" not in told
    report = await verify_log(scene.world.postgres.owner_url, ReplayScope())
    assert report.equal
    assert all(one.equal for one in report.derived)


async def test_the_next_one_begins_where_the_last_one_ended_and_nothing_old_is_no_erasure(scene: Scene) -> None:
    await say(scene, 40, "Grimpen")
    before = NOW - timedelta(days=30)
    assert await scene.erasures.count_old_turns(HOST, BANK, before) == 1
    first = await scene.erasures.request_old_turns(HOST, BANK, before)
    assert await scene.erasures.request_old_turns(HOST, BANK, before) == first
    assert first is not None
    await scene.erasures.run(HOST, first)
    assert await scene.erasures.count_old_turns(HOST, BANK, before) == 0
    assert await scene.erasures.request_old_turns(HOST, BANK, before) is None
    await say(scene, 35, "Xanthippe")
    assert await scene.erasures.count_old_turns(HOST, BANK, before) == 1
    second = await scene.erasures.request_old_turns(HOST, BANK, before)
    assert second not in (None, first)


async def test_maintenance_erases_what_is_old_in_every_bank_and_counts_it_before(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.erasure.retention.MOST", 2)
    monkeypatch.setattr("store.erasure.retention.PAGE_TURNS", 1)
    await say(scene, 40, "Grimpen", "Xanthippe", "Grimpen2")
    await say(scene, 40, "Xanthippe", bank="another")
    await say(scene, 1, "Zebedee", bank="another")
    await scene.crew.drain()
    yard = Yard(scene.world)
    assert yard.tasks()["said"].off
    assert await yard.tasks(said_days=30)["said"].count() == 4
    assert await yard.by_hand("said", said_days=30) == 4
    assert await yard.by_hand("said", said_days=30) == 0
    await scene.crew.drain()
    told = await left(scene)
    assert "Grimpen" not in told
    assert "Xanthippe" not in told
    assert "Zebedee" in told
