"""L11: whoever read before an erasure and writes after it writes nothing, and every row of erased work ends."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from store.erasure import ErasureTarget, Kind
from store.errors import NotFound
from store.ledger.deliveries import DeliveryWriter
from store.ledger.ledger import Outcome
from store.ledger.stages import Stage
from store.memory.directives import Curation, NewDirective
from store.recall.jobs import RecallJobs
from store.replay import verify_log
from tests.client.loopback import closed_port
from tests.store.erasure.conftest import Scene
from tests.store.erasure.dump import dump, lines_with
from tests.workers.conftest import HOST, dialogue, now
from tests.workers.gateways import gateway
from tests.workers.targets import move_to
from workers.extraction import stage as extraction

pytestmark = pytest.mark.law("L11")

SECRET = "Qyburnfeld"


async def say(scene: Scene, turn: str = "t", session: str = "s") -> None:
    told = dialogue(f"My name is {SECRET}. I live in {SECRET}ville.", f"Hello {SECRET}.")
    await scene.world.append(session, turn, messages=told)


async def nothing_left(scene: Scene) -> None:
    await scene.crew.drain()
    assert lines_with(await dump(scene.world.postgres), SECRET) == []
    rows = await scene.world.sql("select stage, status from afterturn.ledger_t where undone")
    assert rows == []


async def test_a_late_extraction_of_an_erased_turn_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await say(scene)
    await scene.world.append("s", "kept", messages=dialogue("My name is Karl.", "Hello Karl."))
    derive, kinds = extraction._derive_all, [Kind.SESSION, Kind.UNIT]
    loop = asyncio.get_running_loop()

    def erased_meanwhile(*arguments: object, **named: object) -> object:
        """Erase while the words are in hand, before anything is written."""
        found = derive(*arguments, **named)  # type: ignore[arg-type]  # handed through
        if kinds:
            asyncio.run_coroutine_threadsafe(erase(kinds.pop()), loop).result(30)
        return found

    async def erase(kind: Kind) -> None:
        if kind is Kind.UNIT:
            for words in ("My name is " + SECRET, "Hello " + SECRET):
                await scene.erase(kind, await scene.unit_of(words))
        else:
            await scene.erase(kind, "s")

    monkeypatch.setattr(extraction, "_derive_all", erased_meanwhile)
    await scene.crew.drain(Stage.EXTRACTION)
    rows = await scene.world.sql("select status, error_category from afterturn.ledger_t where stage = 'extraction'")
    assert ("skipped", "erased") in [tuple(row) for row in rows]
    await nothing_left(scene)


async def test_a_late_vector_of_an_erased_turn_is_refused(scene: Scene) -> None:
    await say(scene)
    scene.crew.embedder.may_end.clear()
    embedding = asyncio.create_task(scene.crew.drain(Stage.EMBEDDING))
    await scene.crew.embedder.begun.wait()
    await scene.erase(Kind.SESSION, "s")
    scene.crew.embedder.may_end.set()
    await embedding
    assert await scene.world.sql("select 1 from afterturn.unit_vector_t") == []
    assert await scene.world.statuses(Stage.EMBEDDING) == ["skipped"]
    await nothing_left(scene)


@pytest.mark.parametrize("asked", [{"bank": "default"}, {"banks": ["other", "default"]}], ids=["one bank", "several"])
async def test_a_late_answer_to_a_recall_job_is_refused(scene: Scene, asked: dict[str, Any]) -> None:
    await say(scene)
    jobs = RecallJobs(scene.world.database, now)
    job, _ = await jobs.open(HOST, {**asked, "query": SECRET}, timedelta(minutes=5))
    taken = await jobs.take(HOST, job, timedelta(minutes=1))
    assert taken is not None
    await scene.erase(Kind.SESSION, "s")
    assert await jobs.finish(taken, b'{"results": []}') is False
    await nothing_left(scene)


async def test_an_answer_that_waits_goes_with_the_directive_it_tells(scene: Scene) -> None:
    await say(scene)
    laid = NewDirective("name", f"Call everybody {SECRET}.")
    await Curation(scene.world.database, now).lay_down(HOST, "default", laid, "ana")
    jobs = RecallJobs(scene.world.database, now)
    job, _ = await jobs.open(HOST, {"bank": "default", "query": "who?"}, timedelta(minutes=5))
    taken = await jobs.take(HOST, job, timedelta(minutes=1))
    assert taken is not None
    assert await jobs.finish(taken, b'{"directives": ["Call everybody"]}')
    await scene.erase(Kind.USER, "ana")
    with pytest.raises(NotFound):
        await jobs.read(HOST, job)


async def test_a_delivery_not_begun_is_never_made(scene: Scene) -> None:
    await scene.world.hand_to(closed_port())
    await say(scene)
    claims = await scene.world.ledger.claim(
        Stage.GATEWAY, streams=1, rows=1, lease=timedelta(seconds=30), worker="slow", max_attempts=5
    )
    await scene.erase(Kind.SESSION, "s")
    with gateway() as foreign:
        await move_to(scene.world.database, foreign.url)
        async with scene.crew as crew:
            await crew.runner(Stage.GATEWAY)._work_piece(claims)
        assert foreign.added == {}
    assert await scene.world.statuses(Stage.GATEWAY) == ["skipped"]


async def test_a_delivery_that_began_ends_by_its_own_rules(scene: Scene) -> None:
    await scene.world.hand_to(closed_port())
    await say(scene)
    [claim] = await scene.world.ledger.claim(
        Stage.GATEWAY, streams=1, rows=1, lease=timedelta(seconds=30), worker="slow", max_attempts=5
    )
    deliveries, item = DeliveryWriter(scene.world.database), claim.rows[0].item_id
    await deliveries.step(claim, item, "adding")
    receipt = await scene.erase(Kind.SESSION, "s")
    assert receipt.delivered == {"chat:default/s": 1}
    await deliveries.end(claim, Outcome(item, "flushed"))
    assert await scene.world.statuses(Stage.GATEWAY) == ["flushed"]


async def test_what_is_said_in_a_session_while_it_is_erased_begins_it_anew(scene: Scene) -> None:
    await say(scene)
    erasure = await scene.erasures.request(HOST, ErasureTarget(Kind.SESSION, "default", "s"))
    await scene.world.append("s", "later", messages=dialogue("My name is Karl.", "Hello Karl."))
    assert (await scene.erasures.run(HOST, erasure)).done
    await nothing_left(scene)
    [history] = await scene.world.sql(
        "select data ? 'erased' as gone from afterturn.event_store_t where "
        "event_type = 'AgentSessionHistoryAppendedEvent' order by position desc limit 1"
    )
    assert not history.gone
    [session] = await scene.world.sql("select active, session_name, turn_count from afterturn.agent_session_history_t")
    assert tuple(session) == (True, "s", 1)
    assert (await verify_log(scene.world.postgres.owner_url)).equal


async def test_a_delivery_that_was_made_is_on_the_receipt(scene: Scene) -> None:
    await scene.world.hand_to(closed_port())
    await say(scene)
    await scene.world.sql("update afterturn.ledger_t set status = 'flushed' where stage = 'gateway'")
    receipt = await scene.erase(Kind.SESSION, "s")
    assert receipt.delivered == {"chat:default/s": 1}


async def test_what_is_erased_ends_and_what_shares_its_stream_goes_on(scene: Scene) -> None:
    await say(scene, "t1")
    await scene.world.append("s", "t2", messages=dialogue("My name is Karl.", "Hello Karl."))
    claims = await scene.world.ledger.claim(
        Stage.EXTRACTION, streams=1, rows=16, lease=timedelta(seconds=30), worker="slow", max_attempts=5
    )
    assert len(claims[0].rows) == 2
    for words in ("My name is " + SECRET, "Hello " + SECRET):
        await scene.erase(Kind.UNIT, await scene.unit_of(words))
    assert await scene.world.statuses(Stage.EXTRACTION) == ["skipped", "pending"]
    await scene.crew.drain()
    assert await scene.world.statuses(Stage.EXTRACTION) == ["skipped", "done"]
    await nothing_left(scene)
