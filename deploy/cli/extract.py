"""`afterturn extract` and `afterturn embed`: run a newer extractor or embedding model over stored turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import typer
from sqlalchemy.ext.asyncio import AsyncConnection

from deploy.cli.existence import require_existing
from deploy.cli.ledger_rows import BankFilter
from deploy.cli.operator_command import AuditedAct, run_audited, run_on_database
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.cli.times import parse_duration
from deploy.components.reprocessing import ReprocessingProgress, ReprocessingScope, reprocess_turns
from deploy.local.stack import Stack
from deploy.notices import print_notice
from store.database import Database
from store.derived import readings
from store.derived.generations import read_live
from store.derived.readings import Unread
from store.derived.unit_vectors import (
    derive_reembedding_id,
    find_reflections_without_vectors,
    find_turns_without_vectors,
)
from store.ledger.stages import Stage
from store.tenancy.call_audit import NO_HOST
from store.text.rules import VERSION
from workers.extraction.events import reading_id
from workers.extraction.llm.request import derive_version

HostOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only this tenant (host).")]
BankOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only this bank of --host.")]
AheadOption = Annotated[int, typer.Option(min=1, max=100_000, help="Turns in flight at a time.")]
TimeoutOption = Annotated[
    str, typer.Option(metavar="TIME", help="How long to wait until the work is done: 30s, 15m, 6h.")
]


@dataclass(frozen=True, slots=True)
class Reextraction:
    """Reprocessing by a version of an extractor."""

    version: str
    stage: Stage = Stage.ENRICHMENT
    command: str = "extract"

    async def lacking(
        self, connection: AsyncConnection, host: UUID, bank: UUID | None, after: int, limit: int
    ) -> Sequence[Unread]:
        """Return turns that the version has not read."""
        return await readings.read_unread_turns(connection, host, self.version, bank=bank, after=after, limit=limit)

    def item(self, one: Unread) -> UUID:
        """Return the id of the ledger row in which this version reads the turn."""
        return reading_id(one.turn, self.version)


@dataclass(frozen=True, slots=True)
class Reembedding:
    """Reprocessing by the embedding model of a generation."""

    generation: int
    stage: Stage = Stage.EMBEDDING
    command: str = "embed"

    async def lacking(
        self, connection: AsyncConnection, host: UUID, bank: UUID | None, after: int, limit: int
    ) -> Sequence[Unread]:
        """Return turns with a text, and reflections, that have no vector of this generation."""
        found = [
            one
            for lacking in (find_turns_without_vectors, find_reflections_without_vectors)
            for one in await lacking(connection, host, self.generation, bank=bank, after=after, limit=limit)
        ]
        return sorted(found, key=lambda one: one.position)[:limit]

    def item(self, one: Unread) -> UUID:
        """Return the id of the ledger row in which this generation embeds the turn."""
        return derive_reembedding_id(one.turn, self.generation, one.position)


def extract_command(
    *,
    version: Annotated[
        str | None, typer.Option(metavar="V", help="Version of the extractor (default: the LLM's, else the rules').")
    ] = None,
    host: HostOption = None,
    bank: BankOption = None,
    ahead: AheadOption = 256,
    timeout: TimeoutOption = "6h",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a newer extractor over turns that it has not processed yet, while the service runs.

    Versions are `rules-18`, and `llm-5:MODEL` when the running stack has an LLM configured. The stack's workers do the
    work with the stack's settings, not with those of this shell. Each version processes a turn once; facts of other
    versions stay and are not repeated. An interrupted run resumes when it is started again. Exits 1 when turns are
    left.

    **Example:** `afterturn extract --version rules-18 --bank default --json`
    """
    stack = find_running_stack(data)
    versions = _list_versions(stack)
    chosen = version or versions[-1]
    if chosen not in versions:
        raise exit_with(f"the stack has no extractor of this version; it has: {', '.join(versions)}", 2)
    progress = _run_reprocessing(stack, Reextraction(chosen), BankFilter(host, bank), ahead, timeout)
    _print_progress({"version": chosen}, progress, as_json=as_json)


def embed_command(
    *,
    host: HostOption = None,
    bank: BankOption = None,
    ahead: AheadOption = 1024,
    timeout: TimeoutOption = "6h",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Embed texts that have no vector of the live model, while the service runs.

    This includes texts without a turn, such as those of `afterturn generate`.

    The stack's workers embed with the model whose vectors are live; settings of this shell have no effect. Another
    model is built and made live by `afterturn embeddings`. An interrupted run resumes when it is started again. Exits 1
    when turns are left.

    **Example:** `afterturn embed --json`
    """
    stack = find_running_stack(data)
    live = run_on_database(stack, read_live)
    if live is None:
        raise exit_with("no model is live yet: a worker that embeds makes its own the first", 1)
    progress = _run_reprocessing(stack, Reembedding(live.number), BankFilter(host, bank), ahead, timeout)
    _print_progress({"model": live.model, "generation": live.number}, progress, as_json=as_json)


def _list_versions(stack: Stack) -> list[str]:
    """Return the extractor versions of this stack, the best one last."""
    return [VERSION, *([derive_version(stack.enrichment.model)] if stack.enrichment.enabled else [])]


def _run_reprocessing(
    stack: Stack, course: Reextraction | Reembedding, place: BankFilter, ahead: int, timeout: str
) -> ReprocessingProgress:
    seconds, scope = parse_duration(timeout).total_seconds(), ReprocessingScope(place.host_id, place.bank_id)
    require_existing(stack, place.host, place.bank)

    async def run(database: Database, act: AuditedAct) -> ReprocessingProgress:
        progress = await reprocess_turns(database, course, scope, ahead=ahead, timeout_s=seconds, say=print_notice)
        act.rows = progress.opened
        return progress

    return run_audited(stack, course.command, scope.host or NO_HOST, run)


def _print_progress(what: dict[str, Any], progress: ReprocessingProgress, *, as_json: bool) -> None:
    numbers = {
        "turns": progress.turns,
        "opened": progress.opened,
        "left": progress.left,
        "seconds": round(progress.seconds, 2),
    }
    if as_json:
        print_json({**what, **numbers})
    else:
        create_console().print(
            f"{progress.turns} turns lacked it, {progress.opened} opened now, {progress.left} left "
            f"({progress.seconds:.1f} s)"
        )
    if progress.left:
        print_notice("look at what is left with `afterturn jobs list`")
        raise typer.Exit(1)
