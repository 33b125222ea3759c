"""The log has an aggregate's host and bank as columns, and keeps of its id what follows them."""

from alembic import op

revision = "0.1.0_0018"
down_revision = "0.1.0_0017"
#: A column has another name, and holds less.
oldest_code = "0.1.0_0018"

_EVENTS_ABOUT = "drop function if exists afterturn.events_about(afterturn.event_store_t[], text, text)"


def upgrade() -> None:
    op.execute("""
        alter table afterturn.event_store_t
         drop constraint event_store_t_host_id_aggregate_id_aggregate_version_key""")
    op.execute("alter table afterturn.event_store_t rename column aggregate_id to aggregate_key")
    op.execute("""
        update afterturn.event_store_t e
           set aggregate_key = substr(e.aggregate_key, length(split_part(e.aggregate_key, '|', 1))
                                                       + length(split_part(e.aggregate_key, '|', 2)) + 3)""")
    op.execute("alter table afterturn.event_store_t add unique (host_id, bank_id, aggregate_key, aggregate_version)")
    op.execute(_EVENTS_ABOUT)


def downgrade() -> None:
    raise RuntimeError("a schema is not taken back: restore a backup")
