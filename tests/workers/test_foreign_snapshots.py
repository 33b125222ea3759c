"""A snapshot taken in by another tenant: ids follow from names, references are rewritten, content stays."""

from uuid import UUID, uuid4

import orjson
import pytest

from store import identity
from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import QuotaExceeded, SnapshotRefused, TurnConflict
from store.memory.directives import Curation, NewDirective
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.memories import Memories, NewMemory
from store.memory.turns import Appended, NewTurn
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.snapshot.importing import MOST_TOLD, ImportRequest, Imports
from store.snapshot.pieces import CLASHES
from store.snapshot.policy import Part
from store.snapshot.replacements import Replacements, parse_replacements
from tests.workers.conftest import HOST, START, World, dialogue, now
from tests.workers.snapshot_worlds import EVERYTHING, export, take, verified
from tests.workers.stages import Crew, KnownEmbedder

OTHER = identity.host_id("other")
AS_THEY_ARE = Replacements()
HOMES = ("Kyoto", "Lisbon", "Porto")


async def live(world: World, host: UUID, *, bank: str = "default", user: str = "ana") -> None:
    """What a tenant's agents write: turns of two users, a memory that is replaced, a document, a directive."""
    for n, home in enumerate(HOMES):
        await world.turns.append(host, [turn(n, home, bank=bank, user=user)])
        await Crew(world).drain()
    private = NewTurn(f"~{user}/notes", "s", "t", dialogue("I like figs.", "Noted."), user_id=user)
    alone = NewTurn(bank, "s2", "t0", dialogue("I live in Bergen. I like tea.", "Noted."))
    await world.turns.append(host, [private, alone])
    memories = Memories(world.database, now)
    for text in ("Ann Moore likes tea.", "Ann Moore likes coffee."):
        memory = NewMemory(bank, "of-ann", text, user_id=user, occurred_at=START, created_at=START)
        await memories.keep(host, memory, permit)
    said = "Karl Berger lives in Porto."
    document = NewDocument(bank, content_hash(said.encode()), said, title="On Karl", user_id=user, occurred_at=START)
    await Documents(world.database, now).add(host, document)
    await Curation(world.database, now).lay_down(host, bank, NewDirective("tone", "Be kind.", 1, user), user)
    await Crew(world).drain()


async def begin_tenant(world: World) -> None:
    await world.sql("insert into afterturn.host_t (host_id, name) values (:host, 'other')", host=OTHER)


async def permit(_unit: UUID) -> None:
    """Any replacement."""


def turn(n: int, home: str, *, bank: str = "default", user: str = "ana") -> NewTurn:
    words = f"My name is Karl Berger. I live in {home}. Karl and Ann Moore met in {home}."
    return NewTurn(bank, "s", f"t{n}", dialogue(words, f"Ann Moore likes {home}."), user_id=user)


async def read_log(world: World, host: UUID) -> set[tuple[object, ...]]:
    """The events of a tenant without what differs by the time of writing; a replaced memory's has an id by chance."""
    rows = await world.sql(
        "select bank_id, aggregate_key, aggregate_version, event_type, user_id,"
        " case when event_type <> 'AgentMemoryUnitUpdatedEvent' then id end as id,"
        " cast(data - 'bodyDigest' as text) as data from afterturn.event_store_t where host_id = :host",
        host=host,
    )
    return {tuple(row) for row in rows}


async def count_rows(world: World, table: str, host: UUID) -> int:
    rows = await world.sql(f"select count(*) from afterturn.{table} where host_id = :host", host=host)
    return int(rows[0][0])


@pytest.mark.law("L5")
async def test_another_tenants_log_is_the_one_that_its_own_writers_would_have_made(
    world: World, elsewhere: World
) -> None:
    await live(world, HOST)
    await begin_tenant(world)
    await live(world, OTHER)
    await begin_tenant(elsewhere)
    events = await export(world)
    row = await take(elsewhere, events, host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    assert row.counts["imported"] == row.counts["total"] == len(events) > 60, row.counts
    wanted, came = await read_log(world, OTHER), await read_log(elsewhere, OTHER)
    assert came - wanted == set()
    assert wanted - came == set()
    assert await count_rows(elsewhere, "event_store_t", HOST) == 0
    await Crew(elsewhere).drain()
    assert await verified(elsewhere) == []


async def test_a_turn_sent_again_is_a_duplicate_or_a_conflict_that_says_why(world: World, elsewhere: World) -> None:
    await live(world, HOST)
    await begin_tenant(elsewhere)
    await take(elsewhere, await export(world), host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    for n, home in enumerate(HOMES):
        [again] = await elsewhere.turns.append(OTHER, [turn(n, home)])
        assert isinstance(again, Appended), again
        assert again.duplicate
    for another in (turn(0, "Oslo"), turn(0, "Kyoto", user="ben")):
        [refused] = await elsewhere.turns.append(OTHER, [another])
        assert isinstance(refused, TurnConflict)
        assert "came by a snapshot" in str(refused)
    [new] = await elsewhere.turns.append(OTHER, [turn(9, "Kyoto")])
    assert isinstance(new, Appended)
    assert not new.duplicate
    before = await count_rows(elsewhere, "agent_memory_entity_t", OTHER)
    reflections = await count_rows(elsewhere, "agent_memory_reflection_t", OTHER)
    await Crew(elsewhere).drain()
    # The same people, and the same reflections: none of them stands twice.
    assert await count_rows(elsewhere, "agent_memory_entity_t", OTHER) == before
    assert await count_rows(elsewhere, "agent_memory_reflection_t", OTHER) == reflections > 0
    assert await verified(elsewhere) == []


async def test_recall_there_finds_by_word_by_meaning_and_by_the_name_of_the_bank(
    world: World, elsewhere: World
) -> None:
    await live(world, HOST)
    await begin_tenant(elsewhere)
    rules = parse_replacements([{"field": "bankName", "from": "default", "to": "moved"}])
    await take(elsewhere, await export(world), host=OTHER, rules=rules, names=("ana",))
    recaller = Recaller(elsewhere.database, KnownEmbedder(), RecallSettings(), clock=now)
    for workers in ("words", "words and vectors"):
        found = (await recaller.recall(OTHER, RecallQuery("moved", "Who met in Kyoto?", k=5))).items
        assert found[0].text.endswith("Karl and Ann Moore met in Kyoto."), workers
        assert not (await recaller.recall(OTHER, RecallQuery("default", "Who met in Kyoto?", k=5))).items
        await Crew(elsewhere).drain()
    vectors = "select count(*) from afterturn.unit_vector_t"
    assert (await elsewhere.sql(vectors))[0][0] == (await world.sql(vectors))[0][0] > 0


async def test_rules_replace_names_and_ids_and_never_content(world: World, elsewhere: World) -> None:
    await live(world, HOST)
    await world.turns.append(HOST, [NewTurn("default", "s3", "t0", dialogue("ana is at s, see t0."), user_id="ana")])
    await begin_tenant(elsewhere)
    rules = parse_replacements(
        [
            {"field": "userName", "from": "ana", "to": "anna"},
            {"fieldName": "sessionName", "fromValue": "s", "toValue": "first"},
            {"field": "turnName", "from": "t0", "to": "zero"},
        ]
    )
    events = await export(world)
    row = await take(elsewhere, events, host=OTHER, rules=rules, names=("ana",))
    assert row.counts["imported"] == len(events), row.counts
    said = "select content from afterturn.agent_memory_unit_t where origin <> 'extraction' order by 1"
    assert await elsewhere.sql(said) == await world.sql(said)
    banks = {one.bank_name for one in await elsewhere.sql("select bank_name from afterturn.agent_memory_bank_t")}
    assert banks == {"default", "~anna/notes"}
    renamed = NewTurn("default", "first", "zero", turn(0, "Kyoto").messages, user_id="anna")
    [again] = await elsewhere.turns.append(OTHER, [renamed])
    assert isinstance(again, Appended)
    assert again.duplicate
    users = await elsewhere.sql("select distinct user_id from afterturn.event_store_t")
    assert {one.user_id for one in users} == {identity.user_id(OTHER, name) for name in ("anna", None)}


async def test_names_that_would_meet_in_one_are_refused_and_told(world: World, elsewhere: World) -> None:
    for session in ("a", "b"):
        new = NewTurn("default", session, "t", dialogue(f"This is of {session}."))
        await world.turns.append(HOST, [new])
    await begin_tenant(elsewhere)
    rules = parse_replacements([{"field": "sessionName", "from": "b", "to": "a"}])
    events = await export(world)
    for batch in (2, 100):
        await elsewhere.sql("delete from afterturn.imported_id_t")
        row = await take(elsewhere, events, batch, host=OTHER, rules=rules)
        assert row.counts["failed"] == 4, row.counts
    imports = Imports(elsewhere.database, now)
    row = await imports.begin(OTHER, ImportRequest(EVERYTHING, "test", uuid4(), HOST, rules=rules))
    taken = await imports.take(OTHER, row.snapshot_id, 0, [orjson.loads(one) for one in events], rules=rules)
    assert {one.reason for one in taken.problems} == {CLASHES}
    texts = await elsewhere.sql("select content from afterturn.agent_memory_unit_t")
    assert not any("of b" in one.content for one in texts)


@pytest.mark.law("L11")
async def test_what_the_source_erased_later_is_erased_there_and_what_is_erased_there_stays_so(
    world: World, elsewhere: World
) -> None:
    await live(world, HOST)
    await begin_tenant(elsewhere)
    before = await export(world)
    await take(elsewhere, before, host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    like = "select unit_id from afterturn.agent_memory_unit_t where origin = 'message' and content like '%Kyoto%'"
    unit = (await world.sql(like))[0][0]
    erasures = Erasures(world.database, now)
    await erasures.run(HOST, await erasures.request(HOST, ErasureTarget(Kind.UNIT, "default", str(unit))))
    row = await take(elsewhere, await export(world), host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    assert row.counts["erasedHere"] >= 1, row.counts
    assert len(await elsewhere.sql(like)) == len(await world.sql(like))
    # The user erases in the target: neither snapshot brings anything of theirs back.
    erasures = Erasures(elsewhere.database, now)
    await erasures.run(OTHER, await erasures.request(OTHER, ErasureTarget(Kind.USER, None, "ana")))
    assert await elsewhere.sql(like) == []
    row = await take(elsewhere, before, host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    assert row.counts["imported"] == 0, row.counts
    assert await elsewhere.sql(like) == []
    assert await verified(elsewhere) == []


async def test_erased_things_that_never_came_are_markers_or_nothing(world: World, elsewhere: World) -> None:
    await live(world, HOST)
    erasures = Erasures(world.database, now)
    for target in (ErasureTarget(Kind.BANK, "~ana/notes", "~ana/notes"), ErasureTarget(Kind.SESSION, "default", "s2")):
        await erasures.run(HOST, await erasures.request(HOST, target))
    await begin_tenant(elsewhere)
    events = await export(world)
    row = await take(elsewhere, events, host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    assert row.counts["imported"] + row.counts["skippedErased"] == len(events), row.counts
    assert row.counts["skippedErased"] > 0
    assert await verified(elsewhere) == []


async def test_quotas_of_the_target_count(world: World, elsewhere: World) -> None:
    await live(world, HOST)
    await begin_tenant(elsewhere)
    await elsewhere.sql(
        "insert into afterturn.quota_t (host_id, scope_id, max_turns) values (:host, :host, 2)", host=OTHER
    )
    events = await export(world)
    with pytest.raises(QuotaExceeded, match="max_turns"):
        await take(elsewhere, events, host=OTHER, rules=AS_THEY_ARE)
    await elsewhere.sql("update afterturn.quota_t set max_turns = null")
    assert (await take(elsewhere, events, host=OTHER, rules=AS_THEY_ARE)).status == "done"


async def test_an_import_goes_on_under_its_own_rules_alone_and_a_dry_run_writes_no_event(
    world: World, elsewhere: World
) -> None:
    await live(world, HOST)
    lines = [orjson.loads(one) for one in await export(world)]
    await begin_tenant(elsewhere)
    dry = await take(elsewhere, await export(world), host=OTHER, rules=AS_THEY_ARE, dry_run=True)
    assert dry.counts["validated"] == dry.counts["total"] == len(lines)
    assert await count_rows(elsewhere, "event_store_t", OTHER) == 0
    assert await count_rows(elsewhere, "imported_id_t", OTHER) == 0, "ids of a dry run serve nothing later"
    rules = parse_replacements([{"field": "bankName", "from": "default", "to": "moved"}])
    asked = ImportRequest(EVERYTHING, "test", uuid4(), HOST, rules=rules)
    imports = Imports(elsewhere.database, now)
    row = await imports.begin(OTHER, asked)
    await imports.take(OTHER, row.snapshot_id, 0, lines[:20], rules=rules)
    for others in (AS_THEY_ARE, parse_replacements([{"field": "bankName", "from": "default", "to": "another"}])):
        with pytest.raises(SnapshotRefused, match="other replacement rules"):
            await imports.take(OTHER, row.snapshot_id, 20, lines[20:], rules=others)
    # Another process, which knows nothing of the first, is sent the file from its beginning.
    later = Imports(elsewhere.database, now)
    assert (await later.begin(OTHER, asked)).place == 20
    row = (await later.take(OTHER, row.snapshot_id, 0, lines, rules=rules)).row
    while row.status != "done":
        row = await later.finish(OTHER, row.snapshot_id, len(lines))
    assert row.counts["imported"] == len(lines)
    assert await verified(elsewhere) == []


@pytest.mark.law("L11")
async def test_ids_that_were_given_stay_so_that_what_was_erased_does_not_come_back_under_others(
    world: World, elsewhere: World
) -> None:
    """A bank of a masked snapshot is named by a mark, which is another one in the next snapshot."""
    await live(world, HOST)
    await begin_tenant(elsewhere)
    await take(elsewhere, await export(world, masked=True), host=OTHER, rules=AS_THEY_ARE)
    erasures = Erasures(elsewhere.database, now)
    for bank in await elsewhere.sql("select bank_name from afterturn.agent_memory_bank_t"):
        target = ErasureTarget(Kind.BANK, bank.bank_name, bank.bank_name)
        await erasures.run(OTHER, await erasures.request(OTHER, target))
    later = await export(world, masked=True)
    dry = await take(elsewhere, later, host=OTHER, rules=AS_THEY_ARE, dry_run=True)
    assert (dry.counts["validated"], dry.counts["skippedErased"]) == (0, len(later))
    row = await take(elsewhere, later, host=OTHER, rules=AS_THEY_ARE)
    assert (row.counts["imported"], row.counts["skippedErased"]) == (0, len(later))
    assert await elsewhere.sql("select from afterturn.agent_memory_unit_t where active or content <> ''") == []
    await elsewhere.sql("delete from afterturn.imported_id_t")
    assert (await take(elsewhere, later, host=OTHER, rules=AS_THEY_ARE)).counts["imported"] > 0, "why they stay"


async def test_every_parked_event_of_a_batch_is_told_and_the_first_hundred_that_failed(
    world: World, elsewhere: World
) -> None:
    for n in range(2):
        messages = [message for _ in range(30) for message in dialogue("I like figs.", "Noted.")]
        await world.turns.append(HOST, [NewTurn("default", "s", f"t{n}", messages)])
    events = [orjson.loads(one) for one in await export(world)]
    orphans = [one for one in events if one["type"] != "AgentMemoryBankCreatedEvent"]
    broken = [{**one, "time": "yesterday"} for one in orphans]
    assert len(orphans) > 110
    imports = Imports(elsewhere.database, now)
    row = await imports.begin(HOST, ImportRequest(EVERYTHING, "test", uuid4(), HOST))
    taken = await imports.take(HOST, row.snapshot_id, 0, [*broken, *orphans])
    told = {kind: [one.event for one in taken.problems if one.counter == kind] for kind in ("failed", "parked")}
    assert told["failed"] == list(range(1, MOST_TOLD + 1))
    assert told["parked"] == list(range(len(broken) + 1, len(broken) + len(orphans) + 1))
    counted = {kind: taken.row.counts[kind] for kind in told}
    assert counted == {"failed": len(broken), "parked": len(orphans)}
    # What was parked is sent again behind its bank, and is whole then.
    again = [one for one in events if one not in orphans] + [orphans[nth - len(broken) - 1] for nth in told["parked"]]
    later = await take(elsewhere, [orjson.dumps(one).decode() for one in again], 500)
    assert later.counts["imported"] == len(events)
    assert await verified(elsewhere) == []


async def test_an_orphan_is_parked_and_taken_in_when_its_parent_has_come(world: World, elsewhere: World) -> None:
    await live(world, HOST)
    events = await export(world)
    named = [one for one in events if orjson.loads(one)["type"] == "AgentMemoryBankCreatedEvent"]
    others = [one for one in events if one not in named]
    await begin_tenant(elsewhere)
    row = await take(elsewhere, others, host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    assert row.counts["parked"] == row.counts["total"] == len(others)
    await take(elsewhere, named, host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    row = await take(elsewhere, others, host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    assert row.counts["imported"] == len(others), row.counts


async def test_a_masked_snapshot_keeps_its_references_in_another_tenant(world: World, elsewhere: World) -> None:
    await live(world, HOST)
    events = await export(world, masked=True)
    await begin_tenant(elsewhere)
    row = await take(elsewhere, events, host=OTHER, rules=AS_THEY_ARE)
    assert row.counts["imported"] == len(events), row.counts
    assert await verified(elsewhere) == []
    [bank, *_] = await elsewhere.sql("select bank_name from afterturn.agent_memory_bank_t order by update_ts")
    recaller = Recaller(elsewhere.database, KnownEmbedder(), RecallSettings(), clock=now)
    assert (await recaller.recall(OTHER, RecallQuery(bank.bank_name, "Who likes what?", k=5))).items


async def test_memory_without_history_is_taken_in_whole(world: World, elsewhere: World) -> None:
    await live(world, HOST)
    await begin_tenant(elsewhere)
    events = await export(world, frozenset({Part.MEMORY}))
    row = await take(elsewhere, events, host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    assert row.counts["imported"] == len(events), row.counts
    later = await take(elsewhere, await export(world), host=OTHER, rules=AS_THEY_ARE, names=("ana",))
    assert later.counts["failed"] == later.counts["parked"] == 0


async def test_ids_of_a_dry_run_that_was_interrupted_go_with_the_next_import(world: World, elsewhere: World) -> None:
    await live(world, HOST)
    await begin_tenant(elsewhere)
    lines = [orjson.loads(one) for one in await export(world)]
    imports = Imports(elsewhere.database, now)
    asked = ImportRequest(EVERYTHING, "test", uuid4(), HOST, rules=AS_THEY_ARE, dry_run=True)
    row = await imports.begin(OTHER, asked)
    await imports.take(OTHER, row.snapshot_id, 0, lines[:20], rules=AS_THEY_ARE)
    assert await count_rows(elsewhere, "imported_id_t", OTHER) > 0
    of_itself = ImportRequest(EVERYTHING, "test", uuid4(), OTHER)
    await imports.begin(OTHER, of_itself)
    assert await count_rows(elsewhere, "imported_id_t", OTHER) > 0, "it may go on"
    await elsewhere.sql("update afterturn.snapshot_t set updated_at = updated_at - interval '2 days'")
    await imports.begin(OTHER, of_itself)
    assert await count_rows(elsewhere, "imported_id_t", OTHER) == 0
