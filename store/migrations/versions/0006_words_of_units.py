"""The words of a unit are one row, written with it; the projection stage carries them to the index of words."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("words that wait for the index of words have no place in the older schema")
