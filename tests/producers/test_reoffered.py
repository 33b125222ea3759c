"""Whatever an interface accepts can be appended to another log: exported, offered again, and projected to the same."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import orjson
import pytest_asyncio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Text, cast, literal_column, select
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncConnection

from producers.service.turns import read_turn
from producers.settings import ApiSettings
from store.database import Database
from store.identity import bank_id, host_id
from store.ledger.ledger import Ledger
from store.log.bulk import append_bulk
from store.log.reader import LoggedEvent, LogPosition, read_events
from store.maintenance import WordReanalysis
from store.memory.turns import Appended, TurnStore
from store.replay import ReplayScope, repair_scope, swap_tables, verify_log
from store.replay.digest import COMPARED
from store.tenancy.keys import Keys
from tests.examples import examples
from tests.patience import until
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.servers import TestPostgres, TestValkey
from tests.store.conftest import settings_of
from tests.store.log.reoffering import build_reoffer
from tests.watched import Watched
from tests.workers.conftest import World as WorkersWorld
from tests.workers.stages import Crew

#: Names that a rule about names might mind.
NAMES = ("vector", "embedding", "unit_embedding", "centroid", "embeddings", "said", "pinned")

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
name = st.sampled_from(NAMES) | text
word = st.text("abcdeé한", min_size=1, max_size=3)
leaf = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
value = st.recursive(
    leaf | text | st.lists(st.floats(-1, 1, width=32), min_size=33, max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(name, inner, max_size=3),
    max_leaves=6,
)
part = st.fixed_dictionaries({"type": st.just("text"), "text": text}) | st.builds(
    lambda kind, rest: {**rest, "type": kind}, st.sampled_from(["image", "tool_call"]), st.dictionaries(name, value)
)
said = st.sampled_from(["I live in Porto.", "Ann Moore met Karl in Kyoto on 3 May 2024."]) | text
message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]), "content": said | st.lists(part, min_size=1, max_size=2)},
    optional={"name": word, "timestamp": st.sampled_from(["2024-05-03T10:00:00.123456789+02:00", 0, -2208988800000])},
)
metadata = st.dictionaries(name, text, max_size=3)
bank = st.sampled_from(["default", "default", "nötes"])
turn = st.fixed_dictionaries(
    {
        "bank": bank,
        "session_id": st.sampled_from(["s", "t"]),
        "turn_id": word,
        "messages": st.lists(message, min_size=1, max_size=3),
    },
    optional={
        "metadata": metadata,
        "tags": st.lists(word, max_size=2),
        "user_id": word,
        "occurred_at": st.just("2024-05-03T10:00:00Z"),
    },
)
document = st.fixed_dictionaries(
    {"bank": bank, "content": said.filter(str.strip)},
    optional={"title": word, "metadata": metadata, "user_id": word, "occurred_at": st.just("2024-05-03T10:00:00Z")},
)
added = st.fixed_dictionaries(
    {"sender_id": word, "role": st.just("user"), "timestamp": st.integers(1, 2**40), "content": said}
)
bodies = {
    "POST /api/v1/turns": turn,
    "POST /api/v1/turns:batch": st.fixed_dictionaries({"turns": st.lists(turn, min_size=1, max_size=3)}),
    "POST /api/v1/docs": document
    | st.fixed_dictionaries({"bank": bank, "content_hash": st.text("0123456789abcdef", min_size=64, max_size=64)}),
    "DELETE /api/v1/docs/{doc}": st.none(),
    "POST /api/v1/directives": st.fixed_dictionaries(
        {"bank": bank, "name": name.filter(bool), "content": text.filter(bool)}
    ),
    "DELETE /api/v1/directives/{directive}": st.none(),
    "POST /api/v1/links": st.fixed_dictionaries({"link_type": st.just("causes"), "weight": st.floats(0, 1)}),
    "PATCH /api/v1/units/{unit}": st.fixed_dictionaries({"content": said.filter(str.strip)}),
    "PUT /api/v1/units/{unit}/pin": st.none(),
    "DELETE /api/v1/units/{unit}/pin": st.none(),
    "DELETE /api/v1/units/{unit}?with_facts=true": st.none(),
    "POST /api/v1/banks": st.fixed_dictionaries({"bank": word}, optional={"user_id": word, "agent": word}),
    "PATCH /api/v1/banks/default": st.fixed_dictionaries({"language": st.sampled_from(["de", "none"])}),
    "POST /api/v1/erasures": st.sampled_from(
        [
            {"kind": "unit"},
            {"kind": "session", "session_id": "s"},
            {"kind": "user", "user_id": "a"},
            {"kind": "bank", "bank": "nötes"},
        ]
    ),
    "POST /memories/add": st.lists(added, min_size=1, max_size=2),
    "stages": st.none(),
}
call = st.sampled_from(sorted(bodies)).flatmap(lambda what: st.tuples(st.just(what), bodies[what]))
calls = st.tuples(st.tuples(st.just("POST /api/v1/turns"), turn), st.lists(call, min_size=2, max_size=9)).map(
    lambda drawn: [drawn[0], *drawn[1]]
)

#: The newest unit of a bank and the one before it, its newest document and directive; an id of nothing where none is.
NEWEST = """
    select coalesce(u.units[1], b.nothing) as unit, coalesce(u.units[2], u.units[1], b.nothing) as former,
           coalesce(o.doc_id, b.nothing) as doc, coalesce(v.directive_id, b.nothing) as directive
      from (select cast(:host as uuid) as host_id, cast(:bank as uuid) as bank_id, gen_random_uuid() as nothing) b
      left join lateral (select array(select unit_id from afterturn.agent_memory_unit_t u
                          where u.host_id = b.host_id and u.bank_id = b.bank_id and active
                          order by position desc limit 2) as units) u on true
      left join lateral (select doc_id from afterturn.agent_memory_doc_t o
                          where o.host_id = b.host_id and o.bank_id = b.bank_id
                          order by active desc, update_ts desc limit 1) o on true
      left join lateral (select directive_id from afterturn.agent_memory_directive_t v
                          where v.host_id = b.host_id and v.bank_id = b.bank_id
                          order by active desc, update_ts desc limit 1) v on true"""
COUNT = sql("select count(*) from afterturn.event_store_t")
#: An event's place in its log is the log's own; the projection stage counts beside the log.
UNTOLD = "array['position', 'last_position', 'counted', 'mention_count']"
LIMITS = settings(suppress_health_check=list(HealthCheck), max_examples=examples(5))


@dataclass(repr=False)
class Logs:
    """A service with its workers, and an empty database that its log is offered to."""

    world: World
    crew: Crew
    other: Watched
    other_url: str

    async def ask(self, tenant: Tenant, gateway: Tenant, what: str, body: Any) -> httpx.Response | None:
        """Make one call; it ends as the contract says, whether it is accepted or not."""
        if what == "stages":
            await self.crew.drain()
            return None
        method, path = what.split(" ")
        if path == "/memories/add":
            messages = sorted(body, key=lambda one: one["timestamp"])
            body = {"user_id": "ana", "user_key": gateway.token, "session_id": "chat:m", "messages": messages}
            tenant = gateway
        host = host_id(tenant.host)
        [known] = await self.world.sql(NEWEST, host=host, bank=bank_id(host, "default"))
        if path.endswith("/links"):
            body = {**body, "from_unit_id": str(known.former), "to_unit_id": str(known.unit)}
        elif body is not None and body.get("kind") == "unit":
            body = {**body, "unit_id": str(known.unit)}
        sent = None if body is None else orjson.dumps(body)
        return await tenant.http.request(method, path.format_map(known._mapping), content=sent)

    async def exported(self, database: Database, host: UUID) -> list[LoggedEvent]:
        """Read a host's log to its end, as readers of the log do."""
        events: list[LoggedEvent] = []

        async def read_to_the_end() -> bool:
            async with database.tenant(host) as connection:
                events.extend(await read_events(connection, host, events[-1].place if events else LogPosition(), 1000))
                return len(events) == int((await connection.execute(COUNT)).scalar_one())

        await until(read_to_the_end, "the whole log may be read")
        return sorted(events, key=lambda event: event.place.position)

    async def settle(self) -> None:
        """Let the service come to the end of its work: words that wait, and those that follow a change of language."""
        await self.crew.drain()
        anew = WordReanalysis(self.world.database, settle_s=0.0)
        while await anew.undone():
            await anew.step()

    async def offer_again(self, tenant: Tenant) -> None:
        """Offer a host's log to the empty database, and compare."""
        host = host_id(tenant.host)
        events = await self.exported(self.world.database, host)
        await Keys(self.other).create(tenant.host, "test")
        loaded = await append_bulk(self.other, host, [build_reoffer(event.payload) for event in events])
        assert (loaded.appended, loaded.known) == (len(events), 0)
        again = await self.exported(self.other, host)
        assert [_told(event) for event in again] == [_told(event) for event in events]
        assert await rows(self.other, host) == await rows(self.world.database, host)


async def rows(database: Database, host: UUID) -> dict[str, list[str]]:
    """Return what the projections of a host hold, but for places in the log and counts of the projection stage."""
    found = {}
    async with database.tenant(host) as connection:
        for one in COMPARED:
            row = one.select_rows("afterturn").subquery()
            untold = select(cast(row.c.row_json.op("-")(literal_column(UNTOLD)), Text))
            query = untold.order_by(*(row.c[name] for name in one.key))
            arguments = {"host": None, "bank": None}
            found[one.table] = [str(told) for told in (await connection.execute(query, arguments)).scalars()]
    return found


def _told(event: LoggedEvent) -> dict[str, Any]:
    return {name: value for name, value in event.payload.items() if name != "nonce"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def logs(servers: tuple[TestPostgres, TestValkey], administrator: AsyncConnection) -> AsyncIterator[Logs]:
    here, there = [await servers[0].create(f"log_{uuid4().hex}", by=administrator) for _ in range(2)]
    world = build(here, broker_of(servers[1].url, f"log-{uuid4().hex}"), settings=ApiSettings())
    workers = WorkersWorld(
        here, world.database, Ledger(world.database), TurnStore(world.database, lambda: datetime.now(UTC))
    )
    other = Watched(settings_of(there), there.superuser_url)
    yield Logs(world, Crew(workers), other, there.owner_url)
    await world.close()
    await other.close()
    for database in (here, there):
        await database.drop(by=administrator)


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else []


def a_turn(**fields: Any) -> tuple[str, dict[str, Any]]:
    messages = [{"role": "user", "content": "We fly to Lisbon"}]
    return "POST /api/v1/turns", {"session_id": "s", "turn_id": "t", "messages": messages, **fields}


def a_part(**fields: Any) -> tuple[str, dict[str, Any]]:
    return a_turn(
        messages=[{"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image", **fields}]}]
    )


@LIMITS
@example([a_turn(metadata={"vector": "north-west", "embedding": "of a stone"}), ("PUT /api/v1/units/{unit}/pin", None)])
@example([a_part(numbers=[0.25] * 40), ("PATCH /api/v1/units/{unit}", {"content": "We fly to Rome"})])
@example([a_part(propagation={"layers": {"embeddings": [[0.5] * 384]}, "unitEmbedding": {}})])
@example([a_part(great=[1e308, -1e22, 2**63 - 1, 5e-324, 1e16, -0.0])])
@example([a_part(deep=nested(60))])
@example(
    [
        a_turn(messages=[{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]),
        ("POST /api/v1/erasures", {"kind": "unit"}),
    ]
)
@example(
    [a_turn(), ("stages", None), ("POST /api/v1/erasures", {"kind": "session", "session_id": "s"}), a_turn(turn_id="u")]
)
@example(
    [
        a_turn(user_id="a"),
        (
            "POST /api/v1/docs",
            {"content": "Ann Moore lives in Kyoto.", "title": "On Ann", "metadata": {"vector": "up"}},
        ),
        ("POST /api/v1/directives", {"name": "tone", "content": "Be brief"}),
        ("POST /api/v1/links", {"link_type": "causes"}),
        ("stages", None),
        ("DELETE /api/v1/directives/{directive}", None),
        ("DELETE /api/v1/docs/{doc}", None),
        ("POST /api/v1/erasures", {"kind": "user", "user_id": "a"}),
        ("POST /api/v1/erasures", {"kind": "bank", "bank": "default"}),
        a_turn(turn_id="after"),
    ]
)
@given(calls)
async def test_what_is_accepted_can_be_offered_to_another_log_and_gives_the_same_rows(
    logs: Logs, calls: list[tuple[str, Any]]
) -> None:
    tenant = await logs.world.tenant()
    gateway = await logs.world.tenant(tenant.host, gateway_user="ana")
    for what, body in [*calls, ("stages", None)]:
        reply = await logs.ask(tenant, gateway, what, body)
        assert reply is None or reply.status_code < 500, reply.text
    await logs.offer_again(tenant)
    await tenant.http.aclose()
    await gateway.http.aclose()


#: What stands beside the projections and is made again from the log. An erased body has no digest that could be known.
GUARDS = """
    select t.turn_id, t.bank_id, t.session_id, t.user_id, t.accepted_at, row_number() over (order by t.position) as nth,
           case when l.digest is not null then t.digest end as digest
      from afterturn.turn_t t join afterturn.logged_turns(:host, null) l using (turn_id) where t.host_id = :host"""
WORDS = "select unit_id, session_id, seq, length, cast(terms as text) as terms from afterturn.unit_word_t"
POSTINGS = "select unit_id, term, tf, length, session_id, seq from afterturn.posting_t"
TERMS = "select bank_id, term, df from afterturn.term_t"
FACTS = "select unit_id, key, value, valid_from, valid_to, superseded_by from afterturn.fact_t"


async def test_guards_words_and_facts_of_a_log_that_was_offered_again_are_made_by_a_replay(logs: Logs) -> None:
    tenant = await logs.world.tenant()
    for what, body in (a_turn(), ("POST /api/v1/docs", {"content": "Ann Moore lives in Kyoto."}), ("stages", None)):
        await logs.ask(tenant, tenant, what, body)
    await logs.offer_again(tenant)
    await tenant.http.aclose()
    assert (await verify_log(logs.other_url)).equal
    await logs.settle()
    await swap_tables(logs.other_url)
    wrong = [one.name for one in (await verify_log(logs.other_url)).derived if not one.equal]
    assert wrong == [], "the work of vectors is open: workers make them from texts"
    for (host,) in await logs.world.sql("select distinct host_id from afterturn.event_store_t"):
        for query in (GUARDS, WORDS, POSTINGS, TERMS, FACTS):
            assert await told(logs.other, host, query) == await told(logs.world.database, host, query)


async def told(database: Database, host: UUID, query: str) -> list[tuple[Any, ...]]:
    async with database.tenant(host) as connection:
        found = await connection.execute(sql(f"{query} order by 1, 2, 3"), {"host": host} if ":host" in query else {})
        return [tuple(row) for row in found]


async def test_a_turn_of_a_log_that_was_offered_again_is_a_duplicate_there_too(logs: Logs) -> None:
    tenant = await logs.world.tenant()
    host, (_, body) = host_id(tenant.host), a_turn(metadata={"vector": "up"}, user_id="a")
    assert (await tenant.http.post("/api/v1/turns", json=body)).status_code == 201
    await logs.offer_again(tenant)
    [key] = await logs.world.sql("select digest_key from afterturn.host_t where host_id = :host", host=host)
    await logs.other.sql(
        "update afterturn.host_t set digest_key = :key where host_id = :host", key=key.digest_key, host=host
    )
    await repair_scope(logs.other_url, ReplayScope(host))
    turn = read_turn(body, ApiSettings())
    [answer] = await TurnStore(logs.other, lambda: datetime.now(UTC)).append(host, [turn])
    assert isinstance(answer, Appended)
    assert answer.duplicate
    await tenant.http.aclose()
