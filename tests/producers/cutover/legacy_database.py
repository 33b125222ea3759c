"""A platform's database as it was before: workspaces, and the memories that agents wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from producers.contract_kit.flat_plugin import Body
from store.connections import create_engine
from tests.producers.contract_kit.reference import ReferenceStore
from tests.servers import TestPostgres

SPACE = UUID("0b6b8f0e-6a1e-4a52-9d0b-6f7f7f0c3a11")
FIRST = datetime(2025, 1, 1, tzinfo=UTC)
SCHEMA = (
    "create table workspaces (id uuid primary key, parent_id uuid references workspaces, name text, status text)",
    """create table agent_memories (
        id uuid primary key default gen_random_uuid(), workspace_id uuid not null references workspaces,
        content text not null, scope varchar(10), created_at timestamptz default now(),
        updated_at timestamptz default now(), namespace varchar(50) default 'general')""",
)


def uid(name: object) -> UUID:
    return uuid5(SPACE, str(name))


def ws(name: str) -> str:
    return str(uid(f"workspace {name}"))


@dataclass
class LegacyDatabase:
    """The database, and how to fill it."""

    url: str
    engine: AsyncEngine

    @classmethod
    async def open(cls, database: TestPostgres) -> "LegacyDatabase":
        made = cls(database.superuser_url, create_engine(database.superuser_url))
        async with made.engine.begin() as connection:
            for statement in SCHEMA:
                await connection.execute(text(statement))
        return made

    async def grow(self, parents: Mapping[str, str | None]) -> None:
        """Add workspaces, each after its parent."""
        for name, parent in parents.items():
            values = {"id": uid(f"workspace {name}"), "parent": uid(f"workspace {parent}") if parent else None}
            await self.run("insert into workspaces values (:id, :parent, :name, 'active')", **values, name=name)

    async def remember(self, workspace: str, scope: str, *contents: str, after: int = 0) -> list[str]:
        """Add memories, a minute apart; return their ids."""
        ids = list[str]()
        for number, content in enumerate(contents, after):
            values: dict[str, Any] = {
                "id": uid(f"{workspace} {scope} {content}"),
                "workspace": uid(f"workspace {workspace}"),
                "content": content,
                "scope": scope,
                "at": FIRST + timedelta(minutes=number),
            }
            await self.run(
                "insert into agent_memories (id, workspace_id, content, scope, created_at) "
                "values (:id, :workspace, :content, :scope, :at)",
                **values,
            )
            ids.append(str(values["id"]))
        return ids

    async def run(self, statement: str, **values: Any) -> None:
        async with self.engine.begin() as connection:
            await connection.execute(text(statement), values)

    async def rows(self) -> Sequence[tuple[str, str, str, str, datetime]]:
        async with self.engine.connect() as connection:
            found = await connection.execute(
                text("""
                select id::text, workspace_id::text, content, scope, created_at from agent_memories
                 order by created_at, id""")
            )
            return [tuple(row) for row in found]

    async def close(self) -> None:
        await self.engine.dispose()


class PagingStore(ReferenceStore):
    """A plugin with every capability, that keeps a memory's time and lists beyond a hundred."""

    capabilities = (*ReferenceStore.capabilities, "created_at", "cursor")

    def memory_fields(self, body: Body) -> Body:
        return super().memory_fields(body) | {name: body[name] for name in ("created_at",) if name in body}

    def search(self, body: Body) -> Body:
        with self.lock:
            answer = super().search(body)
            return answer | ({"next_cursor": self.next} if self.next else {})

    def ranked(self, found: list[Body], body: Body) -> list[Body]:
        ordered, start = super().ranked(found, body), int(body.get("cursor", 0))
        end = start + (body.get("limit") or 20)
        self.next = str(end) if end < len(ordered) else None
        return ordered[start:]

    def contents(self, namespace: str) -> list[str]:
        kept = [one for (name, _), one in self.memories.items() if name == namespace]
        return [one["content"] for one in sorted(kept, key=lambda one: (one["created_at"], one["id"]))]
