"""It is known which models at other machines' doors were told what people said."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("drop table public.afterturn_outside_model")
