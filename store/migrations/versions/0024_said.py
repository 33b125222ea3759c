"""What was said at one moment follows in the order of its turns."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("alter table afterturn.fact_t drop column said")
