"""Searches of the memory plugin for a rare kind read an index of it, which is built after the migration."""

from alembic import op

revision = "0.1.0_0015"
down_revision = "0.1.0_0014"


def upgrade() -> None:
    """Do nothing: indexes of tables in use are built by every upgrade (store/migrations/env.py)."""


def downgrade() -> None:
    for kind in ("fact", "summary", "checkpoint"):
        op.execute(f"drop index if exists afterturn.unit_{kind}_by_plugin")
