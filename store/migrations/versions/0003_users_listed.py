"""Users are listed: from one to the next over an index."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0003"
down_revision = "0.1.0_0002"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop index afterturn.unit_by_user")
