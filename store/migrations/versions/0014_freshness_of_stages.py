"""Freshness tells of every stage in the registry: it names the stages in its rows, not in its columns."""

from alembic import op

revision = "0.1.0_0014"
down_revision = "0.1.0_0013"
#: The columns of two functions change.
oldest_code = "0.1.0_0014"

_CHANGED = ("freshness(uuid, uuid, bigint)", "read_freshness(uuid, uuid)")


def upgrade() -> None:
    for function in _CHANGED:
        op.execute(f"drop function if exists afterturn.{function}")


def downgrade() -> None:
    upgrade()
