"""The ends of claims and the steps of deliveries come as one argument in place of up to nine parallel arrays."""

from alembic import op

revision = "0.1.0_0013"
down_revision = "0.1.0_0012"
#: It takes functions away.
oldest_code = "0.1.0_0013"

_MOVES = "uuid[], bigint[], uuid[], text[]"
_GONE = (
    "close_claims(uuid, text, uuid[], bigint[], uuid[], uuid[], text[], text[], text[], interval[])",
    f"delivery_steps(uuid, {_MOVES}, text[], text[])",
    f"delivery_ends(uuid, {_MOVES}, text[], text[], interval[], text[], text[])",
    "audit_deliveries(uuid, bigint[], bigint[], uuid[], text[], text[])",
)


def upgrade() -> None:
    for function in _GONE:
        op.execute(f"drop function if exists afterturn.{function}")


def downgrade() -> None:
    op.execute("drop function if exists afterturn.close_claims(uuid, text, uuid[], bigint[], uuid[], jsonb)")
    op.execute("drop function if exists afterturn.delivery_steps(uuid, jsonb)")
    op.execute("drop function if exists afterturn.delivery_ends(uuid, jsonb)")
    op.execute("drop function if exists afterturn.audit_deliveries(uuid, bigint[], jsonb)")
