"""Vectors of any dimension, and the generations that they are of."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0002"
down_revision = "0.1.0_0001"
#: Code before it makes its own model live at its start, and asks for indexes that are no more.
oldest_code = "0.1.0_0002"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("vectors of another dimension would be lost: restore a backup")
