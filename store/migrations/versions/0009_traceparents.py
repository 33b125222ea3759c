"""Turns and recall jobs keep the traceparent of the request that brought them, where tracing is on."""

from alembic import op

revision = "0.1.0_0009"
down_revision = "0.1.0_0008"

_FORM = "check (traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-01$')"


def upgrade() -> None:
    for table in ("ledger_t", "recall_job_t"):
        op.execute(f"alter table afterturn.{table} add column traceparent text {_FORM}")
        # The planner asks nothing of it, and its statistics would outlive an erasure.
        op.execute(f"alter table afterturn.{table} alter column traceparent set statistics 0")


def downgrade() -> None:
    op.execute("drop function if exists afterturn.append_traced_turns(uuid, afterturn.offered_turn[], boolean, text[])")
    op.execute("alter table afterturn.recall_job_t drop column traceparent")
    op.execute("alter table afterturn.ledger_t drop column traceparent")
