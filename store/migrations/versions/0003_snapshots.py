"""Snapshots that were made or taken in: what each held, and how far it came."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0003"
down_revision = "0.1.0_0002"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop table afterturn.snapshot_t")
    op.execute("revoke insert (digest_key) on afterturn.host_t from afterturn_operator")
