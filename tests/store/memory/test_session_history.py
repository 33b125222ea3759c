"""A session's history is its newest messages, as many as a number of bytes holds."""

from uuid import UUID

from sqlalchemy.dialects.postgresql.asyncpg import dialect

from store import identity
from store.database import Database
from store.driver_rows import get_driver_connection
from store.memory.session_history import MOST_BYTES, RECENT, SessionHistory
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


async def test_items_of_messages_beyond_the_limit_are_not_read(
    database: Database, host: UUID, turns: TurnStore
) -> None:
    """The server would unpack and parse each of them: 31 MiB for the 4 that are returned."""
    for n in range(12):
        await turns.append(host, [turn(f"t{n}", f"{n} " + "x" * SIZE, "noted")])
    bank = identity.bank_id(host, "home")
    asked = {"host": host, "bank": bank, "session": identity.session_id(bank, "s1"), "now": NOON, "most": 128}
    compiled = RECENT.compile(dialect=dialect())  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it without
    values = [(asked | {"most_bytes": 2 * SIZE})[name] for name in compiled.positiontup or ()]
    async with database.tenant(host) as connection:
        explained = f"explain (analyze, timing off, costs off) {compiled.string}"
        lines = [line for (line,) in await get_driver_connection(connection).fetch(explained, *values)]
    [reads] = [line for line in lines if "event_store" in line]
    assert 1 <= _count_loops(reads) <= 5, lines


def _count_loops(line: str) -> int:
    return int(line.rpartition("loops=")[2].rstrip(")"))
