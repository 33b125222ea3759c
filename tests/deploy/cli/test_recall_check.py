"""`afterturn recall-check` on a real database: what is exact passes, and a poorer search is noticed."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text

from deploy.cli import recall_check
from deploy.cli.recall_check import SIZE_LIMITS, SIZE_NAMES, classify_size
from deploy.local.stack import FILE, Stack
from store import identity
from store.derived.unit_vectors import UnitsToEmbed, insert_vectors, read_missing
from store.recall import dense_arm
from store.recall.accuracy_check import CheckedQuestion
from store.recall.dense_arm import PLAIN
from store.recall.settings import RecallSettings
from tests.deploy.operated import HOST_ID, Busy, busy_stack
from tests.generations import make_generation_live
from tests.servers import TestPostgres, TestValkey
from tests.tables import each_row

UNITS = 60
GENERATION = 1


@pytest.fixture
async def stored(tmp_path: Path, fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[Busy]:
    """A stack with a bank whose units have vectors, half of them with a tag."""
    async with busy_stack(tmp_path / "data", fresh_database, valkey) as busy:
        await busy.append(*((f"s{n % 3}", f"t{n}") for n in range(UNITS // 2)), bank="home")
        await _embedded(busy, identity.bank_id(HOST_ID, "home"))
        yield busy


async def _embedded(busy: Busy, bank: UUID) -> None:
    turns = await busy.tell("select turn_id from afterturn.turn_t where bank_id = :bank", bank=bank)
    async with busy.opened() as database:
        async with database.tenant(HOST_ID) as connection:
            units = await read_missing(
                connection, HOST_ID, GENERATION, [UnitsToEmbed(bank, row.turn_id, False) for row in turns]
            )
        vectors = np.random.default_rng(7).standard_normal((len(units), 384), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        async with database.tenant(HOST_ID) as connection:
            await insert_vectors(connection, HOST_ID, GENERATION, units, vectors)
        await make_generation_live(database, GENERATION)
    tagged = """update afterturn.agent_memory_unit_t set metadata = '{"tags": ["one"]}' where role = 'user'"""
    await busy.tell(tagged + " returning 1")


async def test_an_exact_search_finds_all_of_it_at_every_size_and_under_every_filter(stored: Busy) -> None:
    found = await stored.answer("recall-check", "--units", "6")
    assert (found["recall_at_10"], found["met"], found["target"]) == (1.0, True, ">= 0.98")
    assert [(row["units"], row["banks"]) for row in found["sizes"]] == [(SIZE_NAMES[0], 1)]
    rows = {row["filter"]: row for row in found["filters"]}
    assert rows.keys() >= {"none", "kinds", "session"}
    assert all(row["recall_at_10"] == 1.0 for row in rows.values())
    assert rows["none"]["questions"] == 6


async def test_a_search_that_misses_neighbours_does_not_hold(stored: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_arm, "PLAIN", PLAIN.where(text("get_byte(uuid_send(v.unit_id), 0) < 128")))
    result = await stored.run("recall-check", "--units", "6", "--json")
    assert result.exit_code == 1
    assert '"met": false' in result.stdout


async def test_texts_that_are_the_same_count_for_each_other(stored: Busy) -> None:
    one = "select embedding from afterturn.unit_vector_t order by unit_id limit 1"
    await stored.tell(f"update afterturn.unit_vector_t set embedding = ({one}) returning 1")
    found = await stored.answer("recall-check", "--bank", "home", "--units", "3")
    assert found["recall_at_10"] == 1.0


async def test_the_bounds_of_the_running_stack_are_those_that_are_tried(
    stored: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Stack.model_validate_json((stored.folder / FILE).read_text())
    running.model_copy(update={"recall": RecallSettings(exact_units=7)}).save(stored.folder)
    tried: list[int] = []

    async def compared(
        _database: object, _bank: object, _units: int, settings: RecallSettings
    ) -> list[CheckedQuestion]:
        tried.append(settings.exact_units)
        return []

    monkeypatch.setattr(recall_check, "compare_searches", compared)
    await stored.run("recall-check")
    assert tried == [7]


@each_row("units, name", [(1, 0), (SIZE_LIMITS[0], 1), (SIZE_LIMITS[1] - 1, 1), (SIZE_LIMITS[3], 4)])
def test_banks_are_told_apart_by_their_size(units: int, name: int) -> None:
    assert classify_size(units) == name
