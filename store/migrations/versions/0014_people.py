"""What is known of a person is found by the person."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop index afterturn.fact_by_subject, afterturn.unit_of_user")
