"""What was changed since a moment is found without reading the bank."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop index afterturn.unit_changed")
