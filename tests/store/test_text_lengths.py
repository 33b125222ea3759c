"""Whether a text has at most so many characters is known without reading a long one."""

import random
import re
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import ColumnElement, Text, cast, func, literal, select

from store import text_lengths
from store.database import Database
from store.driver_rows import get_driver_connection
from store.memory.turns import TurnStore
from store.schema import UNIT
from store.sql_constants import inline
from store.text_lengths import has_at_most
from tests.store.conftest import turn

SIZE, COUNT, MOST = 100_000, 12, 4000


@pytest.mark.parametrize(
    "text", ["", "a", "abcd", "abcde", "éééé", "ééééé", "😀😀😀😀", "😀😀😀😀😀", "aé😀b", "a" * 16, "a" * 17]
)
async def test_it_counts_characters_and_not_bytes(database: Database, host: UUID, text: str) -> None:
    async with database.tenant(host) as connection:
        found = await connection.scalar(select(has_at_most(cast(literal(text), Text), inline(4))))
    assert found is (len(text) <= 4)


@pytest.fixture
async def long_texts(host: UUID, turns: TurnStore) -> UUID:
    """A tenant with messages that are stored outside of their rows."""
    chance = random.Random("long texts")
    for n in range(COUNT):
        await turns.append(host, [turn(f"t{n}", chance.randbytes(SIZE // 2).hex(), "noted")])
    return host


async def _count_pages(database: Database, host: UUID, condition: ColumnElement[bool]) -> int:
    """Return how many pages are read to tell of each unit whether the condition holds."""
    query = select(func.count()).select_from(UNIT).where(condition)
    async with database.tenant(host) as connection:
        compiled = query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        explained = f"explain (analyze, buffers, timing off, format json) {compiled}"
        [told] = await get_driver_connection(connection).fetchval(explained)
    ran = told["Plan"]
    # A page that has left the cache is read, not hit.
    return int(ran["Shared Hit Blocks"]) + int(ran["Shared Read Blocks"])


@pytest.mark.untouched
async def test_a_long_text_is_not_read(database: Database, long_texts: UUID) -> None:
    counted = await _count_pages(database, long_texts, func.char_length(UNIT.c.content) <= MOST)
    known = await _count_pages(database, long_texts, has_at_most(UNIT.c.content, inline(MOST)))
    assert counted > known + COUNT * SIZE / 2 / 8192, (counted, known)


def test_no_query_counts_the_characters_of_a_text_otherwise() -> None:
    home = Path(text_lengths.__file__)
    files = [path for path in home.parent.rglob("*.py") if path != home]
    assert files
    assert [
        path.name for path in files if re.search(r"func\.(char_|character_)?length\(", path.read_text("utf-8"))
    ] == []
