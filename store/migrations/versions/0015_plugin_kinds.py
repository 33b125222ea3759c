"""Searches of the memory plugin for a rare kind read an index of it."""

from alembic import op

revision = "0.1.0_0015"
down_revision = "0.1.0_0014"

KINDS = ("fact", "summary", "checkpoint")


def upgrade() -> None:
    for kind in KINDS:
        op.execute(f"""
            create index unit_{kind}_by_plugin on afterturn.agent_memory_unit_t (host_id, bank_id)
             where origin = 'memory' and active and jsonb_exists(metadata, 'plugin')
               and metadata->'plugin'->>'kind' = '{kind}'""")


def downgrade() -> None:
    for kind in KINDS:
        op.execute(f"drop index afterturn.unit_{kind}_by_plugin")
