"""A snapshot of a tenant, written out and taken in elsewhere."""

import asyncio
import io
from collections import Counter
from datetime import datetime
from pathlib import Path
from uuid import UUID, uuid4

import orjson
import pytest
from sqlalchemy import text

from store.derived.completion import Begin, Completion, complete_bank
from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import QuotaExceeded, ResourceBusy, SnapshotRefused, TurnConflict
from store.memory.turns import Appended, NewTurn
from store.memory.units import Units
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.snapshot import importing
from store.snapshot.importing import ImportRequest, Imports
from store.snapshot.policy import Part
from store.snapshot.portal_document import iterate_document
from store.snapshot.portal_form import Conversion, from_portal
from store.text.redaction import Redaction
from tests.workers.conftest import HOST, World, dialogue, now
from tests.workers.snapshot_worlds import EVERYTHING, export, fill, take, verified
from tests.workers.stages import Crew, KnownEmbedder


@pytest.mark.law("L5")
async def test_an_imported_log_is_the_log_and_its_turns_sent_again_are_duplicates(
    world: World, elsewhere: World
) -> None:
    await fill(world)
    events = await export(world)
    row = await take(elsewhere, events)
    assert row.counts["imported"] == row.counts["total"] == len(events) > 30, row.counts
    await Crew(elsewhere).drain()
    assert await verified(elsewhere) == []
    for n, home in enumerate(("Kyoto", "Lisbon", "Porto")):
        words = f"My name is Karl Berger. I live in {home}. Karl and Ann Moore met in {home}."
        again = await elsewhere.append(
            "s", f"t{n}", messages=dialogue(words, f"Ann Moore likes {home}."), gateway=False
        )
        assert isinstance(again, Appended)
        assert again.duplicate
    assert {identify(one) for one in await export(elsewhere)} == {identify(one) for one in events}


def identify(event: str) -> UUID:
    return UUID(orjson.loads(event)["id"])


async def test_memory_without_history_holds_no_message_and_lacks_no_parent(world: World, elsewhere: World) -> None:
    await fill(world)
    events = await export(world, frozenset({Part.MEMORY}))
    assert not any('"origin": "message"' in one for one in events)
    assert not any("AgentSessionHistory" in one for one in events)
    row = await take(elsewhere, events)
    assert row.counts["imported"] == len(events) > 5
    assert await verified(elsewhere) == []


async def test_a_masked_export_holds_no_stored_sentence_name_or_number(world: World) -> None:
    said = "Grimpenmire is the cellar of Zelda Quistgaard, door 48151623, zelda@quistgaard.example."
    await world.append("Wolfsangel", "Nachtigall", messages=dialogue(said, "Noted, Zelda."), gateway=False)
    await Crew(world).drain()
    plain, masked = await export(world), await export(world, masked=True)
    assert len(plain) == len(masked)
    private = ("Grimpenmire", "Zelda", "Quistgaard", "48151623", "Wolfsangel", "Nachtigall", said, "cellar")
    for value in private:
        assert any(value in one for one in plain), value
        assert not any(value.lower() in one.lower() for one in masked), value
    assert not any("bodyDigest" in one for one in masked)
    assert (await world.sql("select mark_key from afterturn.snapshot_t where masked"))[0][0] is None


async def test_a_file_with_one_broken_event_of_each_kind_is_counted(world: World, elsewhere: World) -> None:
    await fill(world)
    events = [orjson.loads(one) for one in await export(world)]
    bank, unit = events[0], next(one for one in events if one["type"] == "AgentMemoryUnitRetainedEvent")
    orphan = {**unit, "id": str(uuid4()), "data": {**unit["data"], "bankId": str(uuid4()), "unitId": str(uuid4())}}
    orphan.pop("subject")
    broken = [
        {**unit, "type": "AgentMemoryCreatedEvent"},
        {**unit, "host": str(uuid4())},
        {**unit, "time": "yesterday"},
        {**unit, "time": "0001-01-01T00:00:00+14:00"},
        {**unit, "time": "9999-12-31T23:59:59-14:00"},
        {**unit, "data": {**unit["data"], "eventDate": "0001-01-01T00:00:00+14:00"}},
        {**unit, "data": {**unit["data"], "proofCount": 2**31}},
        {**unit, "id": "1"},
        {**unit, "aggregateversion": 0},
        {**unit, "data": {**unit["data"], "embedding": [0.1]}},
        {**unit, "subject": "a|b|c"},
        {**unit, "data": {**unit["data"], "unitId": None}},
        "no object",
    ]
    again = {**bank, "aggregateversion": "1"}
    imports = Imports(elsewhere.database, now)
    row = await imports.begin(HOST, ImportRequest(EVERYTHING, "test", uuid4(), HOST))
    lines = [bank, again, unit, orphan, *broken]
    taken = await imports.take(HOST, row.snapshot_id, 0, lines)
    counts = taken.row.counts
    assert (counts["total"], counts["imported"]) == (len(lines), 2), counts
    assert (counts["skippedDuplicateInput"], counts["parked"], counts["failed"]) == (1, 1, len(broken))
    assert {one.event for one in taken.problems} == set(range(4, len(lines) + 1))
    older = await imports.take(HOST, row.snapshot_id, len(lines), [bank, {**unit, "id": str(uuid4())}])
    assert older.row.counts["skippedExactDuplicate"] == older.row.counts["skippedExistingTarget"] == 1
    with pytest.raises(SnapshotRefused, match="send those from there on"):
        await imports.take(HOST, row.snapshot_id, 99, [bank])
    assert (await imports.take(HOST, row.snapshot_id, 0, lines)).row.counts["total"] == len(lines) + 2


@pytest.mark.law("L11")
async def test_what_is_erased_stays_erased_on_both_sides(world: World, elsewhere: World) -> None:
    await fill(world)
    before = await export(world)
    await take(elsewhere, before)
    [first, *_] = await world.sql(
        "select unit_id from afterturn.agent_memory_unit_t where origin = 'message' and content like '%Kyoto%'"
    )
    for one, erased in ((world, str(first.unit_id)), (elsewhere, "s")):
        kind = Kind.UNIT if one is world else Kind.SESSION
        erasures = Erasures(one.database, now)
        await erasures.run(HOST, await erasures.request(HOST, ErasureTarget(kind, "default", erased)))
    # Erased in the target: nothing of it comes back.
    row = await take(elsewhere, before)
    assert row.counts["skippedErased"] > 0
    assert row.counts["imported"] == 0
    texts = "select count(*) from afterturn.agent_memory_unit_t where content like '%Lisbon%'"
    assert (await elsewhere.sql(texts))[0][0] == 0
    receipt = await Erasures(world.database, now).receipt(
        HOST, (await world.sql("select erasure_id from afterturn.erasure_t where kind = 'unit'"))[0][0]
    )
    assert any(one.startswith("export ") for one in receipt.unreached)


@pytest.mark.law("L11")
async def test_what_the_snapshot_says_is_erased_is_erased_where_it_is_taken_in(world: World, elsewhere: World) -> None:
    await fill(world)
    await take(elsewhere, await export(world))
    unit = (
        await world.sql(
            "select unit_id from afterturn.agent_memory_unit_t where origin = 'message' and content like '%Kyoto%'"
        )
    )[0][0]
    erasures = Erasures(world.database, now)
    await erasures.run(HOST, await erasures.request(HOST, ErasureTarget(Kind.UNIT, "default", str(unit))))
    row = await take(elsewhere, await export(world))
    assert row.counts["erasedHere"] >= 1
    left = await elsewhere.sql("select content from afterturn.agent_memory_unit_t where unit_id = :unit", unit=unit)
    assert left[0][0] == ""
    assert await verified(elsewhere) == []


async def test_ended_things_stay_ended_and_another_body_is_a_conflict_that_says_why(
    world: World, elsewhere: World
) -> None:
    await fill(world)
    unit = (await world.sql("select unit_id from afterturn.agent_memory_unit_t where origin = 'message' limit 1"))[0][0]
    await Units(world.database, now).forget(HOST, "default", unit)
    await take(elsewhere, await export(world))
    active = await elsewhere.sql("select active from afterturn.agent_memory_unit_t where unit_id = :unit", unit=unit)
    assert active[0][0] is False
    new = NewTurn("default", "s", "t1", dialogue("Another thing entirely."))
    [answer] = await elsewhere.turns.append(HOST, [new])
    assert isinstance(answer, TurnConflict)
    assert "came by a snapshot" in str(answer)


async def test_an_export_waits_for_transactions_that_are_older_than_the_last_event(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(world)
    whole = await export(world)
    async with world.database.operator() as connection:
        await connection.execute(text("select pg_current_xact_id()"))
        await world.append("s", "later", messages=dialogue("I moved to Oslo.", "Noted."), gateway=False)
        monkeypatch.setattr("store.snapshot.exporting.SETTLE_S", 0.2)
        with pytest.raises(ResourceBusy):
            await export(world)
        monkeypatch.undo()
        exporting = asyncio.ensure_future(export(world))
        await asyncio.sleep(0.2)
        assert not exporting.done()
    assert len(await exporting) > len(whole)


async def test_an_import_goes_on_where_it_ended(world: World, elsewhere: World) -> None:
    await fill(world)
    lines = [orjson.loads(one) for one in await export(world)]
    asked = ImportRequest(EVERYTHING, "test", uuid4(), HOST)
    row = await Imports(elsewhere.database, now).begin(HOST, asked)
    await Imports(elsewhere.database, now).take(HOST, row.snapshot_id, 0, lines[:20])
    # Another process, which knows nothing of the first, is sent the file from its beginning.
    later = Imports(elsewhere.database, now)
    again = await later.begin(HOST, asked)
    assert (again.snapshot_id, again.place) == (row.snapshot_id, 20)
    with pytest.raises(SnapshotRefused, match="20"):
        await later.take(HOST, row.snapshot_id, 21, lines[21:])
    taken = (await later.take(HOST, row.snapshot_id, 0, lines)).row
    while taken.status != "done":
        taken = await later.finish(HOST, row.snapshot_id, len(lines))
    assert taken.counts["imported"] == taken.counts["total"] == len(lines)
    await Crew(elsewhere).drain()
    assert await verified(elsewhere) == []


async def test_with_fail_fast_nothing_of_a_batch_with_a_failed_event_is_written(world: World, elsewhere: World) -> None:
    await fill(world)
    lines = [orjson.loads(one) for one in await export(world)]
    lines[5] = lines[5] | {"type": "Unheard"}
    imports = Imports(elsewhere.database, now)
    row = await imports.begin(HOST, ImportRequest(EVERYTHING, "test", uuid4(), HOST))
    with pytest.raises(SnapshotRefused):
        await imports.take(HOST, row.snapshot_id, 0, lines, fail_fast=True)
    assert await elsewhere.sql("select 1 from afterturn.event_store_t") == []
    taken = await imports.take(HOST, row.snapshot_id, 0, lines)
    assert taken.row.counts["failed"] == 1
    assert [one.event for one in taken.problems if one.counter == "failed"] == [6]


async def test_what_was_imported_is_recalled_at_once(world: World, elsewhere: World) -> None:
    await fill(world)
    await take(elsewhere, await export(world))
    recaller = Recaller(elsewhere.database, KnownEmbedder(), RecallSettings(), clock=now)
    for workers in ("before", "after"):
        found = (await recaller.recall(HOST, RecallQuery("default", "Who met in Kyoto?", k=5))).items
        assert found[0].text.endswith("Karl and Ann Moore met in Kyoto."), workers
        await Crew(elsewhere).drain()
    vectors = "select unit_id from afterturn.unit_vector_t order by unit_id"
    assert await elsewhere.sql(vectors) == await world.sql(vectors) != []


async def test_rows_of_a_user_and_an_agent_that_are_unknown_here_are_taken_in(elsewhere: World, tmp_path: Path) -> None:
    of = {"hostId": str(uuid4()), "bankId": str(uuid4()), "updateTs": "2026-03-01T12:00:00Z", "active": True}
    bank = {**of, "bankName": "notes", "userId": str(uuid4()), "agentDefId": str(uuid4())}
    unit = {**of, "unitId": str(uuid4()), "content": "The violin is in the attic.", "factType": "world"}
    tables = {"agent_memory_unit_t": {"rows": [unit]}, "agent_memory_bank_t": {"rows": [bank]}}
    items = iterate_document(io.BytesIO(orjson.dumps({"tables": tables})))
    events = [*from_portal(items, HOST, Redaction.KEYS, Conversion(), tmp_path)]
    row = await take(elsewhere, [orjson.dumps(one).decode() for one in events])
    assert (row.counts["imported"], row.counts["total"]) == (2, 2), row.counts
    assert await verified(elsewhere) == []


async def test_quotas_count_what_an_import_brings(world: World, elsewhere: World) -> None:
    await fill(world)
    events = await export(world)
    await elsewhere.sql(
        "insert into afterturn.quota_t (host_id, scope_id, max_turns) values (:host, :host, 2)", host=HOST
    )
    with pytest.raises(QuotaExceeded, match="max_turns"):
        await take(elsewhere, events)
    await elsewhere.sql("update afterturn.quota_t set max_turns = 3")
    row = await take(elsewhere, events)
    assert row.status == "done"
    assert (await elsewhere.sql("select turns from afterturn.quota_t"))[0][0] == 3


async def test_two_who_finish_an_import_leave_no_bank_out(
    world: World, elsewhere: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command whose answer was lost is called again while the service still works on the first call."""
    await fill(world)
    for bank in ("notes", "plans"):
        await world.append("s", f"of {bank}", bank=bank, gateway=False)
    lines = [orjson.loads(one) for one in await export(world)]
    imports, usual, both = Imports(elsewhere.database, now), complete_bank, asyncio.Barrier(2)
    row = await imports.begin(HOST, ImportRequest(EVERYTHING, "test", uuid4(), HOST))
    await imports.take(HOST, row.snapshot_id, 0, lines)
    begun = Counter[UUID]()

    async def complete(begin: Begin, host: UUID, bank: UUID, at: datetime) -> Completion:
        """Both complete the first bank at the same time, and pause at the second."""
        begun[bank] += 1
        if len(begun) > 1:
            raise importing._Paused
        await both.wait()
        return await usual(begin, host, bank, at)

    monkeypatch.setattr(importing, "complete_bank", complete)
    await asyncio.gather(*(imports.finish(HOST, row.snapshot_id, len(lines)) for _ in range(2)))
    monkeypatch.undo()
    # What was taken is sent again by the second one.
    assert (await imports.take(HOST, row.snapshot_id, 0, lines)).row.place == len(lines)
    assert (await imports.finish(HOST, row.snapshot_id, len(lines))).status == "done"
    assert await verified(elsewhere) == []
