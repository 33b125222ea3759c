"""Sessions of the console, and its calls in the audit."""

from alembic import op

revision = "0.1.0_0031"
down_revision = "0.1.0_0030"

_DOORS = "alter table afterturn.call_audit_t add constraint call_audit_t_door_check check (door in "
_BEFORE = "('http', 'gateway', 'mcp', 'operator'"


def upgrade() -> None:
    op.execute("""
        create table public.afterturn_console_session (
            secret_hash bytea primary key,
            is_link boolean not null,
            key_id uuid,
            operator_key_id uuid,
            created_at timestamptz not null default now(),
            seen_at timestamptz not null default now(),
            check (coalesce(key_id, operator_key_id) is not null)
        )""")
    # No policy: what is not the owner's function sees nothing.
    op.execute("alter table public.afterturn_console_session enable row level security")
    op.execute("alter table afterturn.call_audit_t drop constraint call_audit_t_door_check")
    # Reads the table once. What waits meanwhile is the recorder of calls, and no call waits for that.
    op.execute(f"{_DOORS}{_BEFORE}, 'console'))")


def downgrade() -> None:
    for function in (
        "open_console_session(bytea, boolean, bytea[])",
        "widen_console_session(bytea, bytea, bytea)",
        "follow_console_link(bytea, bytea)",
        "find_key_of_session(bytea)",
        "find_operator_of_session(bytea)",
        "use_console_session(bytea)",
        "close_console_session(bytea)",
    ):
        op.execute(f"drop function if exists afterturn.{function}")
    op.execute("drop table public.afterturn_console_session")
    op.execute("delete from afterturn.call_audit_t where door = 'console'")
    op.execute("alter table afterturn.call_audit_t drop constraint call_audit_t_door_check")
    op.execute(f"{_DOORS}{_BEFORE}))")
