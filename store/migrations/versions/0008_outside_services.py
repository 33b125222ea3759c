"""Gates before somebody else's services, and a stage in which a model reads turns beside the rules."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("rows of the enrichment stage cannot be told in the older schema")
