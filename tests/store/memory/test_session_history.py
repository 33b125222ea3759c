"""A session's history is its newest messages, as many as a number of bytes holds."""

from uuid import UUID

from store.database import Database
from store.memory.session_history import MOST_BYTES, SessionHistory
from store.memory.turns import NewMessage, NewTurn, TurnStore
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


async def test_an_item_counts_by_its_own_size_and_a_caller_may_ask_for_more(
    database: Database, host: UUID, turns: TurnStore
) -> None:
    for n in range(4):
        item = [{"type": "item", "item": {"type": "function_call", "arguments": "x" * SIZE}}]
        said = (NewMessage("assistant", f"[call {n}]", parts=item),)
        await turns.append(host, [NewTurn("home", "calls", f"t{n}", said)])
    history = SessionHistory(database, lambda: NOON)
    for most_bytes, found in ((1, 1), (SIZE + 1_000, 2), (MOST_BYTES, 4)):
        kept = await history.recent(host, "home", "calls", 128, most_bytes)
        assert [one.content for one in kept] == [f"[call {n}]" for n in range(4)][-found:]
