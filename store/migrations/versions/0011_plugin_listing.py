"""Listings of the memory plugin read indexes in their order."""

from alembic import op

revision = "0.1.0_0011"
down_revision = "0.1.0_0010"

_ORDERED = "(host_id, bank_id, mentioned_at, (cast(metadata->'plugin'->>'id' as uuid)))"
_MEMORY = "origin = 'memory' and active and jsonb_exists(metadata, 'plugin')"


def upgrade() -> None:
    op.execute(f"create index unit_listed_by_plugin on afterturn.agent_memory_unit_t {_ORDERED} where {_MEMORY}")
    op.execute(f"""
        create index unit_pinned_by_plugin on afterturn.agent_memory_unit_t {_ORDERED}
         where {_MEMORY} and metadata->'plugin'->>'pin' = 'true'""")
    # What it served, the first of them does.
    op.execute("drop index afterturn.unit_of_plugin")


def downgrade() -> None:
    op.execute("""
        create index unit_of_plugin on afterturn.agent_memory_unit_t (host_id, bank_id, mentioned_at)
         where origin = 'memory' and active""")
    op.execute("drop index afterturn.unit_pinned_by_plugin")
    op.execute("drop index afterturn.unit_listed_by_plugin")
