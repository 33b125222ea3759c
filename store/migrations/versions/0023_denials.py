"""A fact may deny: it holds for no time and ends the facts before it that have its value."""

from alembic import op

revision = "0.1.0_0023"
down_revision = "0.1.0_0022"


def upgrade() -> None:
    op.execute("alter table afterturn.fact_t add column denied boolean not null default false")


def downgrade() -> None:
    op.execute("delete from afterturn.fact_t where denied")
    op.execute("alter table afterturn.fact_t drop column denied")
