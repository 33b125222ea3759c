"""`afterturn memory`: import the folders of the file engine of the memory tools, and compare them with this service."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from afterturn_client import Afterturn, RetryPolicy

from deploy.cli.entry_point import INTERRUPTED
from deploy.cli.file_engine.comparison import Comparer, Comparison
from deploy.cli.file_engine.intake import FolderImport
from deploy.cli.file_engine.layout import SessionFolder, find_sessions
from deploy.cli.file_engine.records import BadRecord, Place, Record, read_records
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.row_progress import show_progress
from deploy.cli.running_stack import find_running_stack, open_client
from deploy.cli.turn_sender import PATIENCE_S, ServiceUnresponsive
from deploy.notices import print_notice, replace_unprintable
from deploy.tables import ResultTable

TIMEOUT_S = 30.0
#: Most bad records that are printed; `--json` lists them all.
SHOWN_PROBLEMS = 100
#: The file of recorded calls within the folder that is compared.
RECORDED = "before_turns.jsonl"
AGAIN = "Run the same command again to go on: nothing is stored twice."

FolderArgument = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="A project's folder, its folder `memory`, or the folder of one session."),
]
BankOption = Annotated[str, typer.Option(help="The bank (project) of the sessions.")]
PatienceOption = Annotated[
    float, typer.Option(min=0, help="Seconds to keep retrying while the service does not answer.")
]

memory_app = create_group()


@memory_app.command("import")
def import_command(
    folder: FolderArgument,
    *,
    bank: BankOption = "default",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check every file; ask no service, change nothing.")
    ] = False,
    patience: PatienceOption = PATIENCE_S,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import the sessions of a folder of the file engine. Running it again adds nothing.

    Both layouts are read, also mixed, and zstd archives: each event once, by its id. Turns keep their names, users and
    times. Facts are read from the turns, as always; a fact that no imported turn says, a model's say, is kept as a
    single memory with its end. Facts that have ended, and what the engine wrote about itself (compactions, insights,
    abstracts, metrics), are left out. A bad line is reported with its file, number and reason, and the rest goes on
    (exit 1). A turn that the service has under its name from another call stays as it is and is counted as a conflict.

    **Example:** `afterturn memory import ./project --bank project --dry-run`
    """
    sessions = _find_sessions(folder)
    with nullcontext() if dry_run else _open_client(data, bank) as client:
        problems = _Problems(folder)
        run = FolderImport(client, bank, problems.report, _tell_waiting, patience)
        problem, status = _run_until_stopped(lambda advance: run.run(sessions, advance))
    counted = run.as_json(problems.name_file)
    if as_json:
        print_json(counted)
    else:
        create_console().print(_describe_import(counted, dry_run=dry_run))
    if problem:
        print_notice(f"{problem} after {run.counts.sessions} of {len(sessions)} sessions. {AGAIN}")
    raise typer.Exit(status or (1 if counted["bad"] or counted["turns"].get("erased") else 0))


@memory_app.command("compare")
def compare_command(
    folder: FolderArgument,
    *,
    bank: BankOption = "default",
    recorded: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Recorded calls of memory_before_turn (default: DIR/{RECORDED})."),
    ] = None,
    patience: PatienceOption = PATIENCE_S,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a folder of the file engine, and recorded turns of its clients, with this service. Shows no content.

    Of each session: turns, items, facts and files beside ours, and the turns that are missing here. Of each recorded
    turn: the ids of the facts, whether they have one order, and the token counts; the same call is sent to this
    service, which writes nothing. A recorded turn is a line of JSON: the arguments of memory_before_turn, and in
    `output` what the client's own engine answered. Exits 1 where a turn is missing, a recorded fact is missing or in
    another place, or a record cannot be read.

    **Example:** `afterturn memory compare ./project --bank project --json`
    """
    sessions = _find_sessions(folder)
    calls = _find_recorded(folder, recorded)
    found, problems = Comparison(), _Problems(folder)
    with _open_client(data, bank) as client:
        comparer = Comparer(client, bank, patience)
        problem, status = _run_until_stopped(lambda advance: _compare(comparer, sessions, calls, found, advance))
    for bad in found.bad:
        problems.report(bad)
    told = {
        "sessions": found.sessions,
        "turns": found.turns,
        "bad": [problems.describe(bad) for bad in found.bad],
        "equal": found.is_equal and not found.bad and not problem,
    }
    if as_json:
        print_json(told)
    else:
        _print_comparison(found)
    if problem:
        print_notice(f"{problem}: what is shown was compared before")
    raise typer.Exit(status or (0 if told["equal"] else 1))


def _open_client(data: Path | None, bank: str) -> AbstractContextManager[Afterturn]:
    """Return a client of the running stack that leaves repeating to the command."""
    return open_client(find_running_stack(data), bank, timeout_s=TIMEOUT_S, retry=RetryPolicy(pauses_s=()))


def _find_sessions(folder: Path) -> list[SessionFolder]:
    try:
        found = find_sessions(folder)
    except OSError as error:
        raise exit_with(f"{folder}: {error.strerror or 'cannot be read'}", 2) from None
    if not found:
        raise exit_with(
            f"{folder}: holds no session of the file engine; looked for folders with events, memory_tiers, log.jsonl "
            "or the like, here and in `memory`",
            2,
        )
    return found


def _find_recorded(folder: Path, recorded: Path | None) -> list[Record | BadRecord]:
    if recorded is None and not (folder / RECORDED).is_file():
        return []
    file = recorded or folder / RECORDED
    if not file.is_file():
        raise exit_with(f"{file}: there is no such file", 2)
    return list(read_records(file))


def _compare(
    comparer: Comparer,
    sessions: list[SessionFolder],
    calls: list[Record | BadRecord],
    found: Comparison,
    advance: Callable[[int, int], None],
) -> None:
    total = len(sessions) + len(calls)
    for session in sessions:
        compared, bad = comparer.compare_session(session)
        found.sessions.append(compared)
        found.bad += bad
        advance(len(found.sessions), total)
    for number, call in enumerate(calls, 1):
        told = call if isinstance(call, BadRecord) else comparer.compare_turn(call)
        if isinstance(told, BadRecord):
            found.bad.append(told)
        else:
            found.turns.append(told)
        advance(len(sessions) + number, total)


def _run_until_stopped(run: Callable[[Callable[[int, int], None]], None]) -> tuple[str, int]:
    """Run with progress; return why it ended early, or nothing, and the exit status for that."""
    try:
        with show_progress("sessions") as advance:
            run(advance)
    except KeyboardInterrupt:
        return "interrupted", INTERRUPTED
    except ServiceUnresponsive as error:
        return f"gave up: {error}", 1
    return "", 0


class _Problems:
    """Prints bad records with their place, the first ones alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shown = 0

    def report(self, bad: BadRecord) -> None:
        self._shown += 1
        if self._shown <= SHOWN_PROBLEMS:
            print_notice(replace_unprintable(f"{self.name_file(bad.place)}:{bad.place.line}: {bad.reason}"))
        elif self._shown == SHOWN_PROBLEMS + 1:
            print_notice("more records are bad; --json lists them all")

    def describe(self, bad: BadRecord) -> dict[str, Any]:
        return {"file": self.name_file(bad.place), "line": bad.place.line, "reason": bad.reason}

    def name_file(self, place: Place) -> str:
        """Return the path of a file within the folder."""
        folder = self._folder.resolve()
        file = place.file.resolve()
        return str(file.relative_to(folder)) if file.is_relative_to(folder) else str(place.file)


def _tell_waiting(problem: str) -> None:
    print_notice(f"waiting for the service: {replace_unprintable(problem)}")


def _describe_import(counted: dict[str, Any], *, dry_run: bool) -> str:
    turns, facts = counted["turns"], counted["facts"]
    read = (
        f"{counted['sessions']} sessions; {counted['events']} events ({counted['repeated_events']} of them in several "
        f"files, {counted['own_events']} more of the engine's own), {len(counted['bad'])} bad records; "
    )
    ended = f"{facts['from_turns']} said by turns, {facts['ended']} ended"
    if dry_run:
        return read + f"{turns['read']} turns; facts: {facts['kept']} to keep, {ended}; nothing was changed"
    sent = f"{turns['accepted']} new, {turns['duplicates']} known already, {turns['conflicts']} in conflict"
    kept = f"{facts['kept']} kept, {facts['known']} known already, {ended}"
    return read + f"turns: {sent}, {turns['erased']} erased before; facts: {kept}; position {counted['position']}"


def _print_comparison(found: Comparison) -> None:
    console = create_console()
    table = ResultTable("session", "turns", "ours", "items", "ours", "missing", "facts", "ours", "files")
    for one in found.sessions:
        pairs = (str(one[name][side]) for name in ("turns", "items") for side in ("theirs", "ours"))
        facts = (str(len(one["facts"][side])) for side in ("theirs", "ours"))
        files = ", ".join(f"{name} {count}" for name, count in one["files"].items() if count)
        table.add_values(one["session_id"], *pairs, ", ".join(one["missing_turns"][:5]), *facts, files)
    console.print(table)
    if not found.turns:
        return
    table = ResultTable("session", "turn", "facts of both", "only theirs", "only ours", "order", "tokens", "ours")
    for one in found.turns:
        facts = one["facts"]
        both = str(len(facts["theirs"]) - len(facts["only_theirs"]))
        only = (", ".join(facts[name]) for name in ("only_theirs", "only_ours"))
        order = "same" if facts["same_order"] else "another"
        tokens = (str(one["tokens"][side]) for side in ("theirs", "ours"))
        table.add_values(one["session_id"], one["turn_id"], both, *only, order, *tokens)
    console.print(table)
