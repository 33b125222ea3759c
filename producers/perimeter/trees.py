"""Trees of workspaces: paths to the root, read anew at every call, because a tree may change at any time."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml
from sqlalchemy import ColumnElement, Label, Text, cast, column, literal, select, table, true
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from producers.perimeter.errors import (
    OrphanedWorkspace,
    TreeTooDeep,
    TreeUnreadable,
    WorkspaceCycle,
    WorkspaceNotFound,
)

#: Most parents from a workspace to its root.
MOST_HOPS = 50


@dataclass(frozen=True, slots=True)
class Workspace:
    """One workspace; `parent` None: it is a root."""

    id: str
    parent: str | None = None
    name: str | None = None


class WorkspaceTree(Protocol):
    """The protocol of a tree of workspaces."""

    async def path_to_root(self, workspace_id: str) -> Sequence[Workspace]:
        """Return the workspaces from this one to its root, parent by parent. Raises TreeError."""
        ...

    async def workspace_ids(self) -> Sequence[str]:
        """Return the ids of all workspaces, in their order. Raises TreeError."""
        ...


def walk_to_root(known: Mapping[str, Workspace], workspace_id: str) -> Sequence[Workspace]:
    """Return the path from a workspace to its root, given the parents. Raises TreeError."""
    if workspace_id not in known:
        raise WorkspaceNotFound("there is no such workspace")
    path = [known[workspace_id]]
    passed = {workspace_id}
    while (parent := path[-1].parent) is not None:
        if parent in passed:
            raise WorkspaceCycle("the parents of the workspace lead back to one that was passed: mend the tree")
        if len(path) > MOST_HOPS:
            raise TreeTooDeep(f"the root of the workspace is more than {MOST_HOPS} parents away")
        if parent not in known:
            raise OrphanedWorkspace("a parent of the workspace does not exist: mend the tree")
        passed.add(parent)
        path.append(known[parent])
    return path


class FileTree:
    """A tree in a JSON or YAML file: `{"workspaces": [{"id": "a", "parent": null, "name": "Acme"}, ...]}`."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def path_to_root(self, workspace_id: str) -> Sequence[Workspace]:
        """Return the path from a workspace to its root, by the current file. Raises TreeError."""
        return walk_to_root(await asyncio.to_thread(self._read), workspace_id)

    async def workspace_ids(self) -> Sequence[str]:
        """Return the ids of all workspaces. Raises TreeError."""
        return sorted(await asyncio.to_thread(self._read))

    def _read(self) -> Mapping[str, Workspace]:
        try:
            text = self._file.read_text()
            listed = (json.loads(text) if self._file.suffix == ".json" else yaml.safe_load(text))["workspaces"]
            found = [Workspace(one["id"], one.get("parent"), one.get("name")) for one in listed]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
            problem = type(error).__name__
        else:
            texts = all(isinstance(one.id, str) and isinstance(one.parent, str | None) for one in found)
            known = {one.id: one for one in found}
            if texts and len(known) == len(found):
                return known
            problem = "each id must be a text that stands there once, each parent a text or null"
        raise TreeUnreadable(f"the file of workspaces ({self._file.name}) cannot be read: {problem}")


@dataclass(frozen=True, slots=True)
class TreeTable:
    """Names of a platform's table of workspaces and its columns; `status_column` None: no workspace is removed."""

    table: str = "workspaces"
    schema: str | None = None
    id_column: str = "id"
    parent_column: str = "parent_id"
    name_column: str | None = "name"
    status_column: str | None = "status"
    removed_status: str = "removed"


class TableTree:
    """A tree in a PostgreSQL table: one query a call; ids may be of any type and are compared as text."""

    def __init__(self, engine: AsyncEngine, layout: TreeTable | None = None) -> None:
        self._engine, self._layout = engine, layout or TreeTable()
        layout = self._layout
        columns = (layout.id_column, layout.parent_column, layout.name_column, layout.status_column)
        self._table = table(
            layout.table, *(column(name) for name in dict.fromkeys(columns) if name), schema=layout.schema
        )

    async def path_to_root(self, workspace_id: str) -> Sequence[Workspace]:
        """Return the path from a workspace to its root, by the current table. Raises TreeError."""
        inner, layout = self._table, self._layout
        own, parent = inner.c[layout.id_column], inner.c[layout.parent_column]
        # A table of workspaces is small: the first row may be looked for as text, its parents come by their keys.
        path = (
            select(own, parent, self._name(), literal(0).label("hop"))
            .where(cast(own, Text) == workspace_id, self._exists())
            .cte("path", recursive=True)
        )
        below = path.alias()
        path = path.union_all(
            select(own, parent, self._name(), below.c.hop + 1).where(
                own == below.c[layout.parent_column], self._exists(), below.c.hop <= MOST_HOPS
            )
        )
        rows = select(
            cast(path.c[layout.id_column], Text), cast(path.c[layout.parent_column], Text), path.c.name
        ).order_by(path.c.hop)
        try:
            async with self._engine.connect() as connection:
                found = (await connection.execute(rows)).all()
        except (SQLAlchemyError, OSError) as error:
            raise _build_unreadable(error) from None
        return walk_to_root({row[0]: Workspace(*row) for row in found}, workspace_id)

    async def workspace_ids(self) -> Sequence[str]:
        """Return the ids of the workspaces that are not removed. Raises TreeUnreadable."""
        own = cast(self._table.c[self._layout.id_column], Text)
        try:
            async with self._engine.connect() as connection:
                return list(await connection.scalars(select(own).where(self._exists()).order_by(own)))
        except (SQLAlchemyError, OSError) as error:
            raise _build_unreadable(error) from None

    def _name(self) -> Label[Any]:
        name = self._layout.name_column
        return (cast(self._table.c[name], Text) if name else literal(None, Text)).label("name")

    def _exists(self) -> ColumnElement[bool]:
        status = self._layout.status_column
        return cast(self._table.c[status], Text).is_distinct_from(self._layout.removed_status) if status else true()


def _build_unreadable(error: Exception) -> TreeUnreadable:
    return TreeUnreadable(f"the table of workspaces cannot be read ({type(error).__name__})")
