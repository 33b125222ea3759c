"""Users are listed: from one to the next over an index (`unit_by_user`), which is built after the migration."""

from alembic import op

revision = "0.1.0_0003"
down_revision = "0.1.0_0002"


def upgrade() -> None:
    """Do nothing: indexes of tables in use are built by every upgrade (store/migrations/env.py)."""


def downgrade() -> None:
    op.execute("drop index if exists afterturn.unit_by_user")
