"""The documents of a bank are listed by the time they were written."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop index afterturn.doc_by_time")
