"""Every attempt that failed is on record."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("revoke insert on afterturn.audit_event_t from afterturn_operator")
