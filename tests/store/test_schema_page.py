"""The schema page is true: every table, its owner, what is added to the seed; and the views show exactly the seed."""

import re
from pathlib import Path
from uuid import UUID

import pytest

import store
from store.database import Database
from tests.store.conftest import rows

PAGE = (Path(store.__file__).parent / "SCHEMA.md").read_text(encoding="utf-8")
OWNERS = {"log", "pipeline", "ledger", "operator"}
TAIL = ("aggregate_version", "active", "update_ts", "update_user")

#: The seed's tables and columns (contracts: Hindsight tables).
SEED = {
    "agent_memory_bank_t": (
        *("host_id", "bank_id", "agent_def_id", "user_id", "bank_name", "disposition", "background"),
        *TAIL,
    ),
    "agent_memory_doc_t": ("host_id", "doc_id", "bank_id", "original_text", "content_hash", *TAIL),
    "agent_memory_unit_t": (
        *("host_id", "unit_id", "bank_id", "doc_id", "content", "embedding", "context", "event_date"),
        *("occurred_start", "occurred_end", "mentioned_at", "fact_type", "metadata", "proof_count"),
        *("source_memory_ids", *TAIL),
    ),
    "agent_memory_entity_t": (
        *("host_id", "entity_id", "bank_id", "user_id", "canonical_name", "mention_count", "metadata"),
        *TAIL,
    ),
    "agent_memory_unit_entity_t": ("host_id", "bank_id", "unit_id", "entity_id"),
    "agent_memory_entity_cooccur_t": (
        *("host_id", "bank_id", "entity_id_1", "entity_id_2", "cooccur_count", "last_cooccurred"),
    ),
    "agent_memory_link_t": ("host_id", "bank_id", "from_unit_id", "to_unit_id", "link_type", "weight", *TAIL),
    "agent_memory_directive_t": ("host_id", "directive_id", "bank_id", "name", "content", "priority", *TAIL),
    "agent_memory_reflection_t": ("host_id", "reflection_id", "bank_id", "content", "embedding", *TAIL),
    "event_store_t": (
        *("id", "host_id", "user_id", "nonce", "aggregate_id", "aggregate_version", "aggregate_type", "event_type"),
        *("event_ts", "payload", "metadata"),
    ),
    "agent_session_history_t": ("host_id", "session_id", "bank_id", "messages", "metadata", *TAIL),
}
COLUMNS = """
    select c.relname, array_agg(a.attname::text order by a.attnum)
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where n.nspname = :schema and c.relkind in ('r', 'p', 'v') and not c.relispartition group by c.relname"""


async def columns(database: Database, host: UUID, schema: str) -> dict[str, list[str]]:
    return dict(await rows(database, host, COLUMNS, schema=schema))


def lines() -> list[list[str]]:
    """The rows of the page's tables, headings and rules left out."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
    return [row for row in cells if not re.fullmatch(r"-*|table", row[0])]


def names(cell: str) -> set[str]:
    return set() if cell == "-" else set(cell.split(", "))


async def test_the_views_show_the_seeds_exact_columns(database: Database, host: UUID) -> None:
    assert {name: tuple(found) for name, found in (await columns(database, host, "hindsight")).items()} == SEED


async def test_the_page_names_every_table_once_with_its_owner(database: Database, host: UUID) -> None:
    named = [row[0] for row in lines()]
    assert sorted(named) == sorted(await columns(database, host, "afterturn"))
    assert {row[1] for row in lines()} <= OWNERS
    assert {row[0] for row in lines() if len(row) == len(("table", "owner", "added", "elsewhere", "holds"))} == set(
        SEED
    )


@pytest.mark.parametrize("table", sorted(SEED))
async def test_the_page_says_what_is_added_to_the_seeds_columns(database: Database, host: UUID, table: str) -> None:
    ours = set((await columns(database, host, "afterturn"))[table])
    [row] = [row for row in lines() if row[0] == table]
    assert names(row[2]) == ours - set(SEED[table])
    assert names(row[3]) == set(SEED[table]) - ours


async def test_the_log_owns_what_a_replay_compares(database: Database, host: UUID) -> None:
    [(backed,)] = await rows(database, host, "select afterturn.event_backed()")
    # Guards are compared with the log itself, and not with what its projectors write.
    assert {row[0] for row in lines() if row[1] == "log"} == {*backed, "event_store_t", "turn_t"}
