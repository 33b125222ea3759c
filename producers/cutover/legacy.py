"""The legacy table `agent_memories`: read in pages, appended to by a reverse run."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import DateTime, Select, Text, Uuid, cast, column, func, literal, select, table, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from producers.cutover.errors import LegacyUnreadable
from producers.plugin.wire import NamespaceKind

#: Rows that are in memory at a time.
PAGE = 500
#: A row without a time counts as the oldest.
OLDEST = datetime(1970, 1, 1, tzinfo=UTC)
#: The namespace kind of a workspace that each scope of a row stands for.
SCOPES = {"LOCAL": NamespaceKind.WORKSPACE, "TEAM": NamespaceKind.TEAM, "GLOBAL": NamespaceKind.ORG}

_MEMORIES = table(
    "agent_memories",
    column("id", Uuid),
    column("workspace_id"),
    column("content", Text),
    column("scope", Text),
    column("created_at", DateTime(timezone=True)),
)
_WORKSPACE = cast(_MEMORIES.c.workspace_id, Text)
_CREATED = func.coalesce(cast(_MEMORIES.c.created_at, DateTime(timezone=True)), literal(OLDEST))


@dataclass(frozen=True, slots=True)
class LegacyCursor:
    """A row's place in the order of the table: the oldest first."""

    created_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class LegacyMemory:
    """One row of the table."""

    id: UUID
    workspace: str
    content: str = field(repr=False)
    scope: str
    created_at: datetime

    @property
    def place(self) -> LegacyCursor:
        """The row's place in the order of the table."""
        return LegacyCursor(self.created_at, self.id)


class LegacyMemories:
    """The table, by an engine whose sessions are in UTC. Every call raises LegacyUnreadable."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def ids(self, workspace: str | None = None, after: LegacyCursor | None = None) -> Sequence[UUID]:
        """Return the ids of all rows, or of a workspace's, in their order; with `after` of those after that place.

        They are read at once, sixteen bytes each: a table has no index by time, and a page would sort it anew.
        """
        query = _narrow_query(select(_MEMORIES.c.id), workspace).order_by(_CREATED, _MEMORIES.c.id)
        if after is not None:
            query = query.where(tuple_(_CREATED, _MEMORIES.c.id) > tuple_(literal(after.created_at), literal(after.id)))
        with _translate_errors():
            async with self._engine.connect() as connection:
                return (await connection.scalars(query)).all()

    async def rows(self, ids: Sequence[UUID]) -> AsyncIterator[LegacyMemory]:
        """Return the rows with these ids, in this order, page by page; no connection is held between two pages."""
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            with _translate_errors():
                async with self._engine.connect() as connection:
                    found = (await connection.execute(_ROWS.where(_MEMORIES.c.id.in_(page)))).all()
            known = {
                row.id: LegacyMemory(row.id, row.workspace, row.content, row.scope, row.created_at) for row in found
            }
            for one in page:
                if one in known:  # else it was deleted meanwhile
                    yield known[one]

    async def existing(self, ids: Sequence[UUID]) -> set[UUID]:
        """Return which of these ids the table has."""
        found = set[UUID]()
        with _translate_errors():
            async with self._engine.connect() as connection:
                for start in range(0, len(ids), PAGE):
                    page = ids[start : start + PAGE]
                    found.update(await connection.scalars(select(_MEMORIES.c.id).where(_MEMORIES.c.id.in_(page))))
        return found

    async def add(self, memory: LegacyMemory) -> bool:
        """Add a row unless its id exists; return whether it was added."""
        values = {
            "id": memory.id,
            "workspace_id": memory.workspace,
            "content": memory.content,
            "scope": memory.scope,
            "created_at": memory.created_at,
        }
        adding = (
            insert(_MEMORIES).values(values).on_conflict_do_nothing(index_elements=["id"]).returning(_MEMORIES.c.id)
        )
        with _translate_errors():
            async with self._engine.begin() as connection:
                return (await connection.execute(adding)).first() is not None


_ROWS = select(
    _MEMORIES.c.id,
    _WORKSPACE.label("workspace"),
    _MEMORIES.c.content,
    cast(_MEMORIES.c.scope, Text).label("scope"),
    _CREATED.label("created_at"),
)


def _narrow_query(query: Select[UUID], workspace: str | None) -> Select[UUID]:
    return query if workspace is None else query.where(_WORKSPACE.in_([workspace]))


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn the driver's errors, whose texts may hold rows, into LegacyUnreadable."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        cause = type(getattr(error, "orig", None) or error).__name__
    else:
        return
    raise LegacyUnreadable(f"the table agent_memories cannot be read or written ({cause}): see DATABASE_URL")
