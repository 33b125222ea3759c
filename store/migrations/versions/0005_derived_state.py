"""Facts with the time they hold, names that mean the same, and what to take back when something is forgotten."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("chunks of documents cannot be told in the older schema")
