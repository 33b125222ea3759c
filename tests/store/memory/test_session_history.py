"""A session's history is its newest messages, and no more of their text than a call could have sent."""

from uuid import UUID

from store.database import Database
from store.memory.session_history import MOST_BYTES, SessionHistory
from store.memory.turns import TurnStore
from tests.store.conftest import NOON, turn

SIZE = 250_000


async def test_of_very_long_messages_no_more_are_read_than_the_limit_holds(
    database: Database, host: UUID, turns: TurnStore
) -> None:
    count = MOST_BYTES // SIZE + 3
    for n in range(count):
        await turns.append(host, [turn(f"t{n}", f"{n:06} " + "é" * (SIZE // 2), "noted")])
    kept = await SessionHistory(database, lambda: NOON).recent(host, "home", "s1", 128)
    long = [one.content[:6] for one in kept if len(one.content) > 100]
    assert long == [f"{n:06}" for n in range(count)][-len(long) :]
    assert [one.content for one in kept[-1:]] == ["noted"]
    assert MOST_BYTES <= sum(len(one.content.encode()) for one in kept) < MOST_BYTES + 2 * SIZE
