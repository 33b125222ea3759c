"""`afterturn bench recall`: every promised measure is taken, on banks like real ones, and nothing stays behind."""

from pathlib import Path
from typing import Any

import pytest

from deploy.lab.bench.bench_database import open_bench_database
from deploy.lab.bench.recall.feeding import BATCH_TURNS, LoadStopped, run_background_load
from deploy.lab.bench.recall.filling import BankFiller, Phrases
from deploy.lab.bench.recall.speed import RecallServers, RecallSizes, run
from deploy.lab.bench.servers import BenchServers
from embeddings.registry import create_embedder
from embeddings.settings import EmbeddingSettings
from store import identity
from store.derived import bank_state
from store.recall.settings import RecallSettings
from tests.client.loopback import loopback
from tests.deploy.lab.bench.test_append import left_behind
from tests.deploy.native_double import KEY, NativeDouble
from tests.patience import wait_until
from tests.store.derived_rows import read_contents

SMALL = RecallSizes(units=200, banks=2, bank_units=60, rounds=1, questions=8, checked=2)
PROMISED = {
    "p95_120_units_in_2_banks_over_60_units": "<= 2.0",
    "fill_120_units": "<= 20.0",
    "recall_p50_1_client": "<= 2.5",
    "recall_p95_1_client": "<= 3.0",
    "recall_p50_8_clients": "<= 2.5",
    "recall_p95_8_clients": "<= 3.0",
    "recall_at_10_of_exact_60_units": ">= 0.98",
    "recall_at_10_of_exact_200_units": ">= 0.98",
}


@pytest.fixture
def on(grounds: BenchServers, tmp_path: Path) -> RecallServers:
    return RecallServers(grounds, None, tmp_path, "a test", EmbeddingSettings(), RecallSettings())


@pytest.mark.nightly
async def test_every_promise_is_measured_and_nothing_stays_behind(on: RecallServers) -> None:
    outcome = await run(on, lambda _: None, SMALL)
    rows: list[dict[str, Any]] = outcome.as_json()["measures"]
    assert {row["measure"]: row["target"] for row in rows} == PROMISED
    named = {row["measure"]: row for row in rows}
    for name in ("recall_p50_1_client", "recall_p95_8_clients"):
        assert named[name]["ratio"] == pytest.approx(named[name]["ours"] / named[name]["floor"], rel=0.01)
    assert named["recall_at_10_of_exact_200_units"]["ours"] == 1.0
    assert named["fill_120_units"]["floor"] is None
    assert set((await left_behind(on.servers)).values()) == {0}


@pytest.mark.nightly
async def test_a_filled_bank_is_as_the_stages_would_have_left_it(on: RecallServers, grounds: BenchServers) -> None:
    async with open_bench_database(grounds) as here:
        database, embedder = here.database(1), create_embedder(on.embedding, on.data)
        try:
            host = await here.new_host(database)
            await BankFiller(here.owner, host, await Phrases.read(embedder)).fill("b", 50)
            bank = identity.bank_id(host, "b")
            async with database.tenant(host) as connection:
                filled = await read_contents(connection, host, bank)
                await bank_state.rebuild_bank(connection, host, bank)
                assert filled == await read_contents(connection, host, bank)
            assert len(filled["term_t"]) > 50
        finally:
            await embedder.close()
            await database.close()


def test_a_bank_is_fed_with_whole_batches_while_the_block_runs() -> None:
    double = NativeDouble()
    with loopback() as server:
        server.answer = double.answer
        with run_background_load(server.url, KEY, "large") as taken:
            wait_until(lambda: len(double.batches) > 2, "it goes on")
    assert set(double.batches) == {BATCH_TURNS}
    assert {bank for bank, *_ in double.turns} == {"large"}
    assert taken.turns_per_s > 0


def test_a_service_that_takes_nothing_is_not_measured_as_if_it_were_fed() -> None:
    with loopback() as server:
        server.answer = NativeDouble().answer
        with pytest.raises(LoadStopped), run_background_load(server.url, "somebody else's key", "large"):
            pass
