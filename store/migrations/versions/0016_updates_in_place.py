"""Most updates of the ledger leave its indexes alone."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop index afterturn.ledger_failed")
    op.execute("alter table afterturn.ledger_t drop column failed_at")
    op.execute(
        "create index ledger_failed on afterturn.ledger_t (stage, updated_at) "
        "where status in ('dead', 'unknown', 'add_failed', 'add_unknown', 'flush_failed')"
    )
