"""An agent without a user sees no bank of a user, a user no bank of an agent alone, unless a key names it."""

from alembic import op

revision = "0.1.0_0030"
down_revision = "0.1.0_0024"

_BEFORE = """
    (user_id is null or afterturn.current_user_scope() is null or user_id = afterturn.current_user_scope())
    and (agent_def_id is null or afterturn.current_agent_scope() is null
         or agent_def_id = afterturn.current_agent_scope())"""
# A transaction without a user and an agent sees every bank of its tenant. A bank of a user with an agent is the user's.
_AFTER = """
    afterturn.current_user_scope() is null and afterturn.current_agent_scope() is null
    or bank_id = any (afterturn.granted_scope())
    or ((user_id is null or user_id = afterturn.current_user_scope())
        and (agent_def_id is null or agent_def_id = afterturn.current_agent_scope()
             or (user_id is not null and afterturn.current_agent_scope() is null)))"""


def upgrade() -> None:
    # Banks that a key names by their whole names, of any owner.
    op.execute("""
        create function afterturn.granted_scope() returns uuid[]
            language sql stable parallel safe
            return nullif(current_setting('afterturn.granted', true), '')::uuid[]""")
    op.execute(f"alter policy scope on afterturn.agent_memory_bank_t using ({_AFTER})")


def downgrade() -> None:
    op.execute(f"alter policy scope on afterturn.agent_memory_bank_t using ({_BEFORE})")
    op.execute("drop function afterturn.granted_scope()")
