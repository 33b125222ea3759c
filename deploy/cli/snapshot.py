"""`afterturn snapshot`: export a tenant's memory to a file, and import it into another deployment."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from afterturn_client.contract.snapshots import Snapshot, SnapshotList

from deploy.cli.entry_point import INTERRUPTED
from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import as_api_json, create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.cli.snapshot_conversion import convert_document, convert_snapshot
from deploy.cli.snapshot_files import (
    UnfinishedFile,
    check_name,
    check_snapshot,
    is_snapshot,
    open_snapshot,
    read_rules,
)
from deploy.cli.snapshot_transfer import BATCH_SIZE, PATH, SnapshotImport, export_snapshot
from deploy.components.bootstrap import HOST
from deploy.notices import print_notice, replace_unprintable
from deploy.tables import ResultTable
from producers.cutover.errors import CutoverError
from producers.service.snapshots import BATCH
from store.errors import StoreError
from store.snapshot.portal_form import Conversion
from store.text.redaction import Redaction

snapshot_app = create_group()

TenantOption = Annotated[str, typer.Option("--host", metavar="NAME", help="The tenant (host).")]


@snapshot_app.command("export")
def export_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file to write; `.gz` and `.zst` are compressed; - for standard output."
        ),
    ],
    *,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="A part to export (repeatable): agent_memory, agent_session_history. Without one, no content.",
        ),
    ] = None,
    host: TenantOption = HOST,
    bank: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Export this bank alone (repeatable).")] = None,
    mask: Annotated[
        bool, typer.Option("--mask", help="Replace names, numbers, addresses, secrets and uncommon words by marks.")
    ] = False,
    override: Annotated[
        bool, typer.Option("--override", help="Export history although this is production; it must be masked.")
    ] = False,
    digest_key: Annotated[
        bool,
        typer.Option("--digest-key", help="Send the key of the tenant's digests along, sealed (gateway.sealing_keys)."),
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export a tenant's log to JSON Lines of CloudEvents; an interrupted export goes on when it is called again.

    The file holds what the log held when the export began. The service keeps a row of each export, which a later
    erasure names in its receipt.

    **Example:** `afterturn snapshot export acme.jsonl.gz --host acme --include agent_memory`
    """
    api = OperatorApi(find_running_stack(data))
    asked = {"include": include or [], "mask": mask, "override": override, "digest_key": digest_key}
    with _exit_on_unusable_file(file), _named_output(file, as_json=as_json) as named:
        snapshot = export_snapshot(api, named, {"tenant": host, **asked, **({"banks": bank} if bank else {})})
    if as_json:
        print_json(as_api_json(snapshot))
        return
    if named == file:
        _print_snapshot(snapshot)
    if not snapshot.parts:
        print_notice("no part was named, so the file holds no content: --include agent_memory")


@snapshot_app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A snapshot, or - for standard input.")],
    *,
    host: TenantOption = HOST,
    from_tenant: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="The tenant that the snapshot is of, where it is another one."),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Replacement rules of names and ids: a JSON list of `{field, from, to}`, field bankName, sessionName, "
            "turnName, userName, agentName, userId or agentDefId.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check every event; change nothing.")] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="End with the first event that fails.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, max=BATCH, help="Events of one request.")] = BATCH_SIZE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import a snapshot; it may be run again, and an interrupted import goes on when it is called again.

    Events that the log knows change nothing, and what the tenant has erased does not come back. Events whose parent is
    missing are parked in FILE.parked.jsonl, which can be imported later. Exits 1 when an event failed or was parked.

    Into another tenant (`--from`), or under replacement rules, every id is derived anew from the names, references are
    rewritten, and content stays as it is. Import later snapshots of the same tenant under the same rules.

    **Example:** `afterturn snapshot import acme.jsonl.gz --host acme --dry-run`

    **Example:** `afterturn snapshot import acme.jsonl.gz --host acme-staging --from acme --rules rules.json`
    """
    api, names = OperatorApi(find_running_stack(data)), set[str]()
    with _exit_on_unusable_file(file), _named_file(file) as named:
        with open_snapshot(named) as lines:
            total = check_snapshot(lines, names)
        replaced = read_rules(rules) if rules else []
        asked = {"tenant": host, "dry_run": dry_run, "rules": replaced}
        if from_tenant is not None:
            asked["from_tenant"] = from_tenant
        snapshot = SnapshotImport(api, named, asked, sorted(names), fail_fast=fail_fast).run(total, batch_size)
    if as_json:
        print_json(as_api_json(snapshot))
    else:
        _print_snapshot(snapshot)
    if snapshot.counts.get("failed") or snapshot.counts.get("parked"):
        raise typer.Exit(1)


@snapshot_app.command("convert")
def convert_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A snapshot, or an export of light-portal; - for standard input.")
    ],
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The file to write, as that of an export; - for standard output."),
    ],
    *,
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="The tenant that light-portal's rows become.")] = (
        HOST
    ),
    redaction: Annotated[
        Redaction, typer.Option(help="Which secrets are replaced in light-portal's texts: keys, all, or off.")
    ] = Redaction.KEYS,
    as_json: JsonOption = False,
) -> None:
    """Convert a snapshot to light-portal's form, or an export of light-portal to a snapshot; no service is called.

    A snapshot becomes a JSON array of CloudEvents. The array, or a JSON object with the rows of `tables`, becomes a
    snapshot of the tenant `--host`. Converting the same file twice gives the same bytes. The page on snapshots lists
    what light-portal's form drops. Exits 1 when a row was refused, 2 for wrong usage.

    **Example:** `afterturn snapshot convert acme.jsonl.gz portal.json`

    **Example:** `afterturn snapshot convert portal.json acme.jsonl.gz --host acme`
    """
    done = Conversion()
    again = "the same command begins anew"
    with (
        _exit_on_unusable_file(out, again),
        _named_file(file) as named,
        _named_output(out, as_json=as_json) as written,
    ):
        unfinished = UnfinishedFile(written)
        unfinished.discard()
        try:
            if is_snapshot(named):
                convert_snapshot(named, unfinished, done)
            else:
                convert_document(named, written, host, redaction, done)
        except StoreError as error:
            raise exit_with(str(error), 2) from None
        unfinished.finish()
    for refused in done.named:
        print_notice(f"[refused] {replace_unprintable(refused)}")
    if as_json:
        print_json({"counts": dict(sorted(done.counts.items()))})
    elif written == out:
        table = ResultTable("", "", show_header=False)
        for name, number in sorted(done.counts.items()):
            table.add_values(name, str(number))
        create_console().print(table)
    if done.counts["refused"]:
        raise typer.Exit(1)


@snapshot_app.command("list")
def list_command(*, host: TenantOption = HOST, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List a tenant's exports and imports, the newest first.

    **Example:** `afterturn snapshot list --host acme`
    """
    answer = OperatorApi(find_running_stack(data)).call("GET", PATH, tenant=host)
    if as_json:
        print_json(answer)
        return
    table = ResultTable("snapshot", "kind", "status", "parts", "masked", "events", "by", "begun")
    for one in read_answer(SnapshotList, answer).snapshots:
        events = one.counts.get("events", one.counts.get("total", 0))
        parts = ", ".join(one.parts) or "no content"
        masked, begun = "yes" if one.masked else "no", one.started_at.isoformat(timespec="seconds")
        table.add_values(str(one.snapshot_id), one.kind, one.status, parts, masked, str(events), one.made_by, begun)
    create_console().print(table)


def _print_snapshot(snapshot: Snapshot) -> None:
    table = ResultTable("", "", show_header=False)
    table.add_values("snapshot", str(snapshot.snapshot_id))
    table.add_values("holds", ", ".join(snapshot.parts) or "no content")
    table.add_values("masked", "yes" if snapshot.masked else "no")
    for name, number in snapshot.counts.items():
        table.add_values(name, str(number))
    create_console().print(table)


@contextmanager
def _exit_on_unusable_file(
    written: Path, again: str = "the same command goes on where this one ended"
) -> Iterator[None]:
    """Exit with a line where a file cannot be used or written, and on Ctrl-C."""
    try:
        yield
    except CutoverError as error:
        raise exit_with(str(error), 2) from None
    except BrokenPipeError:  # the reader of a pipe went away: typer ends such a command quietly
        raise
    except OSError as error:
        raise exit_with(
            f"{error.filename or written} cannot be written ({error.strerror or error}): {again}", 1
        ) from None
    except KeyboardInterrupt:
        raise exit_with(f"interrupted: {again}", INTERRUPTED) from None


@contextmanager
def _named_output(file: Path, *, as_json: bool) -> Iterator[Path]:
    """Yield the file to write; for standard output one of its own, which is written there when it is whole."""
    if str(file) != "-":
        check_name(file)
        yield file
        return
    if as_json:
        raise exit_with("--json and - both want the standard output: name a file", 2)
    with tempfile.TemporaryDirectory(prefix="afterturn-") as folder:
        kept = Path(folder) / "snapshot.jsonl"
        yield kept
        with kept.open("rb") as whole:
            shutil.copyfileobj(whole, sys.stdout.buffer)
        sys.stdout.flush()


@contextmanager
def _named_file(file: Path) -> Iterator[Path]:
    """Yield the file; standard input is kept in a file of its own meanwhile, since it is read twice."""
    if str(file) != "-":
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="afterturn-") as folder:
        kept = Path(folder) / "snapshot.jsonl"
        with kept.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        yield kept
