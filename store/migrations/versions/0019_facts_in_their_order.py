"""The last fact of a session before another is found in one look."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("""
        drop index afterturn.unit_other_by_session;
        create index unit_other_by_session on afterturn.agent_memory_unit_t (host_id, bank_id, session_id)
            where seq is null""")
