"""Facts keep what confidence and tier add to their score: all of a bank's are ranked without their units."""

from alembic import op

revision = "0.1.0_0024"
down_revision = "0.1.0_0023"


def upgrade() -> None:
    op.execute("alter table afterturn.fact_t add column if not exists weight double precision not null default 0")
    op.execute(r"""
        update afterturn.fact_t f
           set weight = case when u.metadata->>'confidence' ~ '^(0|1|0?\.\d{1,9}|1\.0{1,9})$'
                             then (u.metadata->>'confidence')::float8 else 0 end
                      + case u.metadata->>'tier' when 'L0' then 0.35::float8 when 'L1' then 0.1::float8
                             else 0.2::float8 end
          from afterturn.agent_memory_unit_t u
         where u.host_id = f.host_id and u.bank_id = f.bank_id and u.unit_id = f.unit_id and f.weight = 0""")


def downgrade() -> None:
    op.execute("alter table afterturn.fact_t drop column if exists weight")
