"""`afterturn plugin`: serve the memory plugin; copy a platform's memories to a plugin; export and import them."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import platformdirs
import typer
from sqlalchemy import make_url

from deploy.api.__main__ import main as run_api
from deploy.api.plugin_address import LISTEN
from deploy.cli.output import exit_with, print_json
from deploy.cli.perimeter import perimeter_command
from deploy.cli.plugin_environment import (
    EmbedderOption,
    WorkspacesOption,
    create_model,
    describe_workspaces,
    make_tree,
    open_embedder,
    open_engine,
    plugin_address,
)
from deploy.cli.processes import ConfigOption, check_settings, config_arguments
from deploy.cli.row_progress import show_progress
from deploy.cli.times import parse_duration
from deploy.notices import print_notice, replace_unprintable
from producers.cutover.backfill import PATIENCE_S, Backfill
from producers.cutover.checkpoint import Checkpoint
from producers.cutover.errors import CutoverError
from producers.cutover.legacy import LegacyMemories
from producers.cutover.lines import iterate_lines
from producers.cutover.reverse import Reverse
from producers.cutover.transfer import Import, check_export, export_memories
from producers.cutover.verify import SAMPLE, Verify
from producers.perimeter.client import PluginClient
from producers.perimeter.errors import PerimeterError
from producers.perimeter.trees import WorkspaceTree
from store.errors import InvalidDatabaseUrl
from store.text.redaction import Redaction

#: Seconds that one request to the plugin may take where MEMORY_PLUGIN_TIMEOUT is not set.
TIMEOUT = "10s"

RedactionOption = Annotated[
    Redaction, typer.Option(help="Which secrets are replaced in texts: all, keys (no runs of base64), or off.")
]
PatienceOption = Annotated[
    timedelta,
    typer.Option(parser=parse_duration, metavar="TIME", help="How long to wait for a plugin that does not answer."),
]

plugin_app = typer.Typer(rich_markup_mode="markdown")


@plugin_app.callback(invoke_without_command=True)
def serve_command(
    context: typer.Context,
    *,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDR", help=f"HOST:PORT or unix:/PATH (default: plugin.listen, else {LISTEN})."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tenant whose memories are served (default: plugin.tenant).")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Serve the memory plugin (contract v1); its commands copy memories to a plugin, and back.

    Without a command it serves on the configured PostgreSQL and Redis until SIGTERM or Ctrl-C. Callers need no key, so
    that its one tenant must be named. Also reads MEMORY_PLUGIN_LISTEN_ADDR, _TENANT, _TOKEN and _DATABASE_URL.
    `afterturn up --plugin ADDR` serves the plugin together with the rest. Exits 2 for unusable settings.

    **Example:** `afterturn plugin --tenant acme --listen 127.0.0.1:9100`
    """
    if context.invoked_subcommand is not None:
        return
    settings = check_settings(config)
    whose = ["--plugin-tenant", tenant] if tenant else []
    address = listen or settings.plugin.listen or LISTEN
    raise typer.Exit(run_api(["--plugin-only", "--plugin-listen", address, *whose, *config_arguments(config)]))


plugin_app.command("perimeter")(perimeter_command)


@plugin_app.command("backfill")
def backfill_command(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be copied; do not call the plugin.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Copy; with --reverse, write back.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare a sample of workspaces; change nothing.")] = False,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="List what was written to the plugin since; with --apply, add it.")
    ] = False,
    verify_sample: Annotated[int, typer.Option(min=1, metavar="N", help="Workspaces to compare.")] = SAMPLE,
    workspace: Annotated[UUID | None, typer.Option(metavar="UUID", help="Only this workspace.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Rows to copy, at most.")] = 1_000_000,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit 1 when a row was skipped or failed.")] = False,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Checkpoint file (default: one for each pair of source and target)."),
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Start at the first row; ignore the checkpoint.")] = False,
    redaction: RedactionOption = Redaction.ALL,
    patience: PatienceOption = timedelta(seconds=PATIENCE_S),
    workspaces: WorkspacesOption = None,
    embedder: EmbedderOption = False,
    config: ConfigOption = None,
) -> None:
    """Copy the table `agent_memories` into a memory plugin, compare the two, or go back.

    Needs DATABASE_URL and MEMORY_PLUGIN_URL; MEMORY_PLUGIN_TOKEN, _CA_FILE and _TIMEOUT are used where they are set.
    Rows keep their ids, so that the command is idempotent; an interrupted run resumes. Exits 0 on completion, 1 on
    failure, for a mismatch, or with --strict for a skipped or failed row; 2 for wrong usage. `memory-backfill` is the
    same command.

    **Example:** `afterturn plugin backfill --verify --verify-sample 200`
    """
    modes = [dry_run and not reverse, apply and not reverse, verify, reverse]
    if sum(modes) != 1:
        raise exit_with("specify exactly one of -dry-run, -apply, -verify (or -reverse, alone or with -apply)", 2)
    only = str(workspace) if workspace else None
    patience_s = patience.total_seconds()
    model = create_model(config) if embedder else None

    async def copy(source: LegacyMemories, tree: WorkspaceTree, plugin: PluginClient) -> bool:
        checkpoint = None if dry_run else _open_checkpoint(state, only, restart=restart)
        async with open_embedder(model) as vectors:
            with show_progress() as advance:
                run = Backfill(
                    source,
                    tree,
                    None if dry_run else plugin,
                    checkpoint,
                    only,
                    limit,
                    redaction,
                    patience_s,
                    _print_line,
                    advance,
                    embedder=vectors,
                )
                try:
                    await run.run()
                finally:
                    print(run.tally, flush=True)
        if run.tally.left:
            print_notice(f"{run.tally.left} rows are beyond -limit and were not copied; run it again to go on")
        return run.tally.clean or not strict

    async def compare(source: LegacyMemories, tree: WorkspaceTree, plugin: PluginClient) -> bool:
        run = Verify(source, tree, plugin, only, verify_sample, redaction, patience_s, _print_line)
        print(await run.run(), flush=True)
        return run.verdict.holds and not (strict and run.verdict.skipped)

    async def go_back(source: LegacyMemories, tree: WorkspaceTree, plugin: PluginClient) -> bool:
        run = Reverse(source, tree, plugin, only, apply, _print_line)
        print(await run.run(), flush=True)
        return run.tally.clean or not strict

    _run_work(copy if modes[0] or modes[1] else compare if verify else go_back, workspaces)


@plugin_app.command("export")
def export_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")],
    *,
    redaction: RedactionOption = Redaction.ALL,
    workspaces: WorkspacesOption = None,
) -> None:
    """Export the memories of all workspaces from a memory plugin to JSON Lines, each memory once with its id.

    Exits 1 when the plugin does not list a namespace completely; the file says so too. Needs MEMORY_PLUGIN_URL, and
    DATABASE_URL unless --workspaces holds the tree itself.

    **Example:** `afterturn plugin export memories.jsonl`
    """

    async def write(_: LegacyMemories | None, tree: WorkspaceTree, plugin: PluginClient) -> bool:
        try:
            opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise exit_with(f"{file} cannot be made ({error.strerror})", 2) from None
        with os.fdopen(opened, "wb") as out:
            count, cut_off = await export_memories(plugin, tree, out, redaction, _print_line)
        print_json({"exported": count, "cut_off": cut_off})
        return not cut_off

    _run_work(write, workspaces, needs_source=False)


@plugin_app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A file of `export`.")],
    *,
    redaction: RedactionOption = Redaction.ALL,
    patience: PatienceOption = timedelta(seconds=PATIENCE_S),
    embedder: EmbedderOption = False,
    config: ConfigOption = None,
) -> None:
    """Import an exported file into a memory plugin. Memories keep their ids: the command is idempotent.

    A truncated file is refused before anything is written. Exits 1 when a memory was skipped or failed. Needs
    MEMORY_PLUGIN_URL.

    **Example:** `afterturn plugin import memories.jsonl`
    """
    model = create_model(config) if embedder else None

    async def read() -> bool:
        async with _open_plugin() as plugin, open_embedder(model) as vectors:
            run = Import(plugin, redaction, patience.total_seconds(), _print_line, embedder=vectors)
            with file.open("rb") as lines:
                check_export(iterate_lines(lines))
                lines.seek(0)
                try:
                    await run.run(iterate_lines(lines))
                finally:
                    print_json(run.tally.as_json())
        return run.tally.imported == run.tally.total

    _exit_with(read)


# -- how they are run

Work = Callable[[Any, WorkspaceTree, PluginClient], Awaitable[bool]]


def _run_work(work: Work, workspaces: Path | None, *, needs_source: bool = True) -> None:
    """Run the work with the environment's plugin and database; exits 0, 1, or 2 when it cannot start."""
    described = describe_workspaces(workspaces)
    database = os.environ.get("DATABASE_URL", "")
    if not database and (needs_source or "workspaces" not in described):
        raise exit_with("DATABASE_URL is required", 2)

    async def with_all() -> bool:
        async with _open_plugin() as plugin, open_engine(database) as engine:
            source = LegacyMemories(engine) if engine else None
            tree = make_tree(workspaces, described, engine)
            return await work(source, tree, plugin)

    _exit_with(with_all)


def _exit_with(work: Callable[[], Awaitable[bool]]) -> None:
    async def done() -> bool:
        return await work()

    try:
        holds = asyncio.run(done())
    except InvalidDatabaseUrl as error:
        raise exit_with(f"DATABASE_URL {error}", 2) from None
    except (CutoverError, PerimeterError) as error:
        raise exit_with(str(error), 1) from None
    raise typer.Exit(0 if holds else 1)


@asynccontextmanager
async def _open_plugin() -> AsyncIterator[PluginClient]:
    """Yield a client of the environment's plugin without a circuit breaker; the caller waits for it."""
    address = plugin_address(TIMEOUT)
    if address is None:
        raise exit_with("MEMORY_PLUGIN_URL is required", 2)
    try:
        client = PluginClient(address)
    except PerimeterError as error:
        raise exit_with(str(error), 2) from None
    async with client:
        yield client


def _open_checkpoint(state: Path | None, workspace: str | None, *, restart: bool) -> Checkpoint:
    """Return the checkpoint of this pair of source and target."""
    source = make_url(os.environ["DATABASE_URL"])
    named = f"{source.host}:{source.port}/{source.database} {workspace or 'all workspaces'}"
    target = os.environ["MEMORY_PLUGIN_URL"].rstrip("/")
    number = hashlib.sha256(f"{named} {target}".encode()).hexdigest()[:16]
    file = state or platformdirs.user_state_path("afterturn") / "memory-backfill" / f"{number}.json"
    checkpoint = Checkpoint(file, named, target)
    if not restart:
        checkpoint.load()
    if checkpoint.after:
        print_notice(f"going on behind id={checkpoint.after.id} ({file}; --restart begins anew)")
    return checkpoint


def _print_line(line: str) -> None:
    print(replace_unprintable(line), flush=True)
