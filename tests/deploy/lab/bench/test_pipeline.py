"""`afterturn bench pipeline`: every promised measure is taken, on a stack of its own that is gone afterwards."""

import asyncio
from typing import Any

import psutil
import pytest
from sqlalchemy import text

from deploy.lab.bench import pipeline, row_floor, stage_floors
from deploy.lab.bench.bench_database import open_bench_database
from deploy.lab.bench.material import repeat_conversation
from deploy.lab.bench.measures import BenchOutcome
from deploy.lab.bench.pipeline import PipelineSizes
from deploy.lab.bench.pipeline_stack import open_pipeline_stack
from deploy.lab.bench.servers import BenchServers
from deploy.lab.bench.talk import TurnGenerator
from store.clock import read_machine_time
from store.memory.turns import TurnStore

# Two workers would measure twice.
pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("pipeline-bench")]

SMALL = PipelineSizes(rounds=1, banks=1, idle_banks=1, acknowledgements=3, sample=8)
PROMISED = {
    "pipeline_over_library_calls": ">= 0.7",
    "pipeline_over_embedder_alone": ">= 0.5",
    "no_op_stages": ">= 1000.0",
    "recall_job_p95_over_call": "<= 150.0",
    "ack_p95_saturated_over_quiet": "<= 3.0",
    "ack_p95_saturated": "<= 60.0",
}


@pytest.fixture(scope="module")
def measured() -> tuple[BenchOutcome, list[int]]:
    """One small run, and the processes it ran on."""
    with open_pipeline_stack() as on:
        pids = [on.gateway_pid, on.stack.pid, *(process.pid for process in on.stack.processes)]
        outcome = asyncio.run(pipeline.run(on, lambda _: None, SMALL))
    return outcome, pids


def test_every_promise_is_measured(measured: tuple[BenchOutcome, list[int]]) -> None:
    rows: list[dict[str, Any]] = measured[0].as_json()["measures"]
    assert {row["measure"]: row["target"] for row in rows} == PROMISED
    for row in rows:
        # A difference of two times may be anything.
        assert row["ours"] > 0 or row["measure"] == "recall_job_p95_over_call"
        if row["floor"] is not None:
            assert row["ratio"] == pytest.approx(row["ours"] / row["floor"], rel=0.01)


def test_the_floor_is_printed_for_each_stage(measured: tuple[BenchOutcome, list[int]]) -> None:
    outcome = measured[0]
    floors = [outcome.parts[f"floor_{part}_ms"] for part in ("embedding", "gateway", "rows", "rules")]
    assert all(floor > 0 for floor in floors)
    both = {measure.measure: measure.floor for measure in outcome.measures}
    assert both["pipeline_over_library_calls"] == pytest.approx(outcome.machine.cores / sum(floors) * 1000)
    assert both["pipeline_over_embedder_alone"] == pytest.approx(outcome.machine.cores / floors[0] * 1000)


def test_both_ratios_are_told_by_processor_time_too(measured: tuple[BenchOutcome, list[int]]) -> None:
    parts = measured[0].parts
    spent = sum(figure for name, figure in parts.items() if name.startswith("ours_"))
    assert parts["processor_over_embedder_alone"] == pytest.approx(parts["floor_embedding_ms"] / spent)
    assert parts["processor_over_library_calls"] > parts["processor_over_embedder_alone"]


def test_nothing_of_the_stack_is_left_running(measured: tuple[BenchOutcome, list[int]]) -> None:
    assert not any(psutil.pid_exists(pid) for pid in measured[1])


async def test_the_rows_of_the_floor_are_the_rows_that_were_written(grounds: BenchServers) -> None:
    async with open_bench_database(grounds) as here:
        database = here.database(1)
        try:
            source = await here.new_host(database)
            store, talk = TurnStore(database, read_machine_time), TurnGenerator("s")
            await store.append(source, talk.take(3))
            since = await row_floor.read_transaction_mark(here)
            await store.append(source, talk.take(5))
        finally:
            await database.close()
        copied = await row_floor.copy_rows(here, source, since)
        assert copied.seconds > 0
        assert not row_floor.LEFT_OUT & set(copied.rows)
        async with here.owner.connect() as connection:
            for table, rows in copied.rows.items():
                count = text(f"select count(*) from afterturn.{table} where host_id = :host")
                assert rows == (await connection.execute(count, {"host": source})).scalar_one(), table
            kept = text("select to_regnamespace(:name) is not null")
            assert not (await connection.execute(kept, {"name": here.name})).scalar_one()
        written = {table for table, rows in copied.rows.items() if rows}
        assert written >= {"event_store_t", "agent_memory_unit_t", "agent_session_history_t", "turn_t"}


def test_the_conversation_gives_every_stage_something_to_do() -> None:
    turns = next(repeat_conversation(1))
    assert all(turn.gateway for turn in turns)
    assert len([post for turn in turns for post in stage_floors.encode_gateway_calls(turn)]) == 2 * len(turns)
