"""The newest facts of a kind and subject are read from an index in their order."""

from alembic import op

revision = "0.1.0_0019"
down_revision = "0.1.0_0018"


def upgrade() -> None:
    """Do nothing: indexes of tables in use are built by every upgrade (store/migrations/env.py)."""


def downgrade() -> None:
    op.execute("drop index if exists afterturn.fact_of_kind")
