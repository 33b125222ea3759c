"""Units and banks may have an end, from which on they are in no answer."""

from alembic import op

revision = "0.1.0_0005"
down_revision = "0.1.0_0004"
#: It takes a function away.
oldest_code = "0.1.0_0005"

_KINDS = "alter table afterturn.erasure_t add constraint erasure_t_kind_check check (kind in "


def upgrade() -> None:
    op.execute("alter table afterturn.agent_memory_unit_t add column expires_at timestamptz")
    op.execute("alter table afterturn.agent_memory_bank_t add column expires_at timestamptz")
    op.execute("alter table afterturn.erasure_t drop constraint erasure_t_kind_check")
    op.execute(f"{_KINDS}('unit', 'session', 'user', 'bank', 'age', 'ended'))")
    op.execute("drop function if exists afterturn.turn_messages(uuid, uuid[], uuid[])")


def downgrade() -> None:
    op.execute("delete from afterturn.erasure_t where kind = 'ended'")
    op.execute("alter table afterturn.erasure_t drop constraint erasure_t_kind_check")
    op.execute(f"{_KINDS}('unit', 'session', 'user', 'bank', 'age'))")
    op.execute("alter table afterturn.agent_memory_bank_t drop column expires_at")
    op.execute("alter table afterturn.agent_memory_unit_t drop column expires_at")
    op.execute("drop function if exists afterturn.turn_messages(uuid, uuid[], uuid[])")
