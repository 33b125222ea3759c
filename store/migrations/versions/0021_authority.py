"""A call's authority is read again where it writes; an erasure for each thing that can be deleted; ids in the audit."""

from alembic import op

revision = "0.1.0_0021"
down_revision = "0.1.0_0020"

_KINDS = "alter table afterturn.erasure_t add constraint erasure_t_kind_check check (kind in "
_BEFORE = "('unit', 'session', 'user', 'bank', 'age', 'ended'"


def upgrade() -> None:
    # What is told of a call: its key, the user whose token or key it is, when that was made, and when the call began.
    op.execute("""
        create type afterturn.call_authority as
            (key_id uuid, user_id uuid, issued_at timestamptz, began_at timestamptz)""")
    # WHY these columns alone: whether a key of its own still holds, a tenant's transaction may see.
    op.execute("grant select (host_id, key_id, revoked_at, expires_at) on afterturn.api_key_t to afterturn_app")
    # Single documents, directives and memories are erased, too.
    op.execute("alter table afterturn.erasure_t drop constraint erasure_t_kind_check")
    op.execute(f"{_KINDS}{_BEFORE}, 'document', 'directive', 'memory'))")
    # Audit rows of deliveries name the session by its id.
    op.execute("""
        update afterturn.audit_event_t a set payload = a.payload || jsonb_build_object('gateway_session', a.session_id)
         where a.payload ? 'gateway_session'""")
    # Each row of a key is its tenant's to the owner, too; the upgrade makes the policy anew.
    op.execute("drop policy if exists owner on afterturn.api_key_t")
    # Whose turn it will be, so that the erasure of a user closes that user's open turns alone.
    op.execute("alter table afterturn.open_turn_t add column user_id uuid")


def downgrade() -> None:
    op.execute("alter table afterturn.open_turn_t drop column user_id")
    op.execute("delete from afterturn.erasure_t where kind in ('document', 'directive', 'memory')")
    op.execute("alter table afterturn.erasure_t drop constraint erasure_t_kind_check")
    op.execute(f"{_KINDS}{_BEFORE}))")
    op.execute("revoke select (host_id, key_id, revoked_at, expires_at) on afterturn.api_key_t from afterturn_app")
    op.execute("drop index if exists afterturn.erasure_marks")
    op.execute("drop type afterturn.call_authority cascade")
