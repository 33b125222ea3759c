"""Listings of the memory plugin read indexes in their order, which are built after the migration."""

from alembic import op

revision = "0.1.0_0011"
down_revision = "0.1.0_0010"


def upgrade() -> None:
    # What it served, `unit_listed_by_plugin` does.
    op.execute("drop index if exists afterturn.unit_of_plugin")


def downgrade() -> None:
    op.execute("drop index if exists afterturn.unit_pinned_by_plugin")
    op.execute("drop index if exists afterturn.unit_listed_by_plugin")
