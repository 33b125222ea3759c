"""The schema of the first release: tables, partitions, planner statistics and types, roles with policies and grants."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0001"
down_revision = None

TABLES = ("tenants", "log", "projections", "work", "derived", "service")
SCRIPTS = (*TABLES, "partitions_and_statistics", "types", "access")


def upgrade() -> None:
    folder = Path(__file__).with_name("0001")
    for name in SCRIPTS:
        run_script(op.get_bind(), (folder / f"{name}.sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("there is no schema before the first: use another database")
