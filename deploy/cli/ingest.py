"""`afterturn ingest`: a file of conversations goes into memory."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from afterturn_client import Afterturn, RetryPolicy
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from deploy.cli.document import WholeFile
from deploy.cli.formats import LONGEST_LINE, Format, detect, parse, session_name
from deploy.cli.ingest_sources import Origins, title_of
from deploy.cli.output import answer, console, ended, printable, say
from deploy.cli.running_stack import BankOption, DataOption, JsonOption, client_of, ending_well, running_stack
from deploy.cli.turn_sender import PATIENCE_S, Feeder, GaveUp, Tally

HEAD_BYTES = 1 << 20
TIMEOUT_S = 30.0
#: A file of nothing but bad lines should not fill the terminal; `--json` lists them all.
SHOWN_PROBLEMS = 100


def ingest_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to read, or - for standard input.")],
    *,
    bank: BankOption = "default",
    session: Annotated[
        str | None, typer.Option(help="The session of a chat or transcript (default: the file's name).")
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="What the file holds (default: seen from how it begins).")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds to keep trying while the service does not answer.")
    ] = PATIENCE_S,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remember a file of conversations, or a document. Running it twice changes nothing.

    Three formats are known: JSON Lines with the fields of `POST /api/v1/turns`, one turn a line; OpenAI chat
    messages, as an array or `{"messages": [...]}`, a turn being a user message and what follows it; and plain
    transcripts, `Name: text` a line. A bad line is reported with its number and the rest goes on (exit 1).
    A file becomes a document that its turns name. With `--format document`, a plain-text or Markdown file is
    taken in whole and cut into units.

    **Example:** `afterturn ingest chat.json --bank work`
    """
    stack = running_stack(data)
    with _opened(file) as stream:
        found = form or detect(stream.peek(HEAD_BYTES))  # type: ignore[attr-defined]  # every opened stream has it
        if found is None:
            raise ended(f"{file}: cannot see what this is; say --format jsonl, chat, transcript or document", 2)
        with client_of(stack, bank, timeout_s=TIMEOUT_S, retry=RetryPolicy(pauses_s=())) as client, ending_well(stack):
            path = Path("stdin" if file == "-" else file)
            if found is Format.DOCUMENT:
                _run_document(client, WholeFile(stream, title_of(path), bank), patience, as_json=as_json)
            items = parse(stream, found, session or session_name(path.name), LONGEST_LINE)
            if path.is_file() and file != "-":
                items = Origins(client, path, bank, patience).mark(items)
            _run(client, items, _size(file), patience, as_json=as_json)


def _run(client: Afterturn, items: Iterator[Any], size: int | None, patience: float, *, as_json: bool) -> None:
    started = time.monotonic()
    problem = ""
    with _progress(size) as (shown, advanced):
        feeder = Feeder(client, shown.problem, shown.waiting, advanced, patience)
        shown.tally = feeder.tally
        try:
            feeder.feed(items)
        except KeyboardInterrupt:
            problem = "interrupted"
        except GaveUp as error:
            problem = f"gave up: {error}"
    tally = feeder.tally
    if as_json:
        answer(_as_json(tally, time.monotonic() - started))
    else:
        console().print(_in_words(tally, time.monotonic() - started))
    if problem:
        say(
            f"{problem} after line {tally.last_line}; {tally.accepted + tally.duplicates} turns are stored. "
            "Run the same command again to go on: nothing is stored twice."
        )
    raise typer.Exit(0 if tally.clean and not problem else 1)


def _run_document(client: Afterturn, whole: WholeFile, patience: float, *, as_json: bool) -> None:
    started = time.monotonic()
    try:
        tally, receipt = whole.feed(client, patience)
    except GaveUp as error:
        raise ended(f"gave up: {error}. Run the same command again: nothing is stored twice", 1) from None
    seconds = time.monotonic() - started
    cut = {} if receipt is None else {"doc_id": receipt.doc_id, "units": receipt.units}
    if as_json:
        answer({**_as_json(tally, seconds), **cut})
    else:
        console().print(_in_words(tally, seconds) + "".join(f"; {name} {value}" for name, value in cut.items()))
    for bad in tally.bad_lines:
        say(bad.error)
    raise typer.Exit(0 if tally.clean else 1)


class _Shown:
    """What a person sees meanwhile: bad lines, waits, and how far it is."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._problems = 0
        self.tally = Tally()

    def problem(self, line: int, error: str) -> None:
        self._problems += 1
        if self._problems <= SHOWN_PROBLEMS:
            self._print(f"line {line}: {error}")
        elif self._problems == SHOWN_PROBLEMS + 1:
            self._print("more lines are bad; --json lists them all")

    def waiting(self, problem: str) -> None:
        self._print(f"waiting for the service: {problem}")

    def _print(self, line: str) -> None:
        self._progress.console.print(f"afterturn: {printable(line)}", soft_wrap=True)


@contextmanager
def _progress(size: int | None) -> Iterator[tuple[_Shown, Any]]:
    """Show a bar on standard error while the block runs, when a person is there to see it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    target = Console(stderr=True, markup=False, highlight=False, emoji=False)
    progress = Progress(*columns, TimeRemainingColumn(), console=target, transient=True, disable=not target.is_terminal)
    with progress:
        shown = _Shown(progress)
        task = progress.add_task("0 turns", total=size)

        def advanced(offset: int) -> None:
            progress.update(task, completed=offset, description=f"{shown.tally.read} turns")

        yield shown, advanced


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    """Open the file, or standard input, with a buffer that can be peeked into; ends with status 2."""
    source = sys.stdin.fileno() if file == "-" else file
    try:
        stream = open(source, "rb", HEAD_BYTES, closefd=file != "-")  # noqa: SIM115 - it may be a descriptor
    except (OSError, ValueError) as error:
        raise ended(f"{file}: {getattr(error, 'strerror', None) or 'cannot be opened'}", 2) from None
    with stream:
        yield stream


def _size(file: str) -> int | None:
    return Path(file).stat().st_size if file != "-" and Path(file).is_file() else None


def _as_json(tally: Tally, seconds: float) -> dict[str, Any]:
    return {
        "read": tally.read,
        "accepted": tally.accepted,
        "duplicates": tally.duplicates,
        "conflicts": tally.conflicts,
        "bad_lines": [{"line": bad.line, "error": bad.error} for bad in tally.bad_lines],
        "position": tally.position,
        "seconds": round(seconds, 3),
    }


def _in_words(tally: Tally, seconds: float) -> str:
    return (
        f"{tally.read} read: {tally.accepted} new, {tally.duplicates} known already, {tally.conflicts} in conflict, "
        f"{len(tally.bad_lines)} bad; position {tally.position}; {seconds:.1f} s"
    )
