"""The index of words holds no pairs of words: what was said on a day is found by its time.

Maintenance cuts the words of every bank anew; until then, pairs that no query looks up stay where they are.
"""

from alembic import op

revision = "0.1.0_0017"
down_revision = "0.1.0_0016"


def upgrade() -> None:
    op.execute("""
        insert into afterturn.bank_language_t as l (host_id, bank_id, language, former, changed_at)
        select b.host_id, b.bank_id, 'auto', 'auto', now() from afterturn.agent_memory_bank_t b where b.active
        on conflict (host_id, bank_id) do update
           set former = coalesce(l.former, l.language), place = null, changed_at = now()""")


def downgrade() -> None:
    op.execute("drop index if exists afterturn.unit_by_time")
