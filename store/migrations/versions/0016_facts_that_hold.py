"""The newest facts that hold are read from an index in their order."""

from alembic import op

revision = "0.1.0_0016"
down_revision = "0.1.0_0015"


def upgrade() -> None:
    op.execute("""
        create index fact_holding on afterturn.fact_t (host_id, bank_id, valid_from desc, position desc)
         where valid_to is null""")


def downgrade() -> None:
    op.execute("drop index afterturn.fact_holding")
