"""Banks have a language; words of scripts with rules of their own are cut anew."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop table afterturn.bank_language_t")
