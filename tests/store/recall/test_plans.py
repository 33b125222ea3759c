"""How the hot queries of recall find what they read: as the restricted role, in one plan for all questions."""

import re
from uuid import UUID

import pytest
from sqlalchemy import SelectBase, TextClause, text

from store import identity
from store.database import Database
from store.derived.called_names import CALLED
from store.derived.reflections import MEMBERS, REFLECTIONS
from store.memory.held_fact_queries import IN_SESSION, OTHERS, OWN
from store.memory.memories import LIVES
from store.memory.session_history import RECENT
from store.memory.turns import TurnStore
from store.recall import dense_arm, lexical_arm
from store.recall.fact_arm import STATING, STATING_OF_ALL
from store.recall.names import SPEAKERS
from store.recall.preparation import PREPARE
from store.recall.time_arm import SAID
from tests.store.conftest import NOON, new_host, turn
from tests.tables import each_row

pytestmark = pytest.mark.untouched

FACTS = text("""
    insert into afterturn.fact_t (host_id, bank_id, unit_id, subject, fact_id, key, value, position, valid_from)
    select :host, :bank, gen_random_uuid(), 'person ' || n % 100, 'likes', n::text, 'tea', n, now()
      from generate_series(1, 2000) n""")


@pytest.fixture
async def filled(lonely: Database) -> UUID:
    """A host with a bank of some hundred turns, whose words are carried, and of the facts of a hundred persons."""
    host = await new_host(lonely)
    await TurnStore(lonely, lambda: NOON).append(host, [turn(f"t{n}", f"word number {n}") for n in range(400)])
    async with lonely.tenant(host) as connection:
        carry = text("select carried from afterturn.post_words(:host, :bank, 1000, true)")
        await connection.execute(carry, {"host": host, "bank": identity.bank_id(host, "home")})
        await connection.execute(FACTS, {"host": host, "bank": identity.bank_id(host, "home")})
    return host


Statement = TextClause | SelectBase


async def generic_plan(database: Database, host: UUID, statement: Statement) -> str:
    """Explain a statement as it is planned once and for all, in the tenant's transaction."""
    async with database.tenant(host) as connection:
        query = str(statement.compile(dialect=connection.dialect))
        values = ", ".join("null" for _ in range(max(map(int, re.findall(r"\$(\d+)", query)))))
        await connection.exec_driver_sql("set local plan_cache_mode = force_generic_plan")
        await connection.exec_driver_sql(f"prepare hot as {query}")
        plan = [line for (line,) in await connection.exec_driver_sql(f"explain (costs off) execute hot ({values})")]
        await connection.exec_driver_sql("deallocate hot")
    return "\n".join(plan)


@each_row(
    "statement, found_by",
    [
        (PREPARE, ("term = q.term", "unit_id = p", "session_id = ", 'stage = "*VALUES*"')),
        (lexical_arm.PLAIN, ("term = q.term",)),
        (lexical_arm.FILTERED, ("term = q.term", "unit_id = p", "unit_id = w")),
        (dense_arm.OF_SESSION, ("session_id = ",)),
        (dense_arm.TOLD_AGENT, ("unit_id = v.unit_id",)),
        (CALLED, ("term = n.mark", "term = c.word", "unit_id = p", "session_id = ")),
        (SPEAKERS, ("session_id = ",)),
        (RECENT, ("session_id = ",)),
        (IN_SESSION, ("session_id = ", "(unit_id = u_1.unit_id)")),
        (OWN, ("subject = ANY",)),
        (LIVES, ("session_id = ",)),
        (SAID, ("occurred_start IS NULL",)),
        (REFLECTIONS, ("reflection_id = t.id", "(aggregate_key)::text = ", "unit_id = (s.id)")),
    ],
    ids=[
        "prepare",
        "lexical",
        "lexical filtered",
        "dense of a session",
        "dense beside an agent",
        "called names",
        "speakers",
        "history of a session",
        "facts of a session",
        "facts of a speaker",
        "a single memory",
        "units of a day",
        "reflections and their sources",
    ],
)
async def test_what_is_looked_up_is_found_by_its_own_index(
    lonely: Database, filled: UUID, statement: Statement, found_by: tuple[str, ...]
) -> None:
    plan = await generic_plan(lonely, filled, statement)
    conditions = [line for line in plan.splitlines() if "Index Cond" in line]
    for part in found_by:
        assert any(part in condition for condition in conditions), plan
    assert "Seq Scan on posting_t" not in plan


async def test_the_newest_facts_of_others_are_read_in_the_order_of_their_index(lonely: Database, filled: UUID) -> None:
    """No more than are ranked are read, however many the bank has."""
    plan = await generic_plan(lonely, filled, OTHERS)
    [read] = [line for line in plan.splitlines() if "using fact_holding" in line]
    before = plan[: plan.index(read)]
    assert before.rindex("Limit") > before.rfind("Sort Key"), plan
    assert "Anti Join" not in plan, plan


@pytest.mark.parametrize(
    "stating, found_by",
    [(STATING, ["fact_of_kind", "fact_of_named"]), (STATING_OF_ALL, ["fact_of_named", "fact_of_users"])],
    ids=["of a user", "of anybody"],
)
async def test_stated_facts_are_read_newest_first_until_there_are_enough(
    lonely: Database, filled: UUID, stating: TextClause, found_by: list[str]
) -> None:
    """A bank of very many facts has an answer as soon as one of few."""
    plan = await generic_plan(lonely, filled, stating)
    assert re.findall("using (fact_[a-z_]+)", plan) == found_by, plan
    for index in {"fact_of_named", "fact_of_users"}.intersection(found_by):
        before = plan[: plan.index(f"using {index}")]
        assert before.rindex("Limit") > before.rfind("Sort Key"), plan


async def test_the_newest_facts_of_a_kind_are_read_in_the_order_of_their_index(lonely: Database, filled: UUID) -> None:
    """The few that were read are sorted, and no others: the index gives no more than were asked for."""
    plan = await generic_plan(lonely, filled, MEMBERS)
    steps = [line.strip().removeprefix("->").strip() for line in plan.splitlines() if "->" in line]
    [read] = [n for n, step in enumerate(steps) if "using fact_of_kind" in step]
    assert next(step for step in reversed(steps[:read]) if step != "Result") == "Limit", plan
