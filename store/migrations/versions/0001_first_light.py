"""The schema of the first release: log, projections, ledger, vectors, and the walls between tenants."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    script = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    connection = op.get_bind().connection.dbapi_connection
    connection.run_async(lambda driver: driver.execute(script))


def downgrade() -> None:
    op.execute("drop schema hindsight cascade")
    op.execute("drop schema afterturn cascade")
