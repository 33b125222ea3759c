"""Direct readers are shown the vectors of the sentence model that the service embeds with."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0027"
down_revision = "0026"

NEWEST_VECTOR = """(
    select v.embedding::public.vector(384) from afterturn.unit_vector_t v
     where v.host_id = t.host_id and v.bank_id = t.bank_id and v.unit_id = t.{key} and v.chunk = 0
     order by v.generation desc limit 1) as embedding"""
COLUMNS = {
    "agent_memory_unit_t": "t.host_id, t.unit_id, t.bank_id, t.doc_id, t.content, {vector}, t.context, t.event_date, "
    "t.occurred_start, t.occurred_end, t.mentioned_at, t.fact_type, t.metadata, t.proof_count, t.source_memory_ids",
    "agent_memory_reflection_t": "t.host_id, t.reflection_id, t.bank_id, t.content, {vector}",
}


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    for view, key in (("agent_memory_unit_t", "unit_id"), ("agent_memory_reflection_t", "reflection_id")):
        columns = COLUMNS[view].format(vector=NEWEST_VECTOR.format(key=key))
        op.execute(
            f"create or replace view hindsight.{view} with (security_invoker) as "  # noqa: S608 - constants
            f"select {columns}, t.aggregate_version, t.active, t.update_ts, t.update_user from afterturn.{view} t"
        )
    op.execute("drop table public.afterturn_live_model")
