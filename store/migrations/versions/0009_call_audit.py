"""Who called which door, for what, how long it took and how it ended."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("an audit is not thrown away by going back")
