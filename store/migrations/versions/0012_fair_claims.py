"""Claims look at one host's work at a time."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute(
        "create index ledger_ready on afterturn.ledger_t (stage, position) "
        "where undone and next_attempt_at < 'infinity'"
    )
    op.execute("drop index afterturn.ledger_ready_by_host")
