"""SQL knows of events and aggregates what the registry says: one more is its entry and its projector."""

from typing import Any

import orjson
from sqlalchemy import text

from store.connections import create_owner_engine
from store.database import Database
from store.log.append import append_events
from store.log.catalog import AGGREGATES, COLUMNS, EVENTS, Aggregate, describe_registry
from store.log.envelope import build_command
from store.log.event_data import Erased
from store.schema import METADATA
from tests.servers import TestPostgres
from tests.store.conftest import new_host, rows
from tests.store.log.test_envelope import ORIGIN

RANKED = "select e.t, afterturn.event_rank(e.t), afterturn.begins(e.t) from unnest(cast(:types as text[])) e(t)"
PROJECTORS = (
    "select proname::text from pg_proc where pronamespace = 'afterturn'::regnamespace and proname ~ '^project_'"
)
RENAMER = """
    create function afterturn.project_bank_renamed(p_events afterturn.event_store_t[]) returns void language sql as $$
        update agent_memory_bank_t b set bank_name = e.data->>'bankName', aggregate_version = e.aggregate_version
          from unnest(p_events) e
         where b.host_id = e.host_id and b.bank_id = e.bank_id and e.event_type = 'AgentMemoryBankRenamedEvent' $$"""


async def test_sql_orders_events_and_knows_beginnings_as_the_registry_does(database: Database) -> None:
    types = [event.value for event in EVENTS]
    found = await rows(database, await new_host(database), RANKED, types=types)
    assert found == [(event.value, nth, spec.begins) for nth, (event, spec) in enumerate(EVENTS.items(), 1)]


async def test_every_event_has_its_projector_and_every_projector_its_event(database: Database) -> None:
    found = {name for (name,) in await rows(database, await new_host(database), PROJECTORS)}
    assert found - {"project_run"} == {f"project_{event.name.lower()}" for event in EVENTS}


def test_the_key_of_a_projection_is_host_bank_and_the_aggregates_id() -> None:
    for spec in AGGREGATES.values():
        key = [column.name for column in METADATA.tables[f"afterturn.{spec.table}"].primary_key]
        assert key == ["host_id", "bank_id", *spec.ids.values()]
        assert set(spec.counted) <= set(METADATA.tables[f"afterturn.{spec.table}"].columns.keys())


async def test_what_a_marker_keeps_is_what_an_erased_event_may_say(database: Database) -> None:
    [(kept,)] = await rows(database, await new_host(database), "select afterturn.kept_fields()")
    named = {str(field.alias) for field in Erased.model_fields.values()} - COLUMNS - {"erased", "messages"}
    assert set(kept) == named
    assert named >= {name for spec in AGGREGATES.values() for name in spec.ids}


async def test_one_event_more_is_its_entry_and_its_projector(fresh_database: TestPostgres) -> None:
    registry: Any = describe_registry()
    more = {**registry["events"][1], "type": "AgentMemoryBankRenamedEvent", "projector": "project_bank_renamed"}
    registry["events"].insert(2, more)
    engine = create_owner_engine(fresh_database.owner_url)
    async with engine.begin() as connection:
        await connection.execute(text("set local search_path to afterturn, public"))
        await connection.execute(text(RENAMER))
        told = {"registry": orjson.dumps(registry).decode()}
        await connection.execute(text("select afterturn.set_events(cast(:registry as jsonb))"), told)
        host = ORIGIN.host
        await connection.execute(
            text("insert into afterturn.host_t (host_id, name) values (:host, 'renaming')"), {"host": host}
        )
        await connection.execute(text("select set_config('afterturn.host', :host, true)"), {"host": str(host)})
        created = build_command(ORIGIN, next(iter(EVENTS)), {"bankName": "before"})
        renamed = {**created, "type": more["type"], "version": 2, "data": {"bankName": "after"}}
        await append_events(connection, host, [created])
        await append_events(connection, host, [{**renamed, "id": str(ORIGIN.user)}])
        named = await connection.scalar(text("select bank_name from afterturn.agent_memory_bank_t"))
    await engine.dispose()
    assert named == "after"
    assert created["aggregate"] == Aggregate.BANK
