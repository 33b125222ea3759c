"""Keys of one user or agent that expire and are rotated, banks behind a wall of their own, quotas."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("a key of one user would be a key of all users in the older schema")
