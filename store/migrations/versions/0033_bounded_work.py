"""Work is bounded: pairs by the place of a mention, claims by the bytes of their turns, recall jobs by their number."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop index afterturn.recall_job_of_host")
    op.execute("alter table afterturn.agent_memory_unit_entity_t drop column place")
    op.execute("alter table afterturn.ledger_t drop column bytes")
