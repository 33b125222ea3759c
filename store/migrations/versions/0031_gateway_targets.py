"""Each tenant hands its turns to a Memory Gateway of its own."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("deliveries cannot be told apart in the older schema")
