"""No role passes row-level security: the operator reads by policy, the owner, too."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("grant select, insert, update on afterturn.api_key_t to afterturn_operator")
