"""L11: a document is erased as a turn is: what was read of it before is written by nobody, and no digest tells it."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from store.erasure import Kind
from store.ledger.stages import Stage
from store.memory.documents import Documents, NewDocument, content_hash
from tests.store.erasure.conftest import Scene
from tests.store.erasure.dump import dump, lines_with
from tests.workers.conftest import BANK, HOST, dialogue, now
from workers.extraction import stage as extraction

pytestmark = pytest.mark.law("L11")

SECRET = "Qyburnfeld"
TEXT = f"Karl Berger met {SECRET} Moore in Kyoto. My name is {SECRET}."
HASH = content_hash(TEXT.encode())


async def hand_in(scene: Scene) -> UUID:
    document = NewDocument("default", HASH, TEXT, user_id="ann")
    return (await Documents(scene.world.database, now).add(HOST, document)).doc_id


@pytest.mark.parametrize("kind", [Kind.UNIT, Kind.USER])
async def test_a_late_extraction_of_an_erased_document_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    await hand_in(scene)
    [chunk] = await scene.world.sql("select unit_id from afterturn.agent_memory_unit_t")
    derive, kinds, loop = extraction._derive_all, [kind], asyncio.get_running_loop()

    def erased_meanwhile(*arguments: object, **named: object) -> object:
        found = derive(*arguments, **named)  # type: ignore[arg-type]  # handed through
        if kinds:
            name = "ann" if kinds.pop() is Kind.USER else str(chunk.unit_id)
            asyncio.run_coroutine_threadsafe(scene.erase(kind, name), loop).result(30)
        return found

    monkeypatch.setattr(extraction, "_derive_all", erased_meanwhile)
    await scene.crew.drain()
    assert lines_with(await dump(scene.world.postgres), SECRET) == []
    assert await scene.world.statuses(Stage.EXTRACTION) == ["skipped"]
    assert await scene.world.sql("select stage, status from afterturn.ledger_t where undone") == []


@pytest.mark.parametrize("kind", [Kind.UNIT, Kind.USER, Kind.BANK])
async def test_no_digest_of_an_erased_document_is_left_and_it_may_come_again(scene: Scene, kind: Kind) -> None:
    first = await hand_in(scene)
    [chunk] = await scene.world.sql("select unit_id from afterturn.agent_memory_unit_t")
    receipt = await scene.erase(kind, {Kind.UNIT: str(chunk.unit_id), Kind.USER: "ann"}.get(kind, ""))
    assert receipt.counts["turns"] == 1
    assert lines_with(await dump(scene.world.postgres), HASH) == []
    assert await hand_in(scene) != first
    [again] = await scene.world.sql("select content from afterturn.agent_memory_unit_t where active")
    assert again.content == TEXT


async def test_an_old_document_stays_where_old_turns_go(scene: Scene) -> None:
    await hand_in(scene)
    await scene.world.append("s", "t", messages=dialogue("I am Grimpen.", "Hello."))
    await scene.crew.drain()
    erasure = await scene.erasures.request_old_turns(HOST, BANK, now() + timedelta(days=1))
    assert erasure is not None
    await scene.erasures.run(HOST, erasure)
    kept = await scene.world.sql(
        "select content from afterturn.agent_memory_unit_t where active and origin = 'document'"
    )
    assert [row.content for row in kept] == [TEXT]
    assert await scene.erasures.count_old_turns(HOST, BANK, now() + timedelta(days=1)) == 0
