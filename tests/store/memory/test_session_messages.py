"""A session with its messages: of very long ones no more are read than the answer holds."""

import random
import re
from uuid import UUID

import pytest
from sqlalchemy.dialects.postgresql.asyncpg import dialect

from store import identity
from store.database import Database
from store.driver_rows import get_driver_connection
from store.memory import session_messages
from store.memory.session_messages import NEWEST, SessionMessages
from store.memory.turns import TurnStore
from tests.store.conftest import NOON, turn

SIZE = 100_000
PAGE = 8192


async def _fill(host: UUID, turns: TurnStore) -> None:
    chance = random.Random("long messages")
    for n in range(12):
        await turns.append(host, [turn(f"t{n}", f"{n} {chance.randbytes(SIZE // 2).hex()}", "noted")])


async def test_the_newest_are_returned_and_it_is_said_that_there_are_more(
    database: Database, host: UUID, turns: TurnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _fill(host, turns)
    monkeypatch.setattr(session_messages, "MOST_BYTES", 2 * SIZE)
    found = await SessionMessages(database, lambda: NOON).get(host, "home", "s1", 100)
    assert [str(one.content)[:5].split()[0] for one in found.history] == ["noted", "10", "noted", "11", "noted"][1:]
    assert found.has_more


async def test_texts_beyond_the_limit_are_not_read(database: Database, host: UUID, turns: TurnStore) -> None:
    await _fill(host, turns)
    bank = identity.bank_id(host, "home")
    asked = {"host": host, "bank": bank, "session": identity.session_id(bank, "s1"), "now": NOON, "first": 0}
    compiled = NEWEST.compile(dialect=dialect())  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it without
    asked = {**compiled.params, **asked, "most": 101, "most_bytes": SIZE}
    values = [asked[name] for name in compiled.positiontup or ()]
    async with database.tenant(host) as connection:
        explained = f"explain (analyze, serialize, buffers, timing off, costs off) {compiled.string}"
        lines = [line for (line,) in await get_driver_connection(connection).fetch(explained, *values)]
    # The planner reads catalogs, more of them on a fresh connection.
    read = re.sub(r"Planning:\n.*", "", "\n".join(lines))
    pages = max(map(int, re.findall(r"shared hit=(\d+)", read)))
    # Two of the twelve long texts are returned.
    assert pages < 6 * SIZE / 2 / PAGE, lines
