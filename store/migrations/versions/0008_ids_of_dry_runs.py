"""The ids that dry runs of imports were given are deleted when they end."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0008"
down_revision = "0.1.0_0007"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("revoke delete on afterturn.imported_id_t from afterturn_app")
