"""What maintenance needs: its schedule, and how turns ended whose ledger rows were pruned."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("how pruned turns ended is kept nowhere else")
