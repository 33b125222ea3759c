"""`afterturn ingest`: store a file of conversations or a document."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Annotated, Any, BinaryIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from afterturn_client import Afterturn, RetryPolicy
from afterturn_client.message_times import local_times_of, read_time
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from deploy.cli.entry_point import INTERRUPTED
from deploy.cli.ingest_sources import DocumentFile, SourceRegistrar, derive_title
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack, open_client
from deploy.cli.text_encoding import read_as_utf8
from deploy.cli.turn_sender import PATIENCE_S, SentCounts, ServiceUnresponsive, TurnSender
from deploy.ingest_formats.chat import SessionChoice
from deploy.ingest_formats.formats import LONGEST_LINE, LOOKED_FOR, Format, detect_format, parse_file
from deploy.ingest_formats.parsed import Parsed, Unrecognised
from deploy.ingest_formats.refused_forms import name_refused
from deploy.ingest_formats.whatsapp import DateOrder
from deploy.notices import print_notice, replace_unprintable

HEAD_BYTES = 1 << 20
TIMEOUT_S = 30.0
#: Most bad lines that are printed; `--json` lists them all.
SHOWN_PROBLEMS = 100


def ingest_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to read, or - for standard input.")],
    *,
    bank: Annotated[str, typer.Option(help="The bank of lines that name none.")] = "default",
    session: Annotated[
        str | None,
        typer.Option(help="The session of a chat or transcript (default: the chat's own id, else the file's name)."),
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="Format of the file (default: detected from its beginning).")
    ] = None,
    dates: Annotated[
        DateOrder | None,
        typer.Option(help="How an export of WhatsApp writes its dates (default: as the file itself shows)."),
    ] = None,
    began: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="When a recorded meeting began, such as 2026-05-24T10:00:00+02:00."),
    ] = None,
    zone: Annotated[
        str,
        typer.Option(
            metavar="ZONE",
            help="Time zone of times without an offset or with its abbreviation, such as Asia/Kolkata. Give a longer "
            "export the same one: with another, its messages are stored once more.",
        ),
    ] = "UTC",
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds to keep retrying while the service does not answer.")
    ] = PATIENCE_S,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store a file of conversations, or a document. Running it twice changes nothing.

    Known are JSON Lines with the fields of `POST /api/v1/turns`, one turn a line; messages of OpenAI, Anthropic,
    Gemini, LangChain, LangGraph or the Vercel AI SDK, as an array, `{"messages": [...]}` or JSON Lines, and exports of
    ChatGPT, Claude, Open WebUI, LibreChat, Gemini CLI, Copilot CLI, Goose and Cline, a turn being a user message and
    what follows it; session files of Claude Code, Codex and Qwen Code, with the turns that hooks store; exports of
    Telegram, Discord, Slack, Teams, Messenger, Google Chat, Matrix, WhatsApp and Signal, each message a turn, without
    what the program wrote; meetings of Zoom, Teams, Google Meet and Otter (WebVTT, SRT, text), whose times count from
    `--began`, the file's name or its title; the history of Aider, Markdown exports of Cursor and SpecStory; and
    transcripts, `Name: text` a line. A file in no known form is refused (exit 2). A bad line is reported with its
    number and the rest goes on (exit 1). Turns are named by their message's id or text: a
    longer export stores what is new. Times without a zone are those of `--zone`. WhatsApp's 01/02/2026 is read as the
    file shows (a day above 12, the order of its messages); a file that shows nothing is refused until `--dates` tells.
    A file becomes a document that its turns name. With `--format document`, a plain-text or Markdown file is taken in
    whole and cut into units.

    **Example:** `afterturn ingest chat.json --bank work`
    """
    stack = find_running_stack(data)
    with local_times_of(_read_zone(zone)), _open_source(file) as stream:
        recorded = _read_beginning(began)
        found = form or _detect_format(file, stream.peek(HEAD_BYTES))  # type: ignore[attr-defined]  # each stream has it
        with open_client(stack, bank, timeout_s=TIMEOUT_S, retry=RetryPolicy(pauses_s=())) as client:
            path = Path("stdin" if file == "-" else file)
            if found is Format.DOCUMENT:
                _ingest_document(client, DocumentFile(stream, derive_title(path), bank), patience, as_json=as_json)
            sessions = SessionChoice(path.name, session)
            parsed = parse_file(stream, found, sessions, LONGEST_LINE, dates=dates, began=recorded)
            items = _refuse_unrecognised(file, parsed)
            if path.is_file() and file != "-":
                items = SourceRegistrar(client, path, bank, patience).mark(items)
            _ingest_items(client, items, _measure_source(file), patience, as_json=as_json)


def _read_beginning(told: str | None) -> datetime | None:
    """Return a time that was given; exits 2 where it cannot be read."""
    at = None if told is None else read_time(told)
    if told is not None and at is None:
        raise exit_with("--began: not a time that can be read; write it as 2026-05-24T10:00:00+02:00", 2)
    return at


def _read_zone(name: str) -> tzinfo:
    """Return the time zone of a name; exits 2 where there is none."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise exit_with("--zone: not a known time zone; write its name as Europe/Berlin or Asia/Kolkata", 2) from None


def _detect_format(file: str, head: bytes) -> Format:
    found = detect_format(head)
    if found is None and (named := name_refused(head)):
        raise exit_with(f"{file}: {named}", 2)
    if found is None:
        raise exit_with(
            f"{file}: its format is not recognised; {LOOKED_FOR}. If it is one of them, give --format (see "
            "afterturn ingest --help); a text without speakers is stored with --format document",
            2,
        )
    return found


def _refuse_unrecognised(file: str, items: Iterator[Parsed]) -> Iterator[Parsed]:
    """Yield the items; exit 2 where none of the file's messages is in a known form."""
    for item in items:
        if isinstance(item, Unrecognised):
            raise exit_with(f"{file}: {item.error}", 2)
        yield item


def _ingest_items(client: Afterturn, items: Iterator[Any], size: int | None, patience: float, *, as_json: bool) -> None:
    started = time.monotonic()
    problem, status = "", 0
    with _show_progress(size) as (shown, advanced):
        feeder = TurnSender(client, shown.problem, shown.waiting, advanced, patience)
        shown.tally = feeder.tally
        try:
            feeder.feed(items)
        except KeyboardInterrupt:
            problem, status = "interrupted", INTERRUPTED
        except ServiceUnresponsive as error:
            problem, status = f"gave up: {error}", 1
    tally = feeder.tally
    if as_json:
        print_json(_serialise_tally(tally, time.monotonic() - started))
    else:
        create_console().print(_describe_tally(tally, time.monotonic() - started))
    if problem:
        print_notice(
            f"{problem} after line {tally.last_line}; {tally.accepted + tally.duplicates} turns are stored. "
            "Run the same command again to go on: nothing is stored twice."
        )
    raise typer.Exit(status or (0 if tally.clean else 1))


def _ingest_document(client: Afterturn, whole: DocumentFile, patience: float, *, as_json: bool) -> None:
    started = time.monotonic()
    try:
        tally, receipt = whole.feed(client, patience)
    except ServiceUnresponsive as error:
        raise exit_with(f"gave up: {error}. Run the same command again: nothing is stored twice", 1) from None
    seconds = time.monotonic() - started
    cut = {} if receipt is None else {"doc_id": receipt.doc_id, "units": receipt.units}
    if as_json:
        print_json({**_serialise_tally(tally, seconds), **cut})
    else:
        create_console().print(
            _describe_tally(tally, seconds) + "".join(f"; {name} {value}" for name, value in cut.items())
        )
    for bad in tally.bad_lines:
        print_notice(bad.error)
    raise typer.Exit(0 if tally.clean else 1)


class _ProgressDisplay:
    """Prints bad lines and waits beside the progress bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._problems = 0
        self.tally = SentCounts()

    def problem(self, line: int, error: str) -> None:
        self._problems += 1
        if self._problems <= SHOWN_PROBLEMS:
            self._print(f"line {line}: {error}")
        elif self._problems == SHOWN_PROBLEMS + 1:
            self._print("more lines are bad; --json lists them all")

    def waiting(self, problem: str) -> None:
        self._print(f"waiting for the service: {problem}")

    def _print(self, line: str) -> None:
        self._progress.console.print(f"afterturn: {replace_unprintable(line)}", soft_wrap=True)


@contextmanager
def _show_progress(size: int | None) -> Iterator[tuple[_ProgressDisplay, Any]]:
    """Show a progress bar on standard error, if it is a terminal, while the block runs."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    target = Console(stderr=True, markup=False, highlight=False, emoji=False)
    progress = Progress(*columns, TimeRemainingColumn(), console=target, transient=True, disable=not target.is_terminal)
    with progress:
        shown = _ProgressDisplay(progress)
        task = progress.add_task("0 turns", total=size)

        def advanced(offset: int) -> None:
            progress.update(task, completed=offset, description=f"{shown.tally.read} turns")

        yield shown, advanced


@contextmanager
def _open_source(file: str) -> Iterator[BinaryIO]:
    """Open the file, or standard input for `-`, with a buffer that can be peeked into; exits 2 when it fails."""
    source = sys.stdin.fileno() if file == "-" else file
    try:
        stream = open(source, "rb", HEAD_BYTES, closefd=file != "-")  # noqa: SIM115 - it may be a descriptor
    except (OSError, ValueError) as error:
        raise exit_with(f"{file}: {getattr(error, 'strerror', None) or 'cannot be opened'}", 2) from None
    with stream:
        yield read_as_utf8(stream, HEAD_BYTES)


def _measure_source(file: str) -> int | None:
    return Path(file).stat().st_size if file != "-" and Path(file).is_file() else None


def _serialise_tally(tally: SentCounts, seconds: float) -> dict[str, Any]:
    return {
        "read": tally.read,
        "accepted": tally.accepted,
        "duplicates": tally.duplicates,
        "conflicts": tally.conflicts,
        "erased": tally.erased,
        "bad_lines": [{"line": bad.line, "error": bad.error} for bad in tally.bad_lines],
        "position": tally.position,
        "seconds": round(seconds, 3),
    }


def _describe_tally(tally: SentCounts, seconds: float) -> str:
    return (
        f"{tally.read} read: {tally.accepted} new, {tally.duplicates} known already, {tally.conflicts} in conflict, "
        f"{tally.erased} erased before, {len(tally.bad_lines)} bad; position {tally.position}; {seconds:.1f} s"
    )
