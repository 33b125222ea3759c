"""Functions that give messages the metadata of their turn, which code of this revision sends once.

It changes no table. The revision keeps such code from functions that would drop the metadata, and tells `db migrate` to
install these.
"""

revision = "0.1.0_0009"
down_revision = "0.1.0_0008"


def upgrade() -> None:
    """Change nothing: functions are installed after every revision."""


def downgrade() -> None:
    """Change nothing."""
