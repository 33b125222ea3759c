"""Whose words are written is asked once a statement."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    for table in ("posting_t", "term_t"):
        op.execute(f"alter policy tenant on afterturn.{table} with check (host_id = afterturn.current_host())")
