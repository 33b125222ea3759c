"""Erasures: what was asked to be gone, how far that has come, and the receipt."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("what was erased cannot be brought back, and its receipts are not thrown away")
