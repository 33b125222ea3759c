"""Units may come by a command, as single memories."""

from alembic import op

revision = "0.1.0_0002"
down_revision = "0.1.0_0001"

_ALLOW = "alter table afterturn.agent_memory_unit_t add constraint agent_memory_unit_t_origin_check check (origin in "


def upgrade() -> None:
    op.execute("alter table afterturn.agent_memory_unit_t drop constraint agent_memory_unit_t_origin_check")
    op.execute(f"{_ALLOW}('message', 'extraction', 'document', 'memory'))")


def downgrade() -> None:
    op.execute("alter table afterturn.agent_memory_unit_t drop constraint agent_memory_unit_t_origin_check")
    op.execute(f"{_ALLOW}('message', 'extraction', 'document'))")
