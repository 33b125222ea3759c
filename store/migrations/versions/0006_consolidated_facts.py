"""Facts that say the same as a newer one: which one that is."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0006"
down_revision = "0.1.0_0005"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("alter table afterturn.fact_t drop column consolidated_by")
