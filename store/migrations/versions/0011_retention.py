"""What was said can be erased by its age."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("receipts of what was erased by its age are not thrown away")
