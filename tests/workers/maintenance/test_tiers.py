"""Passing facts end at a midnight of UTC, a model's as well as the rules'; the end stands in the event."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import pytest_asyncio

from store import identity
from store.memory.session_history import SessionHistory, WantedFacts
from store.memory.turns import NewMessage, NewTurn
from store.replay import verify_log
from store.retention import FactRetention, TierRetention
from tests.tables import each_row
from tests.workers.conftest import HOST
from tests.workers.maintenance.conftest import Yard
from tests.workers.models import Model, fact, facts, model, reader
from tests.workers.stages import Crew

DAY = timedelta(days=1)
LATE = datetime(2026, 3, 9, 23, 59, tzinfo=UTC)


@pytest_asyncio.fixture(loop_scope="session")
async def asked(yard: Yard) -> AsyncIterator[tuple[Model, Crew]]:
    """A model, and workers that ask it."""
    with model() as running:
        one = reader(running.url)
        yield running, Crew(yard.world, reader=one)
        await one.close()


async def say(yard: Yard, *said: str, bank: str = "default", at: datetime | None = None) -> None:
    turn = NewTurn(bank, "s", said[0], [NewMessage("user", words, occurred_at=at) for words in said], user_id="ann")
    await yard.world.turns.append(HOST, [turn])


async def held(yard: Yard, at: datetime | None = None, bank: str = "default") -> list[str]:
    history = SessionHistory(yard.world.database, yard.clock if at is None else lambda: at)
    return sorted(one.value for one in await history.holding(HOST, bank, WantedFacts(50), "s"))


@each_row(
    "said_at, days, end",
    [
        (LATE, 1, datetime(2026, 3, 10, tzinfo=UTC)),
        (datetime(2026, 3, 10, tzinfo=UTC), 1, datetime(2026, 3, 11, tzinfo=UTC)),
        # Half past midnight in Athens is the day before in UTC, and the same instant.
        (datetime(2026, 3, 10, 0, 30, tzinfo=timezone(timedelta(hours=2))), 1, datetime(2026, 3, 10, tzinfo=UTC)),
        (LATE, 7, datetime(2026, 3, 16, tzinfo=UTC)),
        (LATE, 0, None),
        (datetime(9999, 12, 31, tzinfo=UTC), 36_500, None),
    ],
)
def test_a_tier_ends_at_midnight_of_utc_counted_from_the_beginning_of_its_day(
    said_at: datetime, days: int, end: datetime | None
) -> None:
    assert TierRetention(l1_days=days).compute_end("today_task", "L1", said_at) == end
    assert TierRetention(l2_days=days).compute_end("weekly_task", "L2", said_at) == end
    assert TierRetention(l2_days=days).compute_end("city", "L9", said_at) == end, "an unknown tier is L2"
    assert TierRetention(l1_days=days, l2_days=days).compute_end("user_name", "L0", said_at) is None


@pytest.mark.law("L5")
async def test_two_days_later_the_task_is_gone_and_the_name_stays(yard: Yard, asked: tuple[Model, Crew]) -> None:
    server, crew = asked
    server.says = lambda _turn: facts(
        fact("desk 4", "I sit at desk 4", key="desk", tier="L1", message=5),
        fact("chess", "I sit at desk 4", fact_id="user_like", key="like", tier="L2", message=5),
        fact("chess club", "I sit at desk 4", key="week", tier="L2", message=5),
        fact("Ghent", "I sit at desk 4", key="city", tier="L0", message=5),
    )
    await say(yard, "My name is Ann.", "Today I need milk.", "This week I need a tailor.", "I like jazz.",
              "I hate rain.", "I sit at desk 4.")  # fmt: skip
    await crew.drain()
    lasting = ["Ann", "Ghent", "chess", "jazz", "rain"]
    week = ["a tailor", "chess club"]
    assert await held(yard) == sorted([*lasting, *week, "desk 4", "milk"])
    yard.ahead = 2 * DAY
    assert await held(yard) == sorted([*lasting, *week])
    assert await yard.by_hand("ending") == 2
    yard.ahead = 8 * DAY
    assert await held(yard) == lasting
    assert await yard.by_hand("ending") == 2
    await crew.drain()
    # Neither the day nor the settings of the replay decide: the events do.
    yard.world.database.retention = FactRetention(TierRetention(30, 30))
    assert (await verify_log(yard.world.postgres.owner_url)).equal
    assert await held(yard) == lasting


async def test_a_fact_is_gone_at_the_very_instant_of_its_end(yard: Yard) -> None:
    await say(yard, "Today I need milk.", at=LATE)
    midnight = LATE + timedelta(minutes=1)
    for _ in range(2):
        assert await held(yard, midnight - timedelta(microseconds=1)) == ["milk"]
        assert await held(yard, midnight) == []
        assert await held(yard, midnight.astimezone(timezone(timedelta(hours=-5)))) == []
        # The same once a worker has written it.
        await Crew(yard.world).drain()


async def test_likes_end_where_the_contract_is_kept_to_the_letter(yard: Yard) -> None:
    yard.world.database.retention = FactRetention(TierRetention(likes_end=True))
    await say(yard, "My name is Ann.", "I like jazz.", "I hate rain.")
    for _ in range(2):
        assert await held(yard, yard.clock() + 8 * DAY) == ["Ann"]
        assert await held(yard) == ["Ann", "jazz", "rain"]
        await Crew(yard.world).drain()


@pytest.mark.law("L4")
async def test_each_bank_has_its_retention_before_and_after_a_worker_ran(yard: Yard) -> None:
    of_bank = {identity.bank_id(HOST, "long"): TierRetention(l1_days=30)}
    yard.world.database.retention = FactRetention(banks=of_bank, hosts={HOST: TierRetention(l1_days=3)})
    at: dict[str, Any] = {"at": yard.clock() - 10 * DAY}
    for bank in ("default", "long"):
        await say(yard, "Today I need milk.", bank=bank, **at)
    for _ in range(2):
        assert await held(yard) == []
        assert await held(yard, yard.clock() - 8 * DAY) == ["milk"]
        assert await held(yard, bank="long") == ["milk"]
        assert await held(yard, yard.clock() + 21 * DAY, bank="long") == []
        await Crew(yard.world).drain()
