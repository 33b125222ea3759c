"""Functions of the log, of quotas and of keys, each called by name."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.database import Database
from store.log.bulk import build_columns
from store.log.catalog import EventType
from store.log.envelope import Origin
from store.memory.memories import NewMemory, prepare_memory
from store.memory.turn_writes import append_arguments
from store.memory.turns import TurnStore
from store.plugin.namespaces import NamespaceChange, Namespaces
from store.plugin.vectors import normalise_vector
from store.tenancy.keys import hash_token
from store.tenancy.languages import rules_for_writing
from store.tenancy.operator_keys import OperatorKeys
from tests.servers import TestPostgres
from tests.store.conftest import NOON, new_host, rows, turn
from tests.store.log.samples import cloud_event, uuid_of
from tests.store.log.test_append import BANK, event
from tests.store.sql.conftest import as_operator, by_owner, value

E = EventType
TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-01"
APPEND = "select afterturn.append_events(:host, cast(:events as jsonb), cast(:expected as jsonb))"
SPACE = "workspace:first"


def as_json(*events: Any) -> str:
    return orjson.dumps(events).decode()


def offered_memory(host: UUID, name: str = "first") -> object:
    """Return a turn of one unit as `afterturn.offered_turn` has it."""
    bank = identity.bank_id(host, SPACE)
    memory = prepare_memory(
        Origin(host, bank, identity.user_id(host, None), NOON),
        NewMemory(SPACE, name, "I like tea"),
        identity.turn_id(identity.memory_session(bank, name), "0"),
        rules_for_writing({}, bank),
    )
    _, (offered,), _ = append_arguments(host, [memory], wait=True)
    return offered


async def allow(database: Database, host: UUID, limits: str) -> None:
    call = "select afterturn.set_quota(:host, :host, null, cast(:limits as jsonb), :now)"
    await as_operator(database, call, host=host, limits=limits, now=NOON)


async def used(database: Database, host: UUID) -> list[tuple[Any, ...]]:
    return await as_operator(database, "select turns, bytes, banks from quota_t where host_id = :host", host=host)


@pytest.mark.law("L2")
async def test_append_events_writes_what_is_new_and_refuses_what_moved(database: Database, host: UUID) -> None:
    events = as_json(event(host, E.BANK_CREATED), event(host, E.DOC_CREATED))
    assert await value(database, host, APPEND, host=host, events="[]", expected="{}") is None
    last = await value(database, host, APPEND, host=host, events=events, expected="{}")
    assert await value(database, host, 'select max("position") from event_store_t') == last
    assert await value(database, host, APPEND, host=host, events=events, expected="{}") is None
    update = event(host, E.DOC_UPDATED, 2)
    with pytest.raises(DBAPIError) as refused:
        seen = orjson.dumps({update["subject"]: 5}).decode()
        await value(database, host, APPEND, host=host, events=as_json(update), expected=seen)
    assert getattr(refused.value.orig, "sqlstate", None) == "ZA003"
    with pytest.raises(DBAPIError, match="row-level security"):
        foreign = as_json(event(host, E.DOC_CREATED, key="b"))
        await value(database, await new_host(database), APPEND, host=host, events=foreign, expected="{}")


@pytest.mark.law("L2")
async def test_append_bulk_writes_its_stage_once(database: Database, host: UUID) -> None:
    fill = """
        create temp table bulk_event on commit drop as
        select n.ord::int as ord, e.* from jsonb_array_elements(cast(:events as jsonb)) with ordinality n(value, ord),
               jsonb_to_record(n.value) as e(id uuid, type text, aggregate text, subject text, bank uuid, "user" uuid,
                                             ts timestamptz, version bigint, data jsonb, metadata jsonb)"""
    call = "select afterturn.append_bulk(:host, false, true, true)"
    events = as_json(event(host, E.BANK_CREATED), event(host, E.DOC_CREATED), event(host, E.DOC_UPDATED, 2, text="b"))
    for offered, appended in (("[]", 0), (events, 3), (events, 0)):
        async with database.tenant(host) as connection:
            await by_owner(connection, "drop table if exists pg_temp.bulk_event")  # a bulk append before left one here
            await by_owner(connection, fill, events=offered)
            assert await by_owner(connection, call, host=host) == [(appended,)]
    assert await rows(database, host, "select original_text, aggregate_version from agent_memory_doc_t") == [("b", 2)]


@pytest.mark.law("L2")
async def test_append_columns_tells_the_places_of_what_was_not_new(database: Database, host: UUID) -> None:
    call = "select afterturn.append_columns($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, false, true, true, false)"
    bank, doc = event(host, E.BANK_CREATED), event(host, E.DOC_CREATED)
    told = [bank, doc, event(host, E.DOC_UPDATED, 2, text="b")]
    for offered, known in (([], []), ([bank, doc], []), (told, [1, 2]), (told, [1, 2, 3])):
        [row] = await database.fetch(call, host, *build_columns(offered))
        assert row[0] == known
    assert await rows(database, host, "select original_text, aggregate_version from agent_memory_doc_t") == [("b", 2)]


async def test_key_of_is_what_follows_host_and_bank(database: Database, host: UUID) -> None:
    for subject, key in ((f"{host}|{host}|a|b", "a|b"), (f"{host}|{host}", "")):
        [row] = await database.fetch("select afterturn.key_of($1)", subject)
        assert row[0] == key


async def test_append_traced_turns_keeps_a_traceparent_where_a_turn_is_accepted(database: Database, host: UUID) -> None:
    call = "select outcomes, positions from afterturn.append_traced_turns($1, $2, true, $3)"
    turns = [offered_memory(host, name) for name in ("first", "second")]
    [(outcomes, positions)] = await database.fetch(call, host, turns, [TRACEPARENT, None])
    assert outcomes == ["accepted", "accepted"]
    assert positions == sorted(positions)
    traced = 'select "position", traceparent from ledger_t group by 1, 2 order by 1'
    assert await rows(database, host, traced) == [(positions[0], TRACEPARENT), (positions[1], None)]
    [(outcomes, again)] = await database.fetch(call, host, turns, [None, TRACEPARENT])
    assert outcomes == ["duplicate", "duplicate"]
    assert again == positions
    assert await rows(database, host, traced) == [(positions[0], TRACEPARENT), (positions[1], None)]


async def test_append_plugin_memories_needs_a_namespace_and_keeps_one_vector_each(
    database: Database, host: UUID
) -> None:
    call = "select outcomes, positions from afterturn.append_plugin_memories($1, $2, $3, $4, $5, $6, $7, $8)"
    three, four = normalise_vector([3.0, 0.0, 4.0]), normalise_vector([1.0, 1.0, 1.0, 1.0])
    turns = [offered_memory(host, name) for name in ("first", "second", "third")]
    about = (
        host,
        turns,
        [three.digest, None, four.digest],
        [three.norm, None, four.norm],
        [3, 0, 4],
        [*three.numbers, *four.numbers],
        [None, TRACEPARENT, None],
    )
    for wait in (True, False):
        [(outcomes, positions)] = await database.fetch(call, *about, wait)
        assert (outcomes, positions) == (["gone"] * 3, [None] * 3)
    assert await rows(database, host, "select 1 from event_store_t") == []
    await Namespaces(database, lambda: NOON).upsert(host, SPACE, "workspace", NamespaceChange(frozenset()))
    bank = identity.bank_id(host, SPACE)
    async with database.tenant(host) as holder:
        await holder.execute(text("select pg_advisory_xact_lock(afterturn.lock_key('bank', :bank))"), {"bank": bank})
        [(outcomes, _)] = await database.fetch(call, *about, False)
        assert outcomes == ["held"] * 3
    [(outcomes, positions)] = await database.fetch(call, *about, True)
    assert outcomes == ["accepted"] * 3
    assert positions == sorted(positions)
    [(outcomes, again)] = await database.fetch(call, *about, False)
    assert (outcomes, again) == (["duplicate"] * 3, positions)
    kept = "select dimension, digest, norm, cast(embedding as text) from plugin_vector_t order by 1"
    assert await rows(database, host, kept) == [
        (3, three.digest, 5.0, "[0.6,0,0.8]"),
        (4, four.digest, 2.0, "[0.5,0.5,0.5,0.5]"),
    ]
    traced = 'select distinct "position", traceparent from ledger_t where traceparent is not null'
    assert await rows(database, host, traced) == [(positions[1], TRACEPARENT)]


async def test_cloud_event_is_the_whole_envelope_of_a_row(database: Database, host: UUID) -> None:
    made = event(host, E.BANK_CREATED)
    position = await value(database, host, APPEND, host=host, events=as_json(made), expected="{}")
    found = await value(database, host, "select afterturn.cloud_event(e) from event_store_t e")
    assert found == {**cloud_event(made), "nonce": position}
    moved = {**event(host, E.DOC_CREATED), "metadata": {"source": "/elsewhere", "extra": 1}}
    await value(database, host, APPEND, host=host, events=as_json(moved), expected="{}")
    query = """
        select e.v->>'source', e.v->'extra'
          from (select afterturn.cloud_event(s) as v, s.position from event_store_t s) e
         order by e.position desc limit 1"""
    assert await rows(database, host, query) == [("/elsewhere", 1)]


async def test_cloud_event_text_names_no_field_twice_and_quotes_what_it_tells(database: Database, host: UUID) -> None:
    """As json, a name that stands twice would come back twice; jsonb would hide it."""
    extended = {**event(host, E.BANK_CREATED), "metadata": {"source": 'a "b" \\ %s', "extra": {"é": "%s"}}}
    await value(database, host, APPEND, host=host, events=as_json(extended), expected="{}")
    whole = "select cast(afterturn.cloud_event_text(s) as json) as told from event_store_t s"
    names = f"select array_agg(n order by n) from ({whole}) e, json_object_keys({{}}) n"
    attributes = await value(database, host, names.format("e.told"))
    assert attributes == sorted({*cloud_event(extended), "extra"})
    assert await value(database, host, names.format("e.told->'data'")) == sorted(cloud_event(extended)["data"])
    told = await value(database, host, whole)
    assert (told["source"], told["extra"]) == ('a "b" \\ %s', {"é": "%s"})
    without = """select afterturn.cloud_event(jsonb_populate_record(s, '{"data": {}}'))->'data' from event_store_t s"""
    assert set(await value(database, host, without)) == {"hostId", "bankId", "aggregateVersion", "newAggregateVersion"}


async def test_logged_version_is_the_highest_of_an_aggregate(database: Database, host: UUID) -> None:
    doc = event(host, E.DOC_UPDATED, 2)
    events = as_json(event(host, E.BANK_CREATED), event(host, E.DOC_CREATED), doc)
    await value(database, host, APPEND, host=host, events=events, expected="{}")
    call = "select afterturn.logged_version(:host, :subject)"
    assert await value(database, host, call, host=host, subject=doc["subject"]) == 2
    assert await value(database, host, call, host=host, subject="unknown") is None
    assert await value(database, await new_host(database), call, host=host, subject=doc["subject"]) is None


async def test_restamp_stamps_a_log_of_another_cluster_once(
    lonely: Database, fresh_database: TestPostgres, owner: AsyncConnection
) -> None:
    assert fresh_database
    host = await new_host(lonely)
    events = as_json(event(host, E.BANK_CREATED), event(host, E.DOC_CREATED))
    await value(lonely, host, APPEND, host=host, events=events, expected="{}")
    restamp = "select afterturn.restamp()"
    assert await by_owner(owner, restamp) == [(0,)]
    await by_owner(owner, "update public.afterturn_cluster set system_identifier = 1")
    assert await by_owner(owner, restamp) == [(2,)]
    assert await by_owner(owner, restamp) == [(0,)]
    # All that was restored is older than whatever this cluster writes.
    stamped = "select count(distinct xid), max(xid) < pg_snapshot_xmin(pg_current_snapshot()) from event_store_t"
    assert await by_owner(owner, stamped) == [(1, True)]


async def test_create_bank_creates_once_and_within_the_quota(database: Database, host: UUID) -> None:
    await allow(database, host, '{"max_banks": 1}')
    call = "select afterturn.create_bank(:host, :bank, cast(:event as jsonb), :now)"
    made = event(host, E.BANK_CREATED)
    about = {"host": host, "now": NOON}
    first = {"bank": BANK, "event": orjson.dumps(made).decode()}
    assert await value(database, host, call, **about, **first) == "created"
    assert await value(database, host, call, **about, **first) == "known"
    assert await used(database, host) == [(0, 0, 1)]
    second = {**made, "bank": str(uuid_of("other")), "subject": f"{host}|{uuid_of('other')}", "id": str(uuid4())}
    with pytest.raises(DBAPIError) as refused:
        await value(database, host, call, **about, bank=uuid_of("other"), event=orjson.dumps(second).decode())
    assert getattr(refused.value.orig, "sqlstate", None) == "ZQ002"
    assert await rows(database, host, "select bank_id from agent_memory_bank_t") == [(BANK,)]


async def test_charge_bytes_refuses_what_passes_a_limit_and_refunds_to_zero_at_most(
    database: Database, host: UUID
) -> None:
    call = "select afterturn.charge_bytes(:host, array[cast(:host as uuid)], :bytes)"
    await value(database, host, call, host=host, bytes=10**9)  # nothing limits it
    await allow(database, host, '{"max_bytes": 10}')
    await value(database, host, call, host=host, bytes=8)
    with pytest.raises(DBAPIError) as refused:
        await value(database, host, call, host=host, bytes=8)
    assert getattr(refused.value.orig, "sqlstate", None) == "ZQ002"
    assert await used(database, host) == [(0, 8, 0)]
    await value(database, await new_host(database), call, host=host, bytes=-1)
    assert await used(database, host) == [(0, 8, 0)]
    await value(database, host, call, host=host, bytes=-100)
    assert await used(database, host) == [(0, 0, 0)]


async def test_lock_quota_locks_where_there_is_a_quota(database: Database, host: UUID) -> None:
    held = """
        select count(*) from (select afterturn.lock_quota(:host) offset 0) l,
               lateral (select 1 from pg_locks k where k.locktype = 'advisory' and k.pid = pg_backend_pid()
                           and l.lock_quota is not null) k"""
    assert await value(database, host, held, host=host) == 0
    await allow(database, host, '{"max_turns": 1}')
    assert await value(database, host, held, host=host) == 1


async def test_set_quota_counts_what_is_there_and_an_empty_one_ends_it(database: Database, host: UUID) -> None:
    await TurnStore(database, lambda: NOON).append(host, [turn("t1", "four")])
    for _ in range(2):
        await allow(database, host, '{"max_turns": 5}')
        assert await used(database, host) == [(1, 4, 1)]
    assert await as_operator(database, "select current_setting('afterturn.host', true)") in ([("",)], [(None,)])
    await allow(database, host, "{}")
    assert await used(database, host) == []


async def test_recount_quota_counts_at_most_once_a_minute(database: Database, host: UUID) -> None:
    call = "select afterturn.recount_quota(:host, :now, cast(:least as interval))"
    about = {"host": host, "now": NOON}
    assert await value(database, host, "select afterturn.recount_quota(:host, :now)", **about) is False
    await allow(database, host, '{"max_bytes": 100}')
    await value(database, host, "select afterturn.charge_bytes(:host, array[cast(:host as uuid)], 50)", host=host)
    assert await value(database, host, "select afterturn.recount_quota(:host, :now)", **about) is False
    assert await used(database, host) == [(0, 50, 0)]
    assert await value(database, host, call, **about, least=timedelta(0)) is True
    assert await used(database, host) == [(0, 0, 0)]


async def test_find_operator_says_whether_the_key_makes_keys(database: Database) -> None:
    keys, find = OperatorKeys(database), "select * from afterturn.find_operator(:hash)"
    for makes in (True, False):
        token = await keys.create("test", makes_keys=makes)
        [(key, told)] = await as_operator(database, find, hash=hash_token(token))
        assert told is makes
        await keys.revoke(key)
        assert await as_operator(database, find, hash=hash_token(token)) == []


async def test_folded_names_compare_without_case_accents_and_blanks(database: Database, host: UUID) -> None:
    call = "select afterturn.folded(:name)"
    for name, folded in (("  Zoë \t MÜLLER ", "zoe muller"), ("zoe muller", "zoe muller"), ("", "")):
        assert await value(database, host, call, name=name) == folded


async def test_drop_words_returns_a_units_words_and_unposts_them_once(database: Database, host: UUID) -> None:
    await TurnStore(database, lambda: NOON).append(host, [turn("t1", "kyoto tea")])
    bank = identity.bank_id(host, "home")
    [(unit,)] = await rows(database, host, "select unit_id from agent_memory_unit_t")
    await rows(database, host, "select * from afterturn.post_words(:host, :bank, 10, false)", host=host, bank=bank)
    assert await rows(database, host, "select distinct unit_id from posting_t") == [(unit,)]
    call = "select unit_id, posted from afterturn.drop_words(:host, :bank, cast(:units as uuid[]))"
    about = {"host": host, "bank": bank}
    assert await rows(database, host, call, **about, units=[]) == []
    assert await rows(database, await new_host(database), call, **about, units=[unit]) == []
    assert await rows(database, host, call, **about, units=[unit]) == [(unit, True)]
    assert await rows(database, host, call, **about, units=[unit]) == []
    assert await rows(database, host, "select 1 from posting_t") == []


async def test_set_schema_version_is_what_schema_version_answers(owner: AsyncConnection) -> None:
    for told in (("0.1.0_9998", "0.1.0_0001"), ("0.1.0_9999", "it's quoted")):
        await by_owner(
            owner, "select afterturn.set_schema_version(:revision, :oldest)", revision=told[0], oldest=told[1]
        )
        assert await by_owner(owner, "select * from afterturn.schema_version()") == [told]


async def test_a_session_is_summarised_when_it_is_long_and_its_summary_is_read(database: Database, host: UUID) -> None:
    session, place = uuid_of("session a"), {"host": host, "bank": BANK}
    due = "select afterturn.sessions_to_summarise(:host, :bank, array[cast(:session as uuid)], :items, 1000)"
    read = "select first_seq, summary, messages from afterturn.session_summary(:host, :bank, :session, :now)"
    first = "select afterturn.first_to_summarise(:host, :bank, :session, 2)"
    about = {**place, "session": session, "now": NOON}
    assert await rows(database, host, read, **about) == []
    begun = [event(host, E.BANK_CREATED), event(host, E.SESSION_CREATED)]
    await value(database, host, APPEND, host=host, events=as_json(*begun), expected="{}")
    assert await rows(database, host, read, **about) == [(0, None, None)]
    assert await rows(database, host, due, **about, items=0) == [], "a history with words of its own is its platform's"
    await rows(database, host, "delete from session_message_t returning 1")
    assert await rows(database, host, due, **about, items=0) == [(session,)]
    assert await rows(database, host, due, **about, items=1) == []
    summary = event(host, E.SESSION_COMPACTED, 2)
    told = {
        "kind": "session_summary",
        "entries": [{"seq": 0, "version": 1, "kind": "stated", "text": "x", "turn": "t"}],
    }
    summary["data"] |= {"keptFrom": 2, "messages": [{"role": "summary", "content": told}]}
    await value(database, host, APPEND, host=host, events=as_json(summary), expected="{}")
    assert await rows(database, host, read, **about) == [(2, {**told, "entries": []}, None)], "it names no unit"
    assert await value(database, host, first, **about) == 2
    await rows(database, host, "delete from session_message_t returning 1")
    assert await value(database, host, first, **about) == 0
    assert await rows(database, host, read, **about) == [(2, None, None)]
    foreign = await new_host(database)
    assert await rows(database, foreign, read, **about) == []
    assert await rows(database, foreign, due, **about, items=0) == []
    numbers = "select afterturn.summary_seq(2), afterturn.summary_of(:host, :bank, :session, 2, :now)"
    assert await rows(database, host, numbers, **about) == [(-3, None)]
