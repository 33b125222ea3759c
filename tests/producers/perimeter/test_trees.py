"""Trees of workspaces, in a file and in PostgreSQL: the way to the root, and what keeps it from being found."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from producers.perimeter.errors import (
    InvalidCall,
    NotPermitted,
    OrphanedWorkspace,
    TreeError,
    TreeTooDeep,
    TreeUnreadable,
    WorkspaceCycle,
    WorkspaceNotFound,
)
from producers.perimeter.namespaces import derive_namespaces, readable_entries, writable_entry
from producers.perimeter.trees import FileTree, TableTree, TreeTable, Workspace, walk_to_root
from store.connections import create_engine
from tests.servers import TestPostgres
from tests.tables import each_row

Rows = Sequence[tuple[str, str | None]]
FAMILY: Rows = [("root", None), ("team", "root"), ("self", "team"), ("sibling", "team")]
#: Each with the workspace that is asked for, and what is wrong with its way to the root.
BROKEN: Sequence[tuple[str, Rows, type[TreeError]]] = [
    ("absent", FAMILY, WorkspaceNotFound),
    ("self", [("self", "gone")], OrphanedWorkspace),
    ("a", [("a", "a")], WorkspaceCycle),
    ("a", [("a", "b"), ("b", "c"), ("c", "b")], WorkspaceCycle),
    ("0", [(str(n), str(n + 1)) for n in range(51)] + [("51", None)], TreeTooDeep),
]
DEEPEST: Rows = [(str(n), str(n + 1)) for n in range(50)] + [("50", None)]


def known(rows: Rows) -> dict[str, Workspace]:
    return {own: Workspace(own, parent) for own, parent in rows}


def written(file: Path, rows: Rows) -> FileTree:
    file.write_text(json.dumps({"workspaces": [{"id": own, "parent": parent, "name": own} for own, parent in rows]}))
    return FileTree(file)


# -- rules


def test_a_workspace_reaches_exactly_its_own_its_teams_and_its_organisations_namespace() -> None:
    entries = derive_namespaces(walk_to_root(known(FAMILY), "self"))
    assert [(one.name, one.kind.value, one.writable) for one in entries] == [
        ("workspace:self", "workspace", True),
        ("team:team", "team", True),
        ("org:root", "org", False),
    ]
    assert "display_name" not in entries[0].as_json()


def test_a_root_is_its_own_team_and_alone_writes_the_organisations() -> None:
    entries = derive_namespaces(walk_to_root(known(FAMILY), "root"))
    assert [(one.name, one.writable) for one in entries] == [
        ("workspace:root", True),
        ("team:root", True),
        ("org:root", True),
    ]


def test_the_root_may_be_fifty_parents_away() -> None:
    assert derive_namespaces(walk_to_root(known(DEEPEST), "0"))[2].name == "org:50"


@each_row("own, rows, error", BROKEN)
def test_a_way_that_does_not_end_at_a_root_is_an_error_of_its_own(own: str, rows: Rows, error: type[TreeError]) -> None:
    with pytest.raises(error):
        walk_to_root(known(rows), own)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["a", "b", "c", "d", "e", "f", "x", None]))))
def test_any_tree_gives_a_root_or_a_typed_error(rows: Rows) -> None:
    tree = known(rows)
    for own in "abcdef":
        try:
            path = walk_to_root(tree, own)
        except TreeError:
            continue
        assert path[0].id == own
        assert path[-1].parent is None
        assert len({one.id for one in path}) == len(path)


def test_an_id_that_cannot_name_a_namespace_reaches_nothing() -> None:
    with pytest.raises(InvalidCall, match="cannot name"):
        derive_namespaces([Workspace("a b")])


def test_what_is_foreign_and_what_does_not_exist_are_refused_in_the_same_words() -> None:
    entries = derive_namespaces(walk_to_root(known(FAMILY), "self"))
    said = set()
    for name in ("workspace:sibling", "workspace:absent", "org:root", "workspace:self\n", "workspace%3Aself"):
        with pytest.raises(NotPermitted) as caught:
            writable_entry(entries, name)
        said.add(str(caught.value))
    assert len(said) == 1
    assert readable_entries(entries, ["workspace:sibling", "team:team"]) == (entries[1],)


# -- in a file


async def test_a_file_is_read_anew_at_every_call(tmp_path: Path) -> None:
    tree = written(tmp_path / "tree.json", FAMILY)
    assert [one.id for one in await tree.path_to_root("self")] == ["self", "team", "root"]
    written(tmp_path / "tree.json", [*FAMILY[:2], ("self", "root")])
    assert [one.id for one in await tree.path_to_root("self")] == ["self", "root"]
    assert await tree.workspace_ids() == ["root", "self", "team"]


async def test_a_file_may_be_yaml(tmp_path: Path) -> None:
    file = tmp_path / "tree.yaml"
    file.write_text("workspaces:\n- {id: a, name: Acme}\n- {id: b, parent: a}\n")
    assert await FileTree(file).path_to_root("b") == [Workspace("b", "a"), Workspace("a", None, "Acme")]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"workspaces": [{"id": 7}]}', '{"workspaces": [{"id": "a"}, {"id": "a"}]}', '{"workspaces": [1]}'],
)
async def test_a_file_that_says_no_tree_reaches_nothing(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tree.json"
    file.write_text(content)
    with pytest.raises(TreeUnreadable, match=r"tree\.json"):
        await FileTree(file).path_to_root("a")
    with pytest.raises(TreeUnreadable):
        await FileTree(tmp_path / "absent.json").workspace_ids()


# -- in PostgreSQL


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engine(postgres: TestPostgres) -> AsyncIterator[AsyncEngine]:
    engine = create_engine(postgres.superuser_url)
    yield engine
    await engine.dispose()


@pytest_asyncio.fixture(loop_scope="session")
async def schema(engine: AsyncEngine) -> AsyncIterator[str]:
    name = f'Odd "{uuid4().hex}'
    quoted = '"' + name.replace('"', '""') + '"'
    async with engine.begin() as connection:
        await connection.execute(text(f"create schema {quoted}"))
        await connection.execute(
            text(f'create table {quoted}."Work" (key text primary key, "over" text, title text, state text)')
        )
    yield name
    async with engine.begin() as connection:
        await connection.execute(text(f"drop schema {quoted} cascade"))


async def fill(engine: AsyncEngine, schema: str, rows: Rows) -> None:
    quoted = '"' + schema.replace('"', '""') + '"'
    async with engine.begin() as connection:
        await connection.execute(text(f'truncate {quoted}."Work"'))
        for own, parent in rows:
            values = {"own": own, "parent": parent}
            await connection.execute(
                text(f"""insert into {quoted}."Work" values (:own, :parent, upper(:own), 'active')"""), values
            )


def layout(schema: str) -> TreeTable:
    return TreeTable("Work", schema, "key", "over", "title", "state", "removed")


async def test_a_table_gives_the_same_ways_as_a_file(engine: AsyncEngine, schema: str) -> None:
    tree = TableTree(engine, layout(schema))
    await fill(engine, schema, FAMILY)
    assert await tree.path_to_root("self") == [
        Workspace("self", "team", "SELF"),
        Workspace("team", "root", "TEAM"),
        Workspace("root", None, "ROOT"),
    ]
    assert await tree.workspace_ids() == ["root", "self", "sibling", "team"]
    for own, rows, error in BROKEN:
        await fill(engine, schema, rows)
        with pytest.raises(error):
            await tree.path_to_root(own)
    await fill(engine, schema, DEEPEST)
    assert (await tree.path_to_root("0"))[-1].id == "50"


async def test_a_removed_workspace_reaches_nothing_and_orphans_its_children(engine: AsyncEngine, schema: str) -> None:
    tree, quoted = TableTree(engine, layout(schema)), '"' + schema.replace('"', '""') + '"'
    await fill(engine, schema, FAMILY)
    async with engine.begin() as connection:
        await connection.execute(text(f"""update {quoted}."Work" set state = 'removed' where key = 'team'"""))
    with pytest.raises(WorkspaceNotFound):
        await tree.path_to_root("team")
    with pytest.raises(OrphanedWorkspace):
        await tree.path_to_root("self")
    assert await tree.workspace_ids() == ["root", "self", "sibling"]


async def test_ids_may_be_uuids_and_a_table_without_status_has_none_removed(engine: AsyncEngine, schema: str) -> None:
    quoted, own, parent = '"' + schema.replace('"', '""') + '"', uuid4(), uuid4()
    async with engine.begin() as connection:
        await connection.execute(text(f"create table {quoted}.workspaces (id uuid primary key, parent_id uuid)"))
        await connection.execute(
            text(f"insert into {quoted}.workspaces values (:parent, null), (:own, :parent)"),
            {"own": own, "parent": parent},
        )
    tree = TableTree(engine, TreeTable(schema=schema, name_column=None, status_column=None))
    assert await tree.path_to_root(str(own)) == [Workspace(str(own), str(parent)), Workspace(str(parent))]
    with pytest.raises(WorkspaceNotFound):
        await tree.path_to_root("no uuid; drop table workspaces")


async def test_a_table_that_is_not_there_is_named_as_that(engine: AsyncEngine) -> None:
    with pytest.raises(TreeUnreadable, match="table"):
        await TableTree(engine, TreeTable("absent")).path_to_root("a")
    with pytest.raises(TreeUnreadable, match="table"):
        await TableTree(engine, TreeTable("absent")).workspace_ids()
