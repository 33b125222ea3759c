"""Which version of an extractor has read which turn, beyond the rules' first reading."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop table afterturn.reading_t")
