"""Counting a pair of entities looks for neither of them again."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    for entity in ("entity_id_1", "entity_id_2"):
        op.execute(
            f"alter table afterturn.agent_memory_entity_cooccur_t add foreign key (host_id, bank_id, {entity}) "
            "references afterturn.agent_memory_entity_t on delete cascade"
        )
