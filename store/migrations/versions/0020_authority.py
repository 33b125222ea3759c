"""A call's authority is read again where it writes."""

from alembic import op

revision = "0.1.0_0020"
down_revision = "0.1.0_0019"


def upgrade() -> None:
    # What is told of a call: its key, the user whose token or key it is, when that was made, and when the call began.
    op.execute("""
        create type afterturn.call_authority as
            (key_id uuid, user_id uuid, issued_at timestamptz, began_at timestamptz)""")
    # WHY these columns alone: whether a key of its own still holds, a tenant's transaction may see.
    op.execute("grant select (host_id, key_id, revoked_at, expires_at) on afterturn.api_key_t to afterturn_app")
    # Whose turn it will be, so that the erasure of a user closes that user's open turns alone.
    op.execute("alter table afterturn.open_turn_t add column user_id uuid")


def downgrade() -> None:
    op.execute("alter table afterturn.open_turn_t drop column user_id")
    op.execute("revoke select (host_id, key_id, revoked_at, expires_at) on afterturn.api_key_t from afterturn_app")
    op.execute("drop index if exists afterturn.erasure_marks")
    op.execute("drop type afterturn.call_authority cascade")
