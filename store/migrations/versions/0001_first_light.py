"""The schema of the first release: log, projections, ledger, vectors, and the walls between tenants."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop schema hindsight cascade")
    op.execute("drop schema afterturn cascade")
