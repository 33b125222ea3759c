"""Namespaces of memory plugins, and the vectors that their callers bring."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0004"
down_revision = "0.1.0_0003"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop table afterturn.plugin_vector_t")
    op.execute("drop table afterturn.plugin_namespace_t")
