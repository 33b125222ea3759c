"""Memory that is written straight into the platform's own tables, for agents that have no portal yet.

A bridge, and not portable: no event is written, so that nothing of it is replayed, exported, masked or erased by
receipt. It refuses a database of Afterturn, whose tables are projections that a replay drops and makes anew.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from afterturn_client.arguments import check_objects, check_text
from afterturn_client.errors import AfterturnError, InvalidRequestError, UnknownOutcomeError, UnreachableError
from afterturn_client.memory_store.protocol import (
    MOST_HISTORY,
    MOST_RECALLED,
    NO_METADATA,
    MemoryOwner,
    MemoryStoreError,
    StoredUnit,
)

if TYPE_CHECKING:
    import asyncpg

T = TypeVar("T")
#: Returns the vector of a text, of the dimension of the platform's column.
Embed = Callable[[str], Awaitable[Sequence[float]]]

TABLES = ("agent_memory_bank_t", "agent_memory_unit_t", "agent_session_history_t")
# From the catalog, which every role may read. The platform's tables are tables: views of these names are Afterturn's.
_LOOK = """
    select (select count(*) from unnest($1::text[]) as wanted(name)
              join pg_class c on c.oid = to_regclass(wanted.name) and c.relkind in ('r', 'p')) as tables,
           exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = 'afterturn' and c.relname = 'event_store_t') as ours"""
# Every statement takes host, bank, agent and user first.
_MAKE_BANK = """
    insert into agent_memory_bank_t (host_id, bank_id, agent_def_id, user_id, bank_name)
    values ($1, $2, $3, $4, $5) on conflict (host_id, bank_id) do nothing"""
_READ_BANK = """
    select agent_def_id is not distinct from $3 and user_id is not distinct from $4 as own, active
      from agent_memory_bank_t where host_id = $1 and bank_id = $2"""
_OWN = """
    exists (select from agent_memory_bank_t b where b.host_id = $1 and b.bank_id = $2
               and b.agent_def_id = $3 and b.user_id = $4 and b.active)"""
_RETAIN = f"""
    insert into agent_memory_unit_t (host_id, bank_id, unit_id, content, fact_type, metadata, embedding)
    select $1, $2, $5, $6, $7, $8::jsonb, $9::text::vector where {_OWN}"""
_SHOWN = f"""
    select unit_id, bank_id, content, fact_type, metadata::text as metadata
      from agent_memory_unit_t where host_id = $1 and bank_id = $2 and active and {_OWN}"""  # noqa: S608 - constants
_NEWEST = f"{_SHOWN} order by event_date desc, unit_id limit $5"
# What has no vector comes last, the newest of it first.
_NEAREST = f"{_SHOWN} order by embedding <=> $6::text::vector nulls last, event_date desc, unit_id limit $5"
_APPEND = f"""
    insert into agent_session_history_t as h (host_id, bank_id, session_id, messages)
    select $1, $2, $5, $6::jsonb where {_OWN}
    on conflict (host_id, bank_id, session_id) do update
       set messages = (select coalesce(jsonb_agg(kept.message order by kept.nth), '[]') from (
                           select message, nth from jsonb_array_elements(h.messages || excluded.messages)
                                  with ordinality as said(message, nth)
                            order by nth desc limit $7) kept),
           aggregate_version = h.aggregate_version + 1, update_ts = now()
     where h.active"""  # noqa: S608 - constants
_HISTORY = f"""
    select messages::text from agent_session_history_t
     where host_id = $1 and bank_id = $2 and session_id = $5 and active and {_OWN}"""  # noqa: S608 - constants
#: What the driver says of an insert that took one row.
_ONE_ROW = "INSERT 0 1"


class DirectPgStore:
    """A memory store that writes the platform's tables; see `MemoryStore`. Use it on one event loop, and close it.

    `owner` names agent and user. Without `embed` a recall returns the newest units, since none has a vector.
    """

    portable = False

    def __init__(self, pool: "asyncpg.Pool", owner: MemoryOwner, embed: Embed | None = None) -> None:
        """Keep a pool that `open` has made."""
        self._pool, self._owner, self._embed = pool, owner, embed

    @classmethod
    async def open(
        cls, database_url: str, owner: MemoryOwner, *, embed: Embed | None = None, timeout_s: float = 10.0
    ) -> "DirectPgStore":
        """Connect, and look whether the database is the platform's own.

        Raises MemoryStoreError for a database of Afterturn and for one without the platform's tables, UnreachableError,
        and InvalidRequestError where the package asyncpg is missing.
        """
        try:
            import asyncpg  # noqa: PLC0415 - an extra
        except ImportError:
            raise InvalidRequestError(
                "direct-pg needs `pip install --find-links wheels afterturn-client[direct-pg]`"
            ) from None
        if owner.agent_def_id is None or owner.user_id is None:
            raise InvalidRequestError("direct-pg needs the ids of agent and user: no token names them")
        options = {"min_size": 1, "max_size": 4, "command_timeout": timeout_s, "init": _look}
        made = asyncpg.create_pool(check_text("database_url", database_url), **options)
        return cls(await _translate_errors(made), owner, embed)

    def __repr__(self) -> str:
        return "DirectPgStore()"

    async def ensure_bank(self, bank: UUID) -> None:
        """As MemoryStore.ensure_bank."""
        place = self._place(bank)
        await _translate_errors(self._pool.execute(_MAKE_BANK, *place, f"session-{bank}"))
        row = await _translate_errors(self._pool.fetchrow(_READ_BANK, *place))
        if row is None or not row["own"]:
            raise MemoryStoreError("the bank is another agent's or user's")
        if not row["active"]:
            raise MemoryStoreError("the bank is inactive")

    async def retain(
        self, bank: UUID, content: str, *, fact_type: str = "experience", metadata: Mapping[str, Any] = NO_METADATA
    ) -> UUID:
        """As MemoryStore.retain; the text is stored as it is, secrets included."""
        unit, vector = uuid4(), await self._embed_text(check_text("content", content))
        told = unit, content, fact_type, json.dumps(dict(metadata)), vector
        done = await _translate_errors(self._pool.execute(_RETAIN, *self._place(bank), *told))
        _require_row(done, "there is no such active bank of this agent and user")
        return unit

    async def recall(self, bank: UUID, query: str, *, limit: int = MOST_RECALLED) -> tuple[StoredUnit, ...]:
        """As MemoryStore.recall: the nearest by the cosine of vectors, or the newest where nothing embeds."""
        vector = await self._embed_text(check_text("query", query))
        place = *self._place(bank), limit
        asked = (_NEWEST, *place) if vector is None else (_NEAREST, *place, vector)
        rows = await _translate_errors(self._pool.fetch(*asked))
        return tuple(
            StoredUnit(row["unit_id"], row["bank_id"], row["content"], row["fact_type"], json.loads(row["metadata"]))
            for row in rows
        )

    async def append_history(self, bank: UUID, session: UUID, messages: Sequence[Mapping[str, Any]]) -> None:
        """As MemoryStore.append_history; the table keeps the newest 40."""
        check_objects("messages", messages, "a mapping")
        told = json.dumps([dict(one) for one in messages][-MOST_HISTORY:])
        done = await _translate_errors(self._pool.execute(_APPEND, *self._place(bank), session, told, MOST_HISTORY))
        _require_row(done, "there is no such active bank or history of this agent and user")

    async def read_history(self, bank: UUID, session: UUID) -> tuple[Mapping[str, Any], ...]:
        """As MemoryStore.read_history."""
        told = await _translate_errors(self._pool.fetchval(_HISTORY, *self._place(bank), session))
        return tuple(json.loads(told or "[]")[-MOST_HISTORY:])

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.close()

    def _place(self, bank: UUID) -> tuple[UUID, UUID, UUID | None, UUID | None]:
        return self._owner.host_id, bank, self._owner.agent_def_id, self._owner.user_id

    async def _embed_text(self, text: str) -> str | None:
        if self._embed is None:
            return None
        vector = [float(number) for number in await self._embed(text)]
        if not any(vector):
            raise InvalidRequestError("the vector of a text must not be all zeros: nothing is near to it")
        return json.dumps(vector)


def _require_row(done: str, why: str) -> None:
    if done != _ONE_ROW:
        raise MemoryStoreError(why)


async def _look(connection: "asyncpg.Connection") -> None:
    """Refuse a new connection to a database that must not be written to. Raises MemoryStoreError."""
    found = await connection.fetchrow(_LOOK, list(TABLES))
    if found["ours"]:
        raise MemoryStoreError(
            "this is a database of Afterturn, whose tables are made from its event log: a replay would drop what is "
            "written past it. Use portal-command"
        )
    if found["tables"] != len(TABLES):
        raise MemoryStoreError(f"this database has not the platform's tables: {', '.join(TABLES)}")


async def _translate_errors(call: Awaitable[T]) -> T:
    """Return what a call of the driver returns; its errors become this package's.

    They are raised outside the handler, so that they do not carry the driver's, whose details repeat rows.
    """
    import asyncpg  # noqa: PLC0415 - an extra

    problem: AfterturnError
    try:
        return await call
    except asyncpg.PostgresError as error:
        problem = MemoryStoreError(f"the database refused: {type(error).__name__} ({error.sqlstate})")
    except (asyncpg.InterfaceError, TimeoutError) as error:
        problem = UnknownOutcomeError(f"the database gave no answer ({type(error).__name__})")
    except OSError as error:
        problem = UnreachableError(f"the database could not be reached ({type(error).__name__})")
    raise problem
