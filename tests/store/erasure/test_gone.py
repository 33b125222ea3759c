"""L11: erased is gone, from every table, from the log, from what the planner sampled; what stays is as it was."""

import pytest

from store.erasure import Kind
from store.ledger.stages import Stage
from store.memory.turns import Appended, NewMessage, NewTurn
from tests.store.erasure.conftest import Scene
from tests.store.erasure.dump import dump, lines_with
from tests.workers.conftest import HOST, dialogue

pytestmark = pytest.mark.law("L11")

SECRET = "Zanzibarquux"


async def said(scene: Scene) -> None:
    """Two sessions of two people; one turn tells the secret in words, names and metadata."""
    await scene.world.append("s", "t0", messages=dialogue("Karl Berger met Ann Moore in Kyoto.", "In Kyoto, good."))
    told = dialogue(f"My name is {SECRET}. I live in {SECRET}ville and I like {SECRET}.", f"Welcome, {SECRET}!")
    told[0] = NewMessage("user", told[0].content, name=f"{SECRET} Senior", parts=[{"type": "text", "text": SECRET}])
    turn = NewTurn("default", "s", f"turn of {SECRET}", told, user_id="ana", metadata={"about": SECRET}, gateway=True)
    answers = await scene.world.turns.append(HOST, [turn])
    assert isinstance(answers[0], Appended)
    await scene.world.append("other", "t9", messages=dialogue("Bob lives in Oslo.", "Oslo is cold."))


async def asked(scene: Scene) -> None:
    await scene.world.sql(
        "insert into afterturn.recall_job_t (host_id, job_id, request, expires_at) values "
        "(:host, gen_random_uuid(), cast(:request as jsonb), now() + interval '1 day')",
        host=HOST,
        request=f'{{"bank": "default", "query": "who is {SECRET}"}}',
    )


TARGETS = [(Kind.SESSION, "s"), (Kind.USER, "ana"), (Kind.BANK, "")]


@pytest.mark.parametrize("worked", [True, False])
@pytest.mark.parametrize("kind, name", TARGETS)
async def test_a_dump_holds_nothing_of_what_was_erased(scene: Scene, kind: Kind, name: str, *, worked: bool) -> None:
    await said(scene)
    if worked:
        await scene.crew.drain()
    await asked(scene)
    await scene.world.sql("analyze")
    assert lines_with(await dump(scene.world.postgres), SECRET)
    receipt = await scene.erase(kind, name)
    assert receipt.done
    left = lines_with(await dump(scene.world.postgres), SECRET)
    if kind is Kind.USER:
        left = [line for line in left if "audit_event_t" not in line]
    assert left == []
    assert SECRET not in repr(receipt)


@pytest.mark.parametrize("worked", [True, False])
async def test_erasing_both_messages_of_a_turn_leaves_nothing_of_it(scene: Scene, *, worked: bool) -> None:
    await said(scene)
    if worked:
        await scene.crew.drain()
    await asked(scene)
    await scene.world.sql("analyze")
    for words in ("My name is", "Welcome"):
        receipt = await scene.erase(Kind.UNIT, await scene.unit_of(words))
    assert receipt.done
    assert lines_with(await dump(scene.world.postgres), SECRET) == []
    rows = await scene.world.sql(
        "select count(*) as n from afterturn.agent_memory_unit_t where active and content <> ''"
    )
    assert rows[0].n >= 4


async def test_what_others_said_stays_readable(scene: Scene) -> None:
    await said(scene)
    await scene.crew.drain()
    await scene.erase(Kind.USER, "ana")
    rows = await scene.world.sql(
        "select content from afterturn.agent_memory_unit_t where active and origin = 'message' order by content"
    )
    assert [row.content for row in rows] == [
        "Bob lives in Oslo.",
        "In Kyoto, good.",
        "Karl Berger met Ann Moore in Kyoto.",
        "Oslo is cold.",
    ]
    await scene.crew.drain()
    assert set(await scene.world.statuses(Stage.PROJECTION)) <= {"done", "skipped"}
