"""The planner knows that a bank belongs to one host."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute(
        "do $$ declare s text; begin "
        "for s in select stxname from pg_statistic_ext where stxnamespace = 'afterturn'::regnamespace "
        "loop execute format('drop statistics afterturn.%I', s); end loop; end $$"
    )
