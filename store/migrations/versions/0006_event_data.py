"""The log keeps an event's data and columns; its CloudEvents envelope is made on reading."""

from pathlib import Path

from alembic import op

from store.migrations.scripts import run_script

revision = "0.1.0_0006"
down_revision = "0.1.0_0005"
#: It takes columns and functions away.
oldest_code = "0.1.0_0006"


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise RuntimeError("a schema is not taken back: restore a backup")
