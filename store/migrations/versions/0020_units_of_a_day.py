"""The units of a day are read by an index whose condition row-level security lets through."""

from alembic import op

revision = "0.1.0_0020"
down_revision = "0.1.0_0019"


def upgrade() -> None:
    # What it was for, `unit_by_occurrence` does.
    op.execute("drop index if exists afterturn.unit_by_time")


def downgrade() -> None:
    op.execute("drop index if exists afterturn.unit_by_occurrence")
