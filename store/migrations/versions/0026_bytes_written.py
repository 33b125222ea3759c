"""Quotas of bytes count what callers wrote where it stands; documents keep title, metadata and time once."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    for table in ("unit", "doc", "link", "directive"):
        op.execute(f"alter table afterturn.agent_memory_{table}_t drop column bytes")
    for column in ("title", "metadata", "occurred_at"):
        op.execute(f"alter table afterturn.agent_memory_doc_t drop column {column}")
    op.execute("alter table afterturn.recall_job_t drop column bytes")
