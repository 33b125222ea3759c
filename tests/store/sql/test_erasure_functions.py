"""Functions of an erasure, each called by name: what it changes, in whose rows, and what a second call finds."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from store import identity
from store.database import Database
from store.errors import StoreError
from store.log.append import append_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_command
from store.memory.turns import Appended, TurnStore
from store.tenancy.keys import Keys
from tests.store.conftest import new_host, rows, turn
from tests.store.log.samples import WHEN, named, sample, uuid_of
from tests.store.log.test_append import AT, BANK
from tests.store.sql.conftest import value

E = EventType
pytestmark = pytest.mark.law("L11")

OPEN = """
    insert into erasure_t (host_id, erasure_id, kind, target_id, upto, requested_at, updated_at)
    values (:host, :erasure, 'user', :erasure, 0, now(), now()) returning 1"""
OF_AGGREGATE = """from event_store_t where afterturn.aggregate_id(host_id, bank_id, aggregate_key) = :subject
    order by "position\""""
LOGGED = f"select event_type, data {OF_AGGREGATE}"
POSITIONS = f'select "position" {OF_AGGREGATE}'


async def append(database: Database, host: UUID, kind: EventType, data: Mapping[str, Any], version: int = 1) -> str:
    """Append one event of the sample bank; return the id of its aggregate."""
    event = build_command(Origin(host, BANK, uuid_of("user"), AT), kind, data, version=version)
    async with database.tenant(host) as connection:
        await append_events(connection, host, [event])
    return str(event["subject"])


async def begin_erasure(database: Database, host: UUID) -> UUID:
    erasure = uuid4()
    await rows(database, host, OPEN, host=host, erasure=erasure)
    return erasure


async def add_unit(database: Database, host: UUID, key: str, *sources: str, content: str = "said") -> UUID:
    """Add a unit that was drawn from others; return its id."""
    data = {"unitId": named(f"unit {key}"), "content": content, "factType": "world", "eventDate": WHEN}
    await append(
        database, host, E.UNIT_RETAINED, {**data, "sourceMemoryIds": [named(f"unit {one}") for one in sources]}
    )
    return uuid_of(f"unit {key}")


@pytest.fixture
async def bank(database: Database, host: UUID) -> UUID:
    await append(database, host, E.BANK_CREATED, {"bankName": "sample"})
    return host


@pytest.fixture
async def erasure(database: Database, bank: UUID) -> UUID:
    return await begin_erasure(database, bank)


async def test_erase_events_turns_an_aggregates_events_into_markers_up_to_a_position(
    database: Database, bank: UUID, erasure: UUID
) -> None:
    subject = await append(database, bank, E.DOC_CREATED, sample(E.DOC_CREATED))
    await append(database, bank, E.DOC_UPDATED, sample(E.DOC_UPDATED), 2)
    [(first,), (_,)] = await rows(database, bank, POSITIONS, subject=subject)
    call = "select afterturn.erase_events(:erasure, cast(:subjects as text[]), cast(:upto as bigint))"
    erase = {"erasure": erasure, "subjects": [subject]}
    other = await new_host(database)
    stranger = {**erase, "erasure": await begin_erasure(database, other)}
    assert await value(database, other, call, **stranger, upto=None) == 0
    assert await value(database, bank, call, **erase, upto=first) == 1
    marker = {"docId": named("doc a"), "erased": True}
    [(_, created), (_, updated)] = await rows(database, bank, LOGGED, subject=subject)
    assert created == marker
    assert updated["originalText"] == "as it was"
    assert await value(database, bank, call, **erase, upto=None) == 1
    assert [data for _, data in await rows(database, bank, LOGGED, subject=subject)] == [marker, marker]
    assert await value(database, bank, call, **erase, upto=None) == 0


async def test_erase_at_turns_single_events_into_markers_once(database: Database, bank: UUID, erasure: UUID) -> None:
    subject = await append(database, bank, E.DOC_CREATED, sample(E.DOC_CREATED))
    await append(database, bank, E.DOC_UPDATED, sample(E.DOC_UPDATED), 2)
    [_, (last,)] = await rows(database, bank, POSITIONS, subject=subject)
    call = "select afterturn.erase_at(:erasure, cast(:positions as bigint[]))"
    assert await value(database, bank, call, erasure=erasure, positions=[]) == 0
    other = await new_host(database)
    running = await begin_erasure(database, other)
    assert await value(database, other, call, erasure=running, positions=[last]) == 0
    assert await value(database, bank, call, erasure=erasure, positions=[last]) == 1
    assert await value(database, bank, call, erasure=erasure, positions=[last]) == 0
    erased = ["erased" in data for _, data in await rows(database, bank, LOGGED, subject=subject)]
    assert erased == [False, True]


async def test_erase_messages_removes_units_from_the_histories_that_name_them(
    database: Database, turns: TurnStore, host: UUID
) -> None:
    await turns.append(host, [turn("t1", "mine", "answer")])
    erasure = await begin_erasure(database, host)
    home = identity.bank_id(host, "home")
    said = await rows(database, host, "select content, unit_id from agent_memory_unit_t")
    units = {str(content): unit for content, unit in said}
    call = "select afterturn.erase_messages(:erasure, :bank, cast(:units as uuid[]))"
    assert await value(database, host, call, erasure=erasure, bank=home, units=[]) == 0
    assert await value(database, host, call, erasure=erasure, bank=home, units=[units["mine"]]) == 1
    assert await value(database, host, call, erasure=erasure, bank=home, units=[units["mine"]]) == 0
    appended = await value(
        database, host, "select data from event_store_t where event_type = 'AgentSessionHistoryAppendedEvent'"
    )
    mine, answered = appended["messages"]
    assert mine == {"erased": True, "unitId": str(units["mine"])}
    assert answered["unitId"] == str(units["answer"])
    assert "erased" not in answered
    assert "bodyDigest" not in appended


async def test_erase_words_of_removes_what_a_history_itself_says(database: Database, bank: UUID, erasure: UUID) -> None:
    session = await append(database, bank, E.SESSION_CREATED, sample(E.SESSION_CREATED, text="secret"))
    doc = await append(database, bank, E.DOC_CREATED, sample(E.DOC_CREATED))
    positions = [row[0] for one in (session, doc) for row in await rows(database, bank, POSITIONS, subject=one)]
    call = "select afterturn.erase_words_of(:erasure, cast(:positions as bigint[]))"
    assert await value(database, bank, call, erasure=erasure, positions=positions) == 1
    assert await value(database, bank, call, erasure=erasure, positions=positions) == 0
    [(_, history)] = await rows(database, bank, LOGGED, subject=session)
    assert history == {"sessionId": named("session a"), "erased": True, "messages": [{"erased": True}]}
    [(_, document)] = await rows(database, bank, LOGGED, subject=doc)
    assert document["originalText"] == "as it was"


async def test_erase_guards_make_a_turn_sent_again_a_conflict(database: Database, turns: TurnStore, host: UUID) -> None:
    await turns.append(host, [turn("t1", "body"), turn("t2", "other")])
    erasure = await begin_erasure(database, host)
    [(guarded,)] = await rows(
        database, host, "select turn_id from agent_memory_unit_t where content = :said", said="body"
    )
    call = "select afterturn.erase_guards(:erasure, cast(:turns as uuid[]))"
    assert await value(database, host, call, erasure=erasure, turns=[]) == 0
    assert await value(database, host, call, erasure=erasure, turns=[guarded]) == 1
    first, second = await turns.append(host, [turn("t1", "body"), turn("t2", "other")])
    assert isinstance(first, StoreError)
    assert isinstance(second, Appended)
    assert second.duplicate


async def test_erase_samples_runs_for_a_running_erasure_alone(database: Database, bank: UUID, erasure: UUID) -> None:
    await append(database, bank, E.DOC_CREATED, sample(E.DOC_CREATED))
    # It returns void; without a running erasure it raises, as every function that rewrites the log does.
    assert not await value(database, bank, "select afterturn.erase_samples(:erasure)", erasure=erasure)
    with pytest.raises(DBAPIError, match="no such erasure runs"):
        await value(database, bank, "select afterturn.erase_samples(:erasure)", erasure=uuid4())


async def test_keys_of_a_user_are_found_and_erased(database: Database) -> None:
    name, other = f"host-{uuid4().hex}", f"host-{uuid4().hex}"
    host, keys = identity.host_id(name), Keys(database)
    mine = await keys.create(name, "of ana", banks=["diary", "home"], user="ana")
    await keys.create(name, "of nobody", banks=["diary", "shared"])
    await keys.create(other, "of another's ana", user="ana")
    erasure = await begin_erasure(database, host)
    found = await rows(database, host, "select user_name, gateway_user from afterturn.named_keys(:e)", e=erasure)
    assert found == [("ana", None)]
    [(key,)] = await rows(database, host, "select key_id from afterturn.named_keys(:e)", e=erasure)
    has_key = "select afterturn.has_key_of(:user)"
    assert await value(database, host, has_key, user="ana")
    assert not await value(database, host, has_key, user="")
    erase = "select afterturn.erase_keys(:e, cast(:keys as uuid[]), '{}', cast(:names as text[]))"
    for _ in range(2):
        assert not await value(database, host, erase, e=erasure, keys=[key], names=["diary"])
    assert await rows(database, host, "select key_id from afterturn.named_keys(:e)", e=erasure) == []
    assert not await value(database, host, has_key, user="ana")
    assert await value(database, identity.host_id(other), has_key, user="ana")
    assert await keys.authenticate(mine) is None
    left = {key.label: key.banks for key in await keys.list(name)}
    assert {label: sorted(banks or ()) for label, banks in left.items()} == {"": [], "of nobody": ["shared"]}


async def test_units_to_erase_are_the_given_ones_and_all_that_was_drawn_from_them(
    database: Database, bank: UUID, erasure: UUID
) -> None:
    seed = await add_unit(database, bank, "seed")
    drawn = await add_unit(database, bank, "drawn", "seed")
    twice = await add_unit(database, bank, "twice", "drawn")
    await add_unit(database, bank, "apart")
    call = "select unit_id, version from afterturn.units_to_erase(:host, :bank, cast(:units as uuid[]))"
    about = {"host": bank, "bank": BANK}
    found = await rows(database, bank, call, **about, units=[seed])
    assert found == [(one, 1) for one in sorted([seed, drawn, twice])]
    assert await rows(database, bank, call, **about, units=[]) == []
    assert await rows(database, await new_host(database), call, **about, units=[seed]) == []
    subject = f"{bank}|{BANK}|{drawn}"
    await value(
        database, bank, "select afterturn.erase_events(:e, array[cast(:s as text)], null)", e=erasure, s=subject
    )
    assert {unit for unit, _ in await rows(database, bank, call, **about, units=[seed])} == {seed, twice}


async def test_ties_of_units_are_their_mentions_and_links_in_both_directions(database: Database, bank: UUID) -> None:
    units = {key: await add_unit(database, bank, key) for key in "abc"}
    await append(database, bank, E.ENTITY_CREATED, sample(E.ENTITY_CREATED))
    mention = await append(database, bank, E.UNIT_ENTITY_LINKED, sample(E.UNIT_ENTITY_LINKED, "a-a"))
    out = await append(database, bank, E.LINK_CREATED, sample(E.LINK_CREATED, "a-b"))
    back = await append(database, bank, E.LINK_CREATED, sample(E.LINK_CREATED, "c-a"))
    await append(database, bank, E.LINK_CREATED, sample(E.LINK_CREATED, "b-c"))
    call = "select kind, subject from afterturn.ties_of(:host, :bank, cast(:units as uuid[]))"
    about = {"host": bank, "bank": BANK}
    found = await rows(database, bank, call, **about, units=[units["a"]])
    assert sorted(found) == sorted([("mentions", mention), ("links", out), ("links", back)])
    assert await rows(database, bank, call, **about, units=[]) == []
    assert await rows(database, await new_host(database), call, **about, units=[units["a"]]) == []


async def test_orphans_of_units_are_the_entities_that_no_other_unit_names(database: Database, bank: UUID) -> None:
    for key in "ab":
        await add_unit(database, bank, key)
    for key in ("alone", "shared"):
        await append(database, bank, E.ENTITY_CREATED, sample(E.ENTITY_CREATED, key))
    for key in ("a-alone", "a-shared", "b-shared"):
        await append(database, bank, E.UNIT_ENTITY_LINKED, sample(E.UNIT_ENTITY_LINKED, key))
    call = "select entity_id, version from afterturn.orphans_of(:host, :bank, cast(:units as uuid[]))"
    about = {"host": bank, "bank": BANK, "units": [uuid_of("unit a")]}
    assert await rows(database, bank, call, **about) == []
    for key in ("a-alone", "a-shared"):
        ended = {name: sample(E.UNIT_ENTITY_LINKED, key)[name] for name in ("unitId", "entityId")}
        await append(database, bank, E.UNIT_ENTITY_UNLINKED, ended, 2)
    assert await rows(database, bank, call, **about) == [(uuid_of("entity alone"), 1)]
    assert await rows(database, bank, call, **{**about, "units": []}) == []
    assert await rows(database, await new_host(database), call, **about) == []


async def test_reflections_of_units_are_the_events_that_repeat_them(database: Database, bank: UUID) -> None:
    unit, other = await add_unit(database, bank, "a"), await add_unit(database, bank, "b")
    first = {**sample(E.REFLECTION_CREATED), "sourceMemoryIds": [str(unit)]}
    await append(database, bank, E.REFLECTION_CREATED, first)
    await append(database, bank, E.REFLECTION_UPDATED, {**first, "sourceMemoryIds": [str(other)]}, 2)
    call = """
        select reflection_id, version, last, active
          from afterturn.reflections_of(:host, :bank, cast(:units as uuid[]))"""
    about = {"host": bank, "bank": BANK}
    reflection = uuid_of("reflection a")
    assert await rows(database, bank, call, **about, units=[unit]) == [(reflection, 2, False, True)]
    assert await rows(database, bank, call, **about, units=[other]) == [(reflection, 2, True, True)]
    assert await rows(database, bank, call, **about, units=[]) == []
    assert await rows(database, await new_host(database), call, **about, units=[unit]) == []


async def test_effective_events_leave_out_the_beginning_of_what_lives(database: Database, bank: UUID) -> None:
    doc = {name: found for name, found in sample(E.DOC_CREATED).items() if name == "docId"}
    for version, kind in enumerate((E.DOC_CREATED, E.DOC_CREATED, E.DOC_DELETED, E.DOC_CREATED), 1):
        await append(database, bank, kind, doc if kind is E.DOC_DELETED else sample(kind), version)
    call = "select version, kind from afterturn.effective_events(:host, :bank, :thing)"
    about = {"host": bank, "bank": BANK, "thing": uuid_of("doc a")}
    found = await rows(database, bank, call, **about)
    assert found == [(1, E.DOC_CREATED.value), (3, E.DOC_DELETED.value), (4, E.DOC_CREATED.value)]
    assert await rows(database, bank, call, **{**about, "thing": uuid4()}) == []
    assert await rows(database, await new_host(database), call, **about) == []


async def test_scrub_empties_rows_whose_event_is_a_marker_and_no_others(
    database: Database, bank: UUID, erasure: UUID
) -> None:
    gone = await append(database, bank, E.DOC_CREATED, sample(E.DOC_CREATED, "gone", "words"))
    kept = await append(database, bank, E.DOC_CREATED, sample(E.DOC_CREATED, "kept", "words"))
    await value(database, bank, "select afterturn.erase_events(:e, array[cast(:s as text)], null)", e=erasure, s=gone)
    scrub = "select afterturn.scrub(:host, cast(:subjects as text[]))"
    texts = "select original_text from agent_memory_doc_t order by doc_id = :gone desc"
    assert await rows(database, bank, texts, gone=uuid_of("doc gone")) == [("words",), ("words",)]
    await rows(database, bank, scrub, host=bank, subjects=[])
    await rows(database, await new_host(database), scrub, host=bank, subjects=[gone])
    assert await rows(database, bank, texts, gone=uuid_of("doc gone")) == [("words",), ("words",)]
    for _ in range(2):
        await rows(database, bank, scrub, host=bank, subjects=[gone, kept])
        assert await rows(database, bank, texts, gone=uuid_of("doc gone")) == [(None,), ("words",)]


async def test_scrub_sessions_makes_a_history_say_what_the_log_says(
    database: Database, bank: UUID, erasure: UUID
) -> None:
    session = await append(database, bank, E.SESSION_CREATED, sample(E.SESSION_CREATED, text="secret"))
    await append(database, bank, E.SESSION_APPENDED, sample(E.SESSION_APPENDED, text="harmless"), 2)
    [(first,), _] = await rows(database, bank, POSITIONS, subject=session)
    call = "select afterturn.scrub_sessions(:host, :bank, cast(:sessions as uuid[]))"
    about = {"host": bank, "bank": BANK, "sessions": [uuid_of("session a")]}
    assert await value(database, bank, call, **about) == 0
    erase = "select afterturn.erase_words_of(:erasure, array[cast(:at as bigint)])"
    await value(database, bank, erase, erasure=erasure, at=first)
    said = "select message->>'content' from session_message_t order by seq"
    assert await rows(database, bank, said) == [("secret",), ("harmless",), ("and more",)]
    assert await value(database, bank, call, **{**about, "sessions": []}) == 0
    assert await value(database, await new_host(database), call, **about) == 0
    assert await value(database, bank, call, **about) == 1
    assert await rows(database, bank, said) == [(None,), ("harmless",), ("and more",)]
    assert await value(database, bank, call, **about) == 0
