"""`memory-backfill` and `afterturn plugin` as an operator meets them: flags, environment, lines, exit codes, kills."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncConnection
from typer.testing import CliRunner

from deploy.cli import row_progress
from deploy.cli.app import build_cli
from deploy.cli.memory_backfill import translate_flags
from producers.contract_kit.flat_plugin import FlatHandler
from tests.patience import PATIENCE_S, until
from tests.processes import spawned
from tests.producers.cutover.legacy_database import LegacyDatabase, PagingStore, ws
from tests.producers.perimeter.plugins import RecordedCalls, recorded
from tests.servers import TestPostgres

COMMAND = [sys.executable, "-P", "-c", "from deploy.cli.memory_backfill import main; main()"]


@pytest_asyncio.fixture(loop_scope="session")
async def legacy(servers: tuple[TestPostgres, object], administrator: AsyncConnection) -> AsyncIterator[LegacyDatabase]:
    database = await servers[0].create(f"legacy_{uuid4().hex}", "template0", by=administrator)
    opened = await LegacyDatabase.open(database)
    await opened.grow({"root": None, "self": "root"})
    yield opened
    await opened.close()
    await database.drop(by=administrator)


@dataclass
class Plugin:
    store: PagingStore
    url: str
    sent: RecordedCalls


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Plugin]:
    store = PagingStore(tmp_path / "away")
    with recorded(store, FlatHandler) as (url, sent):
        yield Plugin(store, url, sent)


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def closing(self) -> str:
        return self.out.splitlines()[-1] if self.out else ""


def environment(database: str, url: str, folder: Path) -> dict[str, str]:
    unset = dict.fromkeys(("MEMORY_PLUGIN_TOKEN", "MEMORY_PLUGIN_TIMEOUT", "MEMORY_PLUGIN_CA_FILE"), "")
    named = {"DATABASE_URL": database, "MEMORY_PLUGIN_URL": url, "XDG_STATE_HOME": str(folder / "state")}
    return unset | named


async def ran(arguments: list[str], named: dict[str, str], command: str = "backfill") -> Ran:
    """Run a command in a thread, with an event loop of its own; with the flags of Go."""
    given = ["plugin", command, *translate_flags(arguments)]
    result = await asyncio.to_thread(CliRunner().invoke, build_cli("plugin"), given, env=named)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def process_of(arguments: list[str], named: dict[str, str]) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run the console script as a process."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return spawned([*COMMAND, *arguments], env=os.environ | named, text=True, **streams)


def test_flags_may_have_the_forms_of_go() -> None:
    given = ["-dry-run", "--apply=true", "-verify=false", "-verify-sample=200", "-limit", "5", "--workspace", "x", "-1"]
    assert list(translate_flags(given)) == [
        "--dry-run",
        "--apply",
        "--verify-sample=200",
        "--limit",
        "5",
        "--workspace",
        "x",
        "-1",
    ]


@pytest.mark.parametrize(
    "arguments, said",
    [([], "specify exactly one of"), (["-dry-run", "-apply"], "specify exactly one of"),
     (["-verify", "-reverse"], "specify exactly one of"), (["-apply"], "DATABASE_URL is required"),
     (["-apply", "-limit", "0"], "limit"), (["-apply", "-workspace", "x"], "workspace"), (["-aply"], "aply")],
)  # fmt: skip
async def test_wrong_usage_ends_with_status_2_and_flags_are_looked_at_before_the_environment(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    result = await ran(arguments, environment("", "", tmp_path))
    assert (result.status, result.out) == (2, "")
    assert said in result.err


async def test_a_missing_plugin_or_an_unusable_database_url_ends_with_status_2(tmp_path: Path) -> None:
    result = await ran(["-apply"], environment("postgres://u:hush@127.0.0.1:1/x", "", tmp_path))
    assert (result.status, "MEMORY_PLUGIN_URL is required" in result.err) == (2, True)
    result = await ran(["-apply"], environment("mysql://u:hush@127.0.0.1/x", "http://127.0.0.1:9", tmp_path))
    assert (result.status, "DATABASE_URL" in result.err, "hush" in result.err) == (2, True, False)


@pytest.mark.live
async def test_the_whole_way_over_processes_a_kill_and_back(
    legacy: LegacyDatabase, plugin: Plugin, tmp_path: Path
) -> None:
    contents = [f"memory {number}" for number in range(450)]
    await legacy.remember("self", "LOCAL", *contents)
    before = await legacy.rows()
    named = environment(legacy.url.replace("postgresql+asyncpg", "postgres"), plugin.url, tmp_path)

    dry = await ran(["-dry-run"], named)
    assert (dry.status, dry.closing) == (0, "Backfill complete: scanned=450 copied=450 skipped=0 errors=0")
    assert dry.out.count("[dry] id=") == 450
    assert not plugin.sent.calls

    with process_of(["-apply"], named) as process:
        await until(lambda: len(plugin.store.memories) >= 150, "150 memories are copied")
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    plugin.sent.calls.clear()
    with process_of(["-apply"], named) as process:
        out, err = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
        again = Ran(process.returncode, out, err)
    assert again.status == 0
    copied = int(re.findall(r"copied=(\d+)", again.closing)[0])
    assert len(plugin.sent.bodies("POST", "/memories")) == copied < 450
    assert "going on behind" in again.err
    assert plugin.store.contents(f"workspace:{ws('self')}") == contents

    verified = await ran(["-verify", "-verify-sample=200"], named)
    assert (verified.status, verified.closing) == (
        0,
        "Verify complete: workspaces_sampled=2 matches=2 mismatches=0 errors=0",
    )
    new = plugin.store.write(f"workspace:{ws('self')}", {"content": "new", "kind": "fact", "source": "agent"})
    listed = await ran(["-reverse"], named)
    assert (listed.status, listed.closing) == (0, "Reverse complete: listed=1 written=0 skipped=0 gone=0 errors=0")
    assert f"[new] id={new['id']}" in listed.out
    assert (await ran(["-reverse", "-apply"], named)).closing.startswith("Reverse complete: listed=1 written=1")
    assert (await legacy.rows())[: len(before)] == before
    assert len(await legacy.rows()) == 451

    plugin.store.memories.popitem()
    next(iter(plugin.store.memories.values()))["content"] = "another"
    assert (await ran(["-verify"], named)).status == 1


async def test_skips_are_visible_and_fatal_with_strict_alone(
    legacy: LegacyDatabase, plugin: Plugin, tmp_path: Path
) -> None:
    await legacy.remember("self", "NOWHERE", "x")
    named = environment(legacy.url, plugin.url, tmp_path)
    for arguments, status in ((["-apply"], 0), (["-apply", "-strict"], 1), (["-verify", "-strict"], 1)):
        result = await ran(arguments, named)
        assert (result.status, "[skip] id=" in result.out) == (status, True)


async def test_without_a_terminal_lines_say_how_far_it_is_and_when_it_will_be_over(
    legacy: LegacyDatabase, plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await legacy.remember("self", "LOCAL", *(f"memory {number}" for number in range(5)))
    monkeypatch.setattr(row_progress, "TELL_EVERY_S", 0.0)
    result = await ran(["-apply"], environment(legacy.url, plugin.url, tmp_path))
    assert result.status == 0
    assert re.search(r"^.*\b5 of 5 rows, about 0:00:00 left$", result.err, re.MULTILINE), result.err


async def test_a_plugin_that_is_not_there_is_given_up_with_status_1(legacy: LegacyDatabase, tmp_path: Path) -> None:
    await legacy.remember("self", "LOCAL", "x")
    result = await ran(["-apply", "--patience", "1s"], environment(legacy.url, "http://127.0.0.1:9", tmp_path))
    assert result.status == 1
    assert result.closing == "Backfill complete: scanned=1 copied=0 skipped=0 errors=0"
    assert "the plugin was away for 1 s" in result.err


async def test_an_export_is_imported_elsewhere_by_a_tree_in_a_file(
    legacy: LegacyDatabase, plugin: Plugin, tmp_path: Path
) -> None:
    await legacy.remember("self", "LOCAL", *"abc")
    tree, file = tmp_path / "tree.yaml", tmp_path / "memories.jsonl"
    tree.write_text(f"workspaces: [{{id: '{ws('root')}'}}, {{id: '{ws('self')}', parent: '{ws('root')}'}}]")
    named = environment(legacy.url, plugin.url, tmp_path)
    assert (await ran(["--apply", "--workspaces", str(tree)], named)).status == 0
    named["DATABASE_URL"] = ""
    exported = await ran([str(file), "--workspaces", str(tree)], named, "export")
    assert (exported.status, json.loads(exported.out)) == (0, {"exported": 3, "cut_off": 0})
    assert (await ran([str(file), "--workspaces", str(tree)], named, "export")).status == 2
    assert file.stat().st_mode & 0o077 == 0
    other = PagingStore(tmp_path / "elsewhere")
    with recorded(other) as (url, _):
        for _again in range(2):
            imported = await ran([str(file)], environment("", url, tmp_path), "import")
            counts = {"imported": 3, "skipped": 0, "errors": 0, "total": 3}
            assert (imported.status, json.loads(imported.out)) == (0, counts)
    assert other.contents(f"workspace:{ws('self')}") == ["a", "b", "c"]
    file.write_bytes(file.read_bytes()[:-20])
    assert (await ran([str(file)], environment("", plugin.url, tmp_path), "import")).status == 1
