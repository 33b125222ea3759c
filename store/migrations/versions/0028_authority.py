"""Keys with the scope `curate`, and who laid a directive down."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("alter table afterturn.agent_memory_directive_t drop column laid_down_by")
    op.execute("alter table afterturn.api_key_t drop column can_curate")
