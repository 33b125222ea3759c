"""Events come into the log by one function; those that numbered them in its place go."""

from alembic import op

revision = "0.1.0_0012"
down_revision = "0.1.0_0011"
#: Functions alone called what it takes away.
oldest_code = "0.1.0_0006"


def upgrade() -> None:
    op.execute("drop function if exists afterturn.number_events(uuid, jsonb)")
    op.execute("drop function if exists afterturn.number_turns(uuid, afterturn.offered_turn[], text[], uuid[])")


def downgrade() -> None:
    """Do nothing: functions are installed by every upgrade."""
