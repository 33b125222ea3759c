"""The newest facts that hold are read from an index in their order."""

from alembic import op

revision = "0.1.0_0016"
down_revision = "0.1.0_0015"


def upgrade() -> None:
    """Do nothing: indexes of tables in use are built by every upgrade (store/migrations/env.py)."""


def downgrade() -> None:
    op.execute("drop index if exists afterturn.fact_holding")
