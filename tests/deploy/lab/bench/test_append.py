"""`afterturn bench append`: every promised measure is taken, and nothing of the bench stays behind."""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from typer.testing import CliRunner, Result

from deploy.cli.app import build_cli
from deploy.lab.bench import append
from deploy.lab.bench.acknowledgement import AcknowledgementBench, derive_turn_ids
from deploy.lab.bench.acknowledgement import append_new_turns as append_turns
from deploy.lab.bench.append import AppendSizes, run
from deploy.lab.bench.bench_database import open_bench_database
from deploy.lab.bench.footprint import measure_footprint
from deploy.lab.bench.measures import BenchOutcome
from deploy.lab.bench.servers import BenchServers
from deploy.lab.bench.talk import TurnGenerator
from deploy.lab.bench.turn_costs import measure_round_trips
from producers.service.session_summaries import Summariser
from store.clock import read_machine_time
from store.connections import create_owner_engine
from store.database import Database
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from store.memory.session_history import SessionHistory
from store.memory.session_summaries import SessionSummaries, SummaryLimits
from store.memory.turns import TurnStore
from tests.deploy.operated import Operated
from tests.servers import TestPostgres

SMALL = AppendSizes(
    rounds=1,
    turns=2,
    cpu_turns=5,
    session_turns=20,
    bulk_events=600,
    bulk_rounds=1,
    memory_from=300,
    memory_to=600,
    footprint_banks=1,
)
PROMISED = {
    "ack_p50_1_connection_over_same_rows": "<= 1.8",
    "ack_p50_8_connections_over_same_rows": "<= 1.8",
    "round_trips_64_messages_over_1": "<= 1.0",
    "own_cpu_per_turn": "<= 3.0",
    "session_of_20_turns_end_over_start": "<= 1.2",
    "bulk_append_log_only": ">= 20000.0",
    "bulk_append_with_projections": ">= 5000.0",
    "replay": ">= 10000.0",
    "memory_growth_300_to_600_events": "<= 50.0",
}


async def left_behind(grounds: BenchServers) -> dict[str, int]:
    engine = create_owner_engine(grounds.owner_url.get_secret_value())
    async with engine.connect() as connection:
        tables = (await connection.execute(text("select afterturn.event_backed()"))).scalar_one()
        counts = {}
        for table in (*tables, "host_t", "event_store_t", "turn_t", "ledger_t", "unit_word_t", "claim_t"):
            counts[table] = (await connection.execute(text(f"select count(*) from afterturn.{table}"))).scalar_one()
        schemas = "select count(*) from pg_namespace where nspname like 'bench%'"
        counts["schemas"] = (await connection.execute(text(schemas))).scalar_one()
    await engine.dispose()
    return counts


async def test_a_turn_of_many_messages_takes_no_more_round_trips(grounds: BenchServers) -> None:
    async with open_bench_database(grounds) as here:
        trips = await measure_round_trips(here)
    assert (trips.floor, trips.ours, trips.met) == (1, 1, True)


async def test_the_floor_writes_the_rows_that_an_append_writes(grounds: BenchServers) -> None:
    async with open_bench_database(grounds) as here, append._open_floors(here) as (database, floors):
        host = await here.new_host(database)
        acknowledging = await AcknowledgementBench(here, database, floors, host, 2).warmed_up()
        await acknowledging.rounds(1, 3)
        await summarise_sessions(database, floors.host)
        taken = await acknowledging.rounds(2, 3)
        assert [len(taken.ours), len(taken.floor)] == [12, 12]
        for table in ("event_store_t", "agent_memory_unit_t", "unit_word_t", "turn_t", "ledger_t"):
            assert await written(here.owner, table, floors.host) > 0
        ours = await sessions(here.owner, host)
        assert await sessions(here.owner, floors.host) == ours
        summarised = [await summarise_sessions(database, one) for one in (host, floors.host)]
        assert summarised == [2, 0]


async def summarise_sessions(database: Database, host: UUID) -> int:
    """Summarise a tenant's sessions as maintenance does; return how many were."""
    summaries, limits = SessionSummaries(database, read_machine_time), SummaryLimits(items=1)
    summariser = Summariser(summaries, SessionHistory(database, read_machine_time), lambda _host, _bank: limits)
    due = await summariser.find_due(host, await summaries.list_sessions(host, (UUID(int=0), UUID(int=0))))
    return sum([(await summariser.summarise(one)).messages > 0 for one in due])


async def written(owner: Any, table: str, host: Any) -> int:
    async with owner.connect() as connection:
        count = text(f"select count(*) from afterturn.{table} where host_id = :host")
        return int((await connection.execute(count, {"host": host})).scalar_one())


async def sessions(owner: Any, host: Any) -> list[tuple[Any, ...]]:
    async with owner.connect() as connection:
        rows = text(
            "select session_name, message_count, turn_count, aggregate_version from afterturn.agent_session_history_t "
            "where host_id = :host order by 1"
        )
        return [tuple(row) for row in await connection.execute(rows, {"host": host})]


@pytest.mark.nightly
async def test_the_bytes_of_a_chat_turn_are_told_by_table(fresh_database: TestPostgres) -> None:
    app, operator = SecretStr(fresh_database.app_url), SecretStr(fresh_database.operator_url)
    servers = BenchServers(app, operator, SecretStr(fresh_database.owner_url), shared=False)
    async with open_bench_database(servers) as here:
        found = await measure_footprint(here, 1)
    tables = {name: size for name, size in found.items() if not name.endswith("_a_turn")}
    assert {"event_store_t_kib", "unit_vector_t_kib", "posting_t_kib", "ledger_t_kib"} <= set(tables)
    # Small tables are left out of the list; there may be none.
    assert 0 <= round(found["disk_kib_a_turn"] - sum(tables.values()), 6) < 0.2
    assert found["disk_kib_a_turn"] < found["wal_kib_a_turn"] < 100


async def test_workers_of_a_running_stack_find_nothing_of_a_bench(grounds: BenchServers) -> None:
    async with open_bench_database(grounds) as here:
        database = here.database(2)
        try:
            host = await here.new_host(database)
            turns = TurnGenerator("s").take(3)
            session, ids = derive_turn_ids(host, turns)
            async with here.kept_from_workers(host, [session], ids):
                await append_turns(TurnStore(database, read_machine_time), host, *turns)
                assert await claimed(database) == []
            assert await claimed(database) == []
        finally:
            await database.close()


async def claimed(database: Database) -> list[object]:
    ledger, found = Ledger(database), []
    for stage in Stage:
        found += await ledger.claim(stage, streams=10, rows=10, lease=timedelta(seconds=30), worker="w", max_attempts=5)
    return list(found)


@pytest.mark.nightly
async def test_every_promise_is_measured_and_shown_and_nothing_stays_behind(
    grounds: BenchServers, operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[BenchOutcome] = []

    async def once(*told: Any) -> BenchOutcome:
        if not measured:
            measured.append(await run(*told))
        return measured[0]

    monkeypatch.setattr(append, "FULL", SMALL)
    monkeypatch.setattr(append, "run", once)
    result = await operated.run("bench", "append", "--full", "--json")
    assert_told(result)
    assert set(measured[0].machine.settings) >= {"fsync", "synchronous_commit"}
    assert set((await left_behind(grounds)).values()) == {0}
    table = (await operated.run("bench", "append", "--full")).stdout
    assert "fsync" in table
    assert all(name in table for name in PROMISED)


def assert_told(result: Result) -> None:
    """One object, with every measure beside its floor, and an exit status by the targets."""
    assert len(result.stdout.splitlines()) == 1
    assert "running stack" in result.stderr
    shown = json.loads(result.stdout)
    assert set(shown["machine"]) == {"cores", "postgresql", "pgvector"}
    rows: list[dict[str, Any]] = shown["measures"]
    assert result.exit_code == (0 if all(row["met"] for row in rows) else 1)
    assert {row["measure"]: row["target"] for row in rows} == PROMISED
    for row in rows:
        assert set(row) == {"measure", "unit", "floor", "ours", "ratio", "target", "met"}
        if row["floor"] is None:
            assert row["ratio"] is None
        else:
            assert row["floor"] > 0
            assert row["ratio"] == pytest.approx(row["ours"] / row["floor"], rel=0.01)


async def test_an_unknown_bench_is_wrong_usage() -> None:
    result = await asyncio.to_thread(CliRunner().invoke, build_cli("bench"), ["bench", "nothing"])
    assert result.exit_code == 2
    assert "append" in result.stderr
