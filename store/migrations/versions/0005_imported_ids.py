"""Imports into another tenant: the ids that they gave, by those of the source."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0005"
down_revision = "0.1.0_0004"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop table afterturn.imported_id_t")
    op.execute("alter table afterturn.snapshot_t drop column mapping_id")
