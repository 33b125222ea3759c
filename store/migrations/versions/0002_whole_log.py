"""The rest of the seed's tables, tombstones with versions, histories that can be compacted, readers of the log."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("tombstones and compacted histories cannot be told in the older schema")
