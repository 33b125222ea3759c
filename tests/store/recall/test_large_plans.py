"""Among 30,000 units of thirty banks, every way of asking reads the bank it asks, and no table in full."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from embeddings.protocol import Embedder
from store import identity
from store.database import Database
from store.derived.persons import PersonKey, Persons
from store.memory.session_history import SessionHistory, WantedFacts
from store.recall.query import RecallQuery
from store.recall.recaller import Recaller
from store.recall.settings import RecallSettings
from store.tenancy.banks import Banks
from store.tenancy.spaces import Space
from tests.patience import until
from tests.servers import TestPostgres
from tests.store.conftest import NOON, settings_of

# The rows are as many as they are in a memory of some age; fewer, and a planner may rightly read them all.
pytestmark = [pytest.mark.slow, pytest.mark.untouched]

BANKS, UNITS, USERS = 30, 1_000, 5
HOST = identity.host_id("large")
HOME = "bank-1"
#: Rows that one question may read: words, vectors and units of its bank, some of them more than once.
MOST_ROWS = 20 * UNITS

FILL = (
    "insert into afterturn.host_t (host_id, name) values ({host}, 'large')",
    """insert into afterturn.agent_memory_bank_t (host_id, bank_id, bank_name, update_ts, update_user)
       select {host}, id, name, {noon}, 'test' from public.bank_made""",
    """create table public.made as
       select b.id as bank, md5(b.name || '/' || n)::uuid as unit,
              case when b.name = '{home}' and n / 20 = 3 then {asked}
                   else md5(b.name || '/s' || n / 20)::uuid end as session,
              b.nth * 100000 + n as position, n, u.id as user_id,
              md5(b.name || '/e' || n % 200)::uuid as entity
         from public.bank_made b, generate_series(0, 1000 - 1) n join public.user_made u on u.nth = n % 5""",
    """insert into afterturn.agent_memory_unit_t
           (host_id, bank_id, unit_id, content, event_date, fact_type, user_id, origin, session_id, turn_id,
            session_name, turn_name, ordinal, seq, role, name, position, update_ts, update_user, metadata)
       select {host}, bank, unit, 'We saw the lake on walk number ' || n, {noon} - n * interval '1 hour',
              case when n % 4 = 0 then 'world' else 'experience' end, user_id,
              case when n % 4 = 0 then 'extraction' else 'message' end, session, unit,
              's' || n / 20, 't' || n, 0, case when n % 4 = 0 then null else n % 20 end,
              'user', 'Ana', position, {noon}, 'test',
              jsonb_build_object('tags', jsonb_build_array('tag-' || n % 20), 'place', 'p' || n % 50,
                                 'subject', 'ana', 'key', 'k', 'value', 'v')
         from public.made""",
    """insert into afterturn.unit_vector_t (host_id, bank_id, unit_id, chunk, generation, embedding)
       select {host}, bank, unit, 0, {generation},
              cast('[' || repeat('0,', n % 300) || '1' || repeat(',0', 383 - n % 300) || ']' as halfvec)
         from public.made""",
    """insert into afterturn.posting_t (host_id, bank_id, term, unit_id, session_id, seq, tf, length)
       select {host}, m.bank, t.term, m.unit, m.session, m.n % 20, 1, 6
         from public.made m, unnest(array['lake', 'walk', 'number', 'ana', 'n' || m.n]) t(term) where m.n % 4 > 0""",
    """insert into afterturn.term_t (host_id, bank_id, term, df)
       select host_id, bank_id, term, count(*) from afterturn.posting_t group by 1, 2, 3""",
    """insert into afterturn.bank_statistics_t (host_id, bank_id, units, tokens)
       select {host}, id, 1000, 1000 * 6 from public.bank_made""",
    """insert into afterturn.turn_t (host_id, turn_id, bank_id, session_id, user_id, digest, position, accepted_at)
       select {host}, unit, bank, session, user_id, '', position, {noon} from public.made""",
    """insert into afterturn.event_store_t
           (id, host_id, user_id, aggregate_key, aggregate_type, event_type, event_ts, data, bank_id, position)
       select unit, {host}, user_id, unit::text, 'unit', 'Retained', {noon}, jsonb_build_object(), bank,
              position
         from public.made""",
    """insert into afterturn.ledger_t
           (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, accepted_at, status)
       select {host}, s.stage, unit, session, bank, session, unit, position, {noon},
              case when n < 3 then 'pending' else 'done' end
         from public.made, unnest(array['embedding', 'extraction']) s(stage)""",
    """insert into afterturn.agent_memory_entity_t
           (host_id, entity_id, bank_id, canonical_name, mention_count, update_ts, update_user)
       select distinct on (bank, entity) {host}, entity, bank, 'thing ' || n % 200, 5, {noon}, 'test'
         from public.made""",
    """insert into afterturn.agent_memory_unit_entity_t (host_id, bank_id, unit_id, entity_id, counted)
       select {host}, bank, unit, entity, true from public.made""",
    """insert into afterturn.entity_profile_t
           (host_id, bank_id, entity_id, canonical_id, name, kind, folded, stem, mentions)
       select distinct on (bank, entity) {host}, bank, entity, entity, 'thing ' || n % 200, 'person',
              case n % 200 when 7 then 'ana' else 'thing ' || n % 200 end,
              case n % 200 when 7 then 'ana' else 'thing' end, 5 from public.made""",
    """insert into afterturn.agent_memory_entity_cooccur_t
           (host_id, bank_id, entity_id_1, entity_id_2, cooccur_count, last_cooccurred)
       select {host}, a.bank_id, a.entity_id, b.entity_id, 2, {noon}
         from afterturn.agent_memory_entity_t a join afterturn.agent_memory_entity_t b
           on b.bank_id = a.bank_id and b.entity_id > a.entity_id
        where a.canonical_name ~ '[07]$' and b.canonical_name ~ '7$'""",
    """insert into afterturn.fact_t
           (host_id, bank_id, unit_id, subject, fact_id, key, value, position, valid_from)
       select {host}, bank, unit, case n % 100 when 20 then user_id::text else 'person ' || n % 100 end,
              'f' || n, 'k' || n, 'v', position, {noon}
         from public.made where n % 4 = 0""",
    "analyze",
)
# Of a table that holds little else than the bank that is asked, reading all is right.
BIG = text("""
    select relname, case when n_live_tup > :most then seq_scan else 0 end as scans,
           coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) as read
      from pg_stat_user_tables where schemaname = 'afterturn'""")
OTHERS = text("select count(*) from pg_stat_activity where usename = 'afterturn_app' and datname = current_database()")

Ask = Callable[[Database], Awaitable[object]]


@dataclass(frozen=True)
class Large:
    """A filled database; `look` sees what was read there."""

    postgres: TestPostgres
    look: AsyncEngine
    model: Embedder

    async def reads(self, ask: Ask) -> tuple[dict[str, int], int]:
        """Return the tables that were read in full, and how many rows were read at all, by connections that ended."""
        before = await self._counted()
        database = Database(settings_of(self.postgres))
        try:
            # More often than a driver waits before it keeps a plan for all arguments.
            for _ in range(8):
                await ask(database)
        finally:
            await database.close()
        await until(self._alone, "the connections of the test have ended")
        after = await self._counted()
        scans = {name: now[0] - before[name][0] for name, now in after.items() if now[0] > before[name][0]}
        return scans, sum(now[1] - before[name][1] for name, now in after.items()) // 8

    def recall(self, question: str, *, bank: str = HOME, **more: object) -> Ask:
        settings = RecallSettings()

        async def ask(database: Database) -> object:
            query = RecallQuery(bank, question, **more)  # type: ignore[arg-type]  # each case names its own fields
            return await Recaller(database, self.model, settings).recall(HOST, query)

        return ask

    async def _counted(self) -> dict[str, tuple[int, int]]:
        async with self.look.connect() as connection:
            return {name: (scans, read) for name, scans, read in await connection.execute(BIG, {"most": 5 * UNITS})}

    async def _alone(self) -> bool:
        async with self.look.connect() as connection:
            return bool((await connection.execute(OTHERS)).scalar_one() == 0)


@pytest.fixture
async def large(fresh_database: TestPostgres, model: Embedder) -> AsyncIterator[Large]:
    engine = create_async_engine(fresh_database.superuser_url, poolclass=NullPool, connect_args={"ssl": False})
    async with engine.begin() as connection:
        await fill(connection, model.generation)
    yield Large(fresh_database, engine, model)
    await engine.dispose()


async def fill(connection: AsyncConnection, generation: int) -> None:
    await connection.exec_driver_sql("create table public.bank_made (nth int, name text, id uuid)")
    await connection.exec_driver_sql("create table public.user_made (nth int, id uuid)")
    banks = [f"({n}, 'bank-{n}', '{identity.bank_id(HOST, f'bank-{n}')}')" for n in range(1, BANKS + 1)]
    users = [f"({n}, '{user(n)}')" for n in range(USERS)]
    await connection.exec_driver_sql(f"insert into public.bank_made values {', '.join(banks)}")
    await connection.exec_driver_sql(f"insert into public.user_made values {', '.join(users)}")
    asked = identity.session_id(identity.bank_id(HOST, HOME), "s3")
    told = {"host": f"uuid '{HOST}'", "noon": f"timestamptz '{NOON.isoformat()}'", "asked": f"uuid '{asked}'"}
    for statement in FILL:
        await connection.exec_driver_sql(statement.format(**told, home=HOME, generation=generation))


async def across(large: Large, database: Database) -> object:
    found = await Banks(database, lambda: NOON).of_user(HOST, Space(None, None), "user-1")
    assert found
    return [await large.recall("the lake", bank=bank, user=user(1))(database) for bank in found[:2]]


async def person(database: Database, key: PersonKey) -> object:
    found = await Persons(database, lambda: NOON).of(HOST, Space(None, None), key, banks=[HOME], history=True, limit=50)
    assert found.facts
    return found


async def session(database: Database, *, within: bool) -> object:
    read = SessionHistory(database, lambda: NOON)
    found = await read.recent_and_holding(HOST, HOME, "s3", 20, WantedFacts(20, said="the lake"), within=within)
    kept, facts = found.kept, found.facts
    assert kept
    assert len(facts) == (5 if within else 20)
    return kept


async def listed(database: Database) -> object:
    return await Banks(database, lambda: NOON).list(HOST, Space(None, None), limit=20)


def user(number: int) -> UUID:
    return identity.user_id(HOST, f"user-{number}")


async def test_no_way_of_asking_reads_a_table_in_full(large: Large) -> None:
    asked: dict[str, Ask] = {
        "plain": large.recall("What was walk number n5?"),
        "from a session": large.recall("the lake", session_name="s3"),
        "in a session alone": large.recall("the lake", session_name="s3", only_session=True),
        "without a session": large.recall("the lake", session_name="s3", exclude_session=True),
        "kinds": large.recall("the lake", kinds=["world"]),
        "tags": large.recall("the lake", tags=["tag-3"]),
        "metadata": large.recall("the lake", metadata={"place": "p7"}),
        "of a user": large.recall("the lake", user=user(2)),
        "as of a moment": large.recall("the lake", as_of=NOON - timedelta(days=3)),
        "of a day": large.recall("What happened on 25 February 2026?", as_of=NOON),
        "names": large.recall("Did Ana meet Thing Seven at the lake?"),
        "all filters": large.recall("the lake", tags=["tag-3"], kinds=["world"], user=user(2), as_of=NOON),
        "across banks": partial(across, large),
        "profile of a user": partial(person, key=PersonKey(user="user-0")),
        "profile of a name": partial(person, key=PersonKey(name="person 4")),
        "banks": listed,
        "history and facts of a session": partial(session, within=True),
        "history of a session and facts of its bank": partial(session, within=False),
    }
    found = {name: await large.reads(ask) for name, ask in asked.items()}
    assert {name: scans for name, (scans, _) in found.items() if scans} == {}
    assert {name: read for name, (_, read) in found.items() if read > MOST_ROWS} == {}
