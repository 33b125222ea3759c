"""How far the build of a generation is, and which sentence model a worker's settings name."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0004"
down_revision = "0.1.0_0003"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("alter table public.afterturn_generation drop column share")
    op.execute("alter table public.afterturn_worker drop column model, drop column generation")
