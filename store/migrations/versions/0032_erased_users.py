"""The erasure of a user erases the user's own banks, each by an erasure of its own."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("alter table afterturn.erasure_t drop column parent_id")
