"""That an operator's key may make tenants' keys, which read content, is a right of its own.

Code of before calls find_operator_key, which stays for a release.
"""

from alembic import op

revision = "0.1.0_0022"
down_revision = "0.1.0_0021"


def upgrade() -> None:
    op.execute("alter table public.afterturn_operator_key add column makes_keys boolean not null default false")
    op.execute("grant select (makes_keys), insert (makes_keys) on public.afterturn_operator_key to afterturn_operator")


def downgrade() -> None:
    op.execute("drop function if exists afterturn.find_operator(bytea)")
    op.execute("alter table public.afterturn_operator_key drop column makes_keys")
